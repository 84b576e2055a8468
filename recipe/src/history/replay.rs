//! Records that came back with a prompt: which stretches of its text have ids of their own.
//!
//! Owns the places of these stretches. Places come from the prompt's control tokens, so that a record has no say in them;
//! whether it speaks of this turn is found out by its seal and by the hash of all that the turn says up to there. Cost: one
//! pass over the turns that have records.

use std::collections::HashMap;

use super::chain::Chain;
use super::seal::Seal;
use super::stretch::{Stretch, read_number};
use crate::prompt::{Prompt, Turn};
use crate::special::Special;
use crate::tokenizer::Tokenizer;

/// Stretches by the place of their text in the prompt.
#[derive(Debug, Default)]
pub(crate) struct Replay(HashMap<usize, Stretch>);

/// The records of one turn.
struct TurnRecords {
    /// Number of stretches before the end of thinking.
    thinking: u32,
    stretches: HashMap<u32, Stretch>,
}

impl Replay {
    /// What the records of `turns` say about `prompt`.
    pub(crate) fn new(prompt: &Prompt<'_>, turns: &[Turn<'_>], seal: &Seal) -> Self {
        let mut replay = Self::default();
        for turn in turns {
            if let Some(records) = TurnRecords::open(&turn.records, seal) {
                replay.place(records, prompt, turn.first);
            }
        }
        replay
    }

    /// Appends the ids of the text, which may be empty, that stands at `position` of the prompt.
    pub(crate) fn encode(&self, text: &str, position: usize, tokenizer: &Tokenizer, out: &mut Vec<u32>) {
        let start = out.len();
        tokenizer.encode_plain(text, out);
        if let Some(own) = self.0.get(&position).and_then(|stretch| stretch.apply(&out[start..], tokenizer)) {
            out.truncate(start);
            out.extend_from_slice(&own);
        }
    }

    /// Finds the places of stretches in the turn whose control tokens begin at `first`.
    fn place(&mut self, mut records: TurnRecords, prompt: &Prompt<'_>, first: usize) {
        let (mut chain, mut index) = (Chain::default(), 0);
        let (mut in_answer, mut agrees) = (false, true);
        for place in first..prompt.specials.len() {
            let mark = prompt.specials[place];
            match mark.special {
                Special::Eos => return,
                Special::ThinkingStart if place == first => {}
                // What follows reasoning stands for itself: a prompt may leave the reasoning out.
                Special::ThinkingEnd if !in_answer => {
                    (chain, index, in_answer, agrees) = (Chain::default(), records.thinking, true, true);
                }
                _ => {
                    chain.special(&prompt.text[mark.start..mark.end]);
                    index = index.saturating_add(1);
                }
            }
            let next = prompt.specials.get(place + 1);
            let end = next.map_or(prompt.text.len(), |next| next.start);
            chain.text(&prompt.text[mark.end..end]);
            let stretch = if agrees { records.stretches.remove(&index) } else { None };
            if let Some(stretch) = stretch {
                agrees = [None, next.map(|next| next.special)].iter().any(|next| stretch.check == chain.check(*next));
                if agrees {
                    self.0.insert(mark.end, stretch);
                }
            }
        }
    }
}

impl TurnRecords {
    /// What the records of a turn say together; `None` if none is one of ours.
    fn open(records: &[&str], seal: &Seal) -> Option<Self> {
        let mut together: Option<Self> = None;
        for body in records.iter().filter_map(|record| seal.open(record)) {
            let mut body = &body[..];
            let Some(thinking) = read_number(&mut body) else { continue };
            let all = together.get_or_insert_with(|| Self { thinking, stretches: HashMap::new() });
            if all.thinking != thinking {
                continue;
            }
            while let Some(stretch) = Stretch::read(&mut body) {
                all.stretches.entry(stretch.index).or_insert(stretch);
            }
        }
        together
    }
}
