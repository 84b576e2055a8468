//! What the ids of one answer were, gathered while they pass.
//!
//! Owns the ids of the part that has not ended, and the differences of those that have. Every id is looked at once when
//! it comes and a few times when its part ends; what is held is bounded.

use std::sync::Arc;

use super::edits::{Edits, spelled, write_number};
use super::part::{Format, Kind, Printed};
use super::seal::{LONGEST, Seal};
use crate::special::{Special, Spellings};
use crate::tokenizer::{Piece, Tokenizer};

/// Most ids of one part; one with more is recorded up to there.
const MOST_IDS: usize = 1 << 20;
/// Most bytes of differences; what comes after is not recorded.
const MOST_BYTES: usize = LONGEST / 2;

/// Gathers the ids of one answer.
#[derive(Debug, Clone)]
pub struct Recorder {
    seal: Seal,
    tokenizer: Arc<Tokenizer>,
    spellings: Spellings,
    /// The part that goes on; `None` when nothing more is recorded.
    open: Option<Kind>,
    /// Its ids.
    ids: Vec<u32>,
    /// Differences of the reasoning.
    reasoning: Vec<u8>,
    /// Differences of what follows it.
    answer: Vec<u8>,
}

impl Recorder {
    /// A recorder of an answer that begins right after the prompt's mark; `thinks` tells whether that opens reasoning.
    pub fn new(seal: Seal, tokenizer: Arc<Tokenizer>, spellings: Spellings, thinks: bool) -> Self {
        let open = Some(if thinks { Kind::Reasoning } else { Kind::Answer });
        let (ids, reasoning, answer) = (Vec::new(), Vec::new(), Vec::new());
        Self { seal, tokenizer, spellings, open, ids, reasoning, answer }
    }

    /// Takes an id.
    pub fn push(&mut self, id: u32) {
        let Some(kind) = self.open else { return };
        let is = |spelling: &str, special| spelling == self.spellings.of(special);
        match self.tokenizer.piece(id) {
            Some(Piece::Special(_, spelling)) if kind == Kind::Reasoning && is(spelling, Special::ThinkingEnd) => {
                self.end_part(kind, true);
                self.open = Some(Kind::Answer);
            }
            Some(Piece::Special(_, spelling)) if is(spelling, Special::Eos) => self.finish(),
            Some(_) if self.ids.len() < MOST_IDS => self.ids.push(id),
            _ => self.finish(),
        }
    }

    /// Takes the end of the answer.
    pub fn finish(&mut self) {
        if let Some(kind) = self.open.take() {
            self.end_part(kind, kind == Kind::Answer);
        }
    }

    /// Drops everything: part of the answer came as text, and its ids are not known.
    pub fn discard(&mut self) {
        (self.open, self.ids) = (None, Vec::new());
        self.reasoning.clear();
        self.answer.clear();
    }

    /// The record of the reasoning; `None` where the text alone gives the same ids.
    pub fn reasoning(&self) -> Option<String> {
        self.record(&[&self.reasoning])
    }

    /// The record of what followed it.
    pub fn answer(&self) -> Option<String> {
        self.record(&[&self.answer])
    }

    /// The record of both.
    pub fn whole(&self) -> Option<String> {
        self.record(&[&self.reasoning, &self.answer])
    }

    fn record(&self, parts: &[&[u8]]) -> Option<String> {
        let body = parts.concat();
        if body.is_empty() { None } else { self.seal.close(&body) }
    }

    /// Notes how the ids of a part differ from what the next prompt prints for it. Where that has other control tokens, which
    /// stretch is which is only known as long as all is the same but the cut.
    fn end_part(&mut self, kind: Kind, is_whole: bool) {
        let ids = std::mem::take(&mut self.ids);
        let format = Format { version: self.seal.version(), spellings: &self.spellings, tokenizer: &self.tokenizer };
        let (stretches, marks) = split(&ids, &self.tokenizer);
        let bytes: Vec<Vec<u8>> =
            stretches.iter().map(|ids| spelled(ids, &self.tokenizer).unwrap_or_default()).collect();
        let prompt = format.print(kind, &bytes, &marks, is_whole);
        let printed = Printed::whole(&prompt);
        let known = if marks == printed.marks {
            stretches.len()
        } else {
            let is_same = |place: &usize| {
                let text = printed.stretches.get(*place).map(|text| text.as_bytes());
                text == Some(&bytes[*place]) && marks.get(*place) == printed.marks.get(*place)
            };
            (0..stretches.len()).take_while(is_same).count()
        };
        let (mut out, checks) = (Vec::new(), printed.checks());
        for (index, (own, text)) in stretches.into_iter().zip(&printed.stretches).enumerate().take(known) {
            let mut usual = Vec::with_capacity(own.len());
            self.tokenizer.encode_plain(text, &mut usual);
            let edits = Edits::between(&usual, own);
            if edits.is_empty() {
                continue;
            }
            let length = out.len();
            write_place(kind, index, &mut out);
            out.extend_from_slice(&checks[index]);
            edits.write(&mut out);
            if self.reasoning.len() + out.len() > MOST_BYTES {
                out.truncate(length);
                break;
            }
        }
        match kind {
            Kind::Reasoning => self.reasoning = out,
            Kind::Answer => self.answer = out,
        }
    }
}

/// The stretches of ordinary tokens, and the spellings of the others between them.
fn split<'i, 't>(ids: &'i [u32], tokenizer: &'t Tokenizer) -> (Vec<&'i [u32]>, Vec<&'t str>) {
    let (mut stretches, mut marks, mut start) = (Vec::new(), Vec::new(), 0);
    for (place, id) in ids.iter().enumerate() {
        if let Some(Piece::Special(_, spelling)) = tokenizer.piece(*id) {
            stretches.push(&ids[start..place]);
            marks.push(spelling);
            start = place + 1;
        }
    }
    stretches.push(&ids[start..]);
    (stretches, marks)
}

/// Appends which stretch differences belong to: its place in its part, and which part that is.
fn write_place(kind: Kind, index: usize, out: &mut Vec<u8>) {
    // There are at most as many stretches as ids.
    let index = u32::try_from(index).unwrap_or(u32::MAX >> 1);
    write_number(index << 1 | u32::from(kind == Kind::Answer), out);
}
