//! A long text that comes piece by piece, for callers who hold it in another form than UTF-8: it need never be whole.
//!
//! Owns: what of a piece waits for the next one. Must not know: how the pieces are made.
//! Cost: a search for the first and the last safe border of each piece; what lies beyond the last is copied.

use super::Tokenizer;
use super::borders::{first_border, last_border};

/// The encoder of one text. The ids are those of the whole text without any added vocabulary.
pub struct PiecewiseEncoder<'tokenizer> {
    tokenizer: &'tokenizer Tokenizer,
    /// What was pushed behind the last safe border.
    rest: String,
}

impl<'tokenizer> PiecewiseEncoder<'tokenizer> {
    pub(super) fn new(tokenizer: &'tokenizer Tokenizer) -> Self {
        Self { tokenizer, rest: String::new() }
    }

    /// Takes the next piece and appends the ids that do not depend on what follows it.
    pub fn push(&mut self, piece: &str, out: &mut Vec<u32>) {
        let (Some(first), Some(last)) = (first_border(piece, 0), last_border(piece)) else {
            self.rest.push_str(piece);
            return;
        };
        let (head, body) = piece.split_at(first);
        let (body, rest) = body.split_at(last - first);
        self.rest.push_str(head);
        self.encode_rest(out);
        self.tokenizer.encode_plain(body, out);
        self.rest.push_str(rest);
    }

    /// Appends the ids that are left.
    pub fn finish(mut self, out: &mut Vec<u32>) {
        self.encode_rest(out);
    }

    fn encode_rest(&mut self, out: &mut Vec<u32>) {
        self.tokenizer.encode_plain(&self.rest, out);
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::model::Version;

    proptest! {
        #[test]
        fn pieces_give_the_ids_of_the_whole(
            pieces in proptest::collection::vec("[a-zA-Z]{1,9}|[ \\t]{0,3}|\\r?\\n|[0-9]{1,5}|[!-/:-@]{1,4}|\\p{Han}{1,4}|[ぁ-ヺ]{1,4}|[é한\u{301}\u{3000}]{1,3}|\\PC{1,20}|([a-z]{1,5} ){1,9}", 0..20),
        ) {
            let tokenizer = Version::V4.tokenizer();
            let (mut whole, mut ids) = (Vec::new(), Vec::new());
            tokenizer.encode_plain(&pieces.concat(), &mut whole);
            let mut encoder = tokenizer.encode_piecewise();
            for piece in &pieces {
                encoder.push(piece, &mut ids);
            }
            encoder.finish(&mut ids);
            prop_assert_eq!(ids, whole);
        }
    }
}
