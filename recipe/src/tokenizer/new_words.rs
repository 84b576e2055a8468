//! Words that are more than one token and were merged before.
//!
//! Owns: what merging gave for such words, as long as no other word takes their place. Must not know: how words merge.
//! Cost: a fixed size, [`SLOTS`] times 32 bytes; one load to look up, one store to note. Never cleared.

#![allow(clippy::cast_possible_truncation, reason = "a hash is cut to a place")]

use super::prefetch::prefetch;
use super::words::Key;

/// Number of places; a word has one only.
const SLOTS: usize = 32_768;
/// Most tokens of a word that is noted.
pub(super) const TOKENS: usize = 4;
/// After the last token.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct NewWord {
    key: Key,
    ids: [u32; TOKENS],
}

/// A bounded table of words and their tokens, for one thread at a time.
pub(super) struct NewWords {
    slots: Box<[NewWord]>,
}

impl NewWords {
    pub(super) fn new() -> Self {
        Self { slots: vec![NewWord { key: Key::default(), ids: [NONE; TOKENS] }; SLOTS].into() }
    }

    /// The tokens of a word that was noted, [`NONE`] after the last.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<[u32; TOKENS]> {
        self.slots.get(place(key)).filter(|found| found.key == key).map(|found| found.ids)
    }

    /// Begins to load what is known of a word.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        prefetch(&self.slots, place(key));
    }

    /// Notes the tokens of a word, if they are few.
    #[inline]
    pub(super) fn note(&mut self, key: Key, tokens: &[u32]) {
        if tokens.len() <= TOKENS
            && let Some(slot) = self.slots.get_mut(place(key))
        {
            let mut ids = [NONE; TOKENS];
            for (target, &source) in ids.iter_mut().zip(tokens) {
                *target = source;
            }
            *slot = NewWord { key, ids };
        }
    }
}

#[inline]
fn place(key: Key) -> usize {
    (key.hash() >> (64 - SLOTS.ilog2())) as usize
}
