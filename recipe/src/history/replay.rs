//! Records that came back with a prompt: which stretches of its text have ids of their own.
//!
//! Owns the places of these stretches. Places come from the prompt's control tokens, so that a record has no say in them;
//! whether it says the truth is found out by its seal and then by the text itself.

use std::collections::HashMap;

use super::seal::Seal;
use super::stretch::{Stretch, read_number};
use crate::prompt::{Prompt, Turn};
use crate::special::Special;
use crate::tokenizer::Tokenizer;

/// Stretches by the place of their text in the prompt.
#[derive(Debug, Default)]
pub(crate) struct Replay(HashMap<usize, Stretch>);

impl Replay {
    /// What the records of `turns` say about `prompt`.
    pub(crate) fn new(prompt: &Prompt<'_>, turns: &[Turn<'_>], seal: &Seal) -> Self {
        let mut places = HashMap::new();
        for turn in turns {
            for body in turn.records.iter().filter_map(|record| seal.open(record)) {
                place(&body, prompt, turn.first, &mut places);
            }
        }
        Self(places)
    }

    /// Appends the ids of the text that stands at `position` of the prompt.
    pub(crate) fn encode(&self, text: &str, position: usize, tokenizer: &Tokenizer, out: &mut Vec<u32>) {
        let start = out.len();
        tokenizer.encode_plain(text, out);
        let own = self.0.get(&position).and_then(|stretch| stretch.apply(text, &out[start..], tokenizer));
        if let Some(own) = own {
            out.truncate(start);
            out.extend_from_slice(&own);
        }
    }
}

/// Finds the places of a record's stretches in the turn whose first control token after the one that opens it is `first`.
fn place(mut body: &[u8], prompt: &Prompt<'_>, first: usize, places: &mut HashMap<usize, Stretch>) {
    let marks = prompt.specials.get(first..).unwrap_or_default();
    let marks = marks.split(|span| span.special == Special::Eos).next().unwrap_or_default();
    let Some(thinking) = read_number(&mut body) else { return };
    // Where the prompt leaves reasoning out, the turn begins with what followed it.
    let skipped = match marks.first().map(|span| span.special) {
        Some(Special::ThinkingStart) => 0,
        Some(Special::ThinkingEnd) => thinking,
        _ => return,
    };
    while let Some(stretch) = Stretch::read(&mut body) {
        let mark = stretch.index.checked_sub(skipped).and_then(|index| marks.get(usize::try_from(index).ok()?));
        if let Some(mark) = mark {
            places.entry(mark.end).or_insert(stretch);
        }
    }
}
