//! What the ids of one answer were, gathered while they pass.
//!
//! Owns the ids of the stretch that has not ended, and the differences of those that have. Every id is looked at once when
//! it comes and once when its stretch ends; what is held is bounded.

use std::sync::Arc;

use super::chain::Chain;
use super::seal::{LONGEST, Seal};
use super::stretch::{Stretch, bytes, write_number};
use super::trimmed::{Place, printed};
use crate::special::Special;
use crate::tokenizer::{Piece, Tokenizer};

/// Most ids of one stretch; an answer with more is recorded up to there.
const MOST_IDS: usize = 1 << 20;
/// Most bytes of differences; what comes after is not recorded.
const MOST_BYTES: usize = LONGEST / 2;

/// Gathers the ids of one answer.
#[derive(Debug, Clone)]
pub struct Recorder {
    seal: Seal,
    tokenizer: Arc<Tokenizer>,
    /// Ids of the stretch that has not ended.
    open: Vec<u32>,
    /// Number of that stretch.
    index: u32,
    /// Number of stretches before the end of thinking; 0 until it is met.
    thinking: u32,
    /// Differences before the end of thinking.
    reasoning: Vec<u8>,
    /// Differences after it.
    rest: Vec<u8>,
    /// What the part that goes on says so far.
    chain: Chain,
    /// Whether the part begins with the open stretch.
    is_first: bool,
    /// Whether markup of calls was met in the part.
    in_calls: bool,
    stopped: bool,
}

impl Recorder {
    /// A recorder of an answer that begins right after the prompt's mark.
    pub fn new(seal: Seal, tokenizer: Arc<Tokenizer>) -> Self {
        let (open, reasoning, rest) = (Vec::new(), Vec::new(), Vec::new());
        let (chain, stopped) = (Chain::default(), false);
        let (index, thinking, is_first, in_calls) = (0, 0, true, false);
        Self { seal, tokenizer, open, index, thinking, reasoning, rest, chain, is_first, in_calls, stopped }
    }

    /// Takes an id. `mark` tells the tokens that close reasoning and those of markup from all others.
    pub fn push(&mut self, id: u32, mark: Option<Special>) {
        if self.stopped {
            return;
        }
        let tokenizer = Arc::clone(&self.tokenizer);
        match tokenizer.piece(id) {
            Some(Piece::Text(_)) if self.open.len() < MOST_IDS => self.open.push(id),
            Some(Piece::Text(_)) | None => self.stop(),
            Some(Piece::Special(_, spelling)) => {
                self.end_stretch(mark);
                if mark == Some(Special::ThinkingEnd) && self.thinking == 0 {
                    self.thinking = self.index;
                    self.reasoning = std::mem::take(&mut self.rest);
                    (self.chain, self.is_first, self.in_calls) = (Chain::default(), true, false);
                } else {
                    self.chain.special(spelling);
                    self.is_first = false;
                    self.in_calls |= mark == Some(Special::Dsml);
                }
            }
        }
    }

    /// Takes the end of the answer.
    pub fn finish(&mut self) {
        self.end_stretch(None);
        self.stop();
    }

    /// Drops everything: part of the answer came as text, and its ids are not known.
    pub fn discard(&mut self) {
        self.reasoning.clear();
        self.rest.clear();
        self.stop();
    }

    /// The record of what came before the end of thinking; `None` where the text alone gives the same ids.
    pub fn reasoning(&self) -> Option<String> {
        self.record(&[&self.reasoning])
    }

    /// The record of what came after it.
    pub fn rest(&self) -> Option<String> {
        self.record(&[&self.rest])
    }

    /// The record of both.
    pub fn whole(&self) -> Option<String> {
        self.record(&[&self.reasoning, &self.rest])
    }

    fn record(&self, parts: &[&[u8]]) -> Option<String> {
        if parts.iter().all(|part| part.is_empty()) {
            return None;
        }
        let mut body = Vec::new();
        write_number(self.thinking, &mut body);
        for part in parts {
            body.extend_from_slice(part);
        }
        self.seal.close(&body)
    }

    fn stop(&mut self) {
        self.open = Vec::new();
        self.stopped = true;
    }

    /// Ends the open stretch at a mark.
    fn end_stretch(&mut self, next: Option<Special>) {
        if self.stopped {
            return;
        }
        let text = bytes(&self.open, &self.tokenizer).and_then(|bytes| String::from_utf8(bytes).ok());
        // Of bytes that are no text the client gets replacement characters: what it sends back is another text.
        let Some(text) = text else { return self.stop() };
        let Self { is_first, in_calls, .. } = *self;
        let (text, reason) = printed(&text, Place { is_first, is_reasoning: self.thinking == 0, in_calls, next });
        self.chain.text(&text);
        if let Some(stretch) = Stretch::of(self.index, &self.open, &text, self.chain.check(reason), &self.tokenizer) {
            let length = self.rest.len();
            stretch.write(&mut self.rest);
            if self.reasoning.len() + self.rest.len() > MOST_BYTES {
                self.rest.truncate(length);
                return self.stop();
            }
        }
        self.open.clear();
        self.index += 1;
    }
}
