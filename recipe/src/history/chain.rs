//! Whether a turn still says what the model wrote.
//!
//! Owns a running hash over text and control tokens, from the mark that opens a part of the turn (its reasoning, or what
//! follows) to any point in it. Both sides of a record compute it: while the answer is decoded, and in the next prompt.

use sha2::{Digest, Sha256};

use crate::special::Special;

/// Bytes kept of a hash. The seal keeps others from choosing them; they only have to tell texts apart.
pub(super) const CHECK: usize = 8;
/// Stands around control tokens, and never in text.
const MARK: [u8; 1] = [0xFF];

/// The hash of what a part says so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Chain(Sha256);

impl Chain {
    /// Takes text.
    pub(super) fn text(&mut self, text: &str) {
        self.0.update(text);
    }

    /// Takes a control token.
    pub(super) fn special(&mut self, spelling: &str) {
        self.0.update(MARK);
        self.0.update(spelling);
        self.0.update(MARK);
    }

    /// The hash so far, and of the mark that comes next, if newlines before it depend on it.
    pub(super) fn check(&self, next: Option<Special>) -> [u8; CHECK] {
        let hash = self.0.clone().chain_update(MARK).chain_update(next.map_or("", Special::key)).finalize();
        std::array::from_fn(|place| hash[place])
    }
}
