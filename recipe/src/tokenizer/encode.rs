//! Plain text to ids.
//!
//! Words are cut in batches; of each the tables are asked for the memory of all words before the first is looked up, as
//! most of the time would otherwise be spent waiting for it.
//!
//! Owns: the order of these steps, and the [`Desk`] of a thread. Must not know: added tokens.
//! Cost: see `pretokenize`, `words`, `new_words`, `lanes` and `greedy`; a desk has about a megabyte.

use std::sync::PoisonError;

use super::Vocabulary;
use super::lanes::{self, Lanes};
use super::new_words::{NONE, NewWords, TOKENS};
use super::pretokenize::PreTokens;
use super::words::{KEYED, Key, WordTable};

/// Words of a batch.
const BATCH: usize = 128;
/// Marks the number of a lane in place of an id.
const IN_LANE: u32 = 1 << 31;
/// In place of an id: a word too long for a lane.
const LONG: u32 = NONE - 1;

/// What a thread needs to encode: it is reused, so that words that were new once are known to later texts.
pub(super) struct Desk {
    new_words: NewWords,
    lanes: Lanes,
    ends: [usize; BATCH],
    keys: [Key; BATCH],
    /// Tokens of each word, [`NONE`] after the last.
    found: [[u32; TOKENS]; BATCH],
}

impl Desk {
    fn new() -> Self {
        Self {
            new_words: NewWords::new(),
            lanes: Lanes::new(),
            ends: [0; BATCH],
            keys: [Key::default(); BATCH],
            found: [[NONE; TOKENS]; BATCH],
        }
    }
}

impl Vocabulary {
    /// Appends the ids of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let free = self.desks.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut desk = free.unwrap_or_else(|| Box::new(Desk::new()));
        let mut pre_tokens = PreTokens::new(text);
        loop {
            let start = pre_tokens.position();
            let count = pre_tokens.fill(&mut desk.ends);
            self.encode_batch(text.as_bytes(), start, count, &mut desk, out);
            if count < BATCH {
                break;
            }
        }
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
    }

    /// Appends the ids of the first `count` words of the desk, which begin at `start`.
    fn encode_batch(&self, bytes: &[u8], start: usize, count: usize, desk: &mut Desk, out: &mut Vec<u32>) {
        let mut word_start = start;
        for (key, &end) in desk.keys.iter_mut().zip(&desk.ends).take(count) {
            let length = end - word_start;
            *key = Key::default();
            if length <= KEYED {
                *key = Key::new(bytes.get(word_start..).unwrap_or_default(), length);
                self.words.prefetch(*key);
                desk.new_words.prefetch(*key);
            }
            word_start = end;
        }
        let (mut word_start, mut first) = (start, 0);
        let mut first_start = start;
        for number in 0..count {
            let end = desk.ends.get(number).copied().unwrap_or(word_start);
            let key = desk.keys.get(number).copied().unwrap_or_default();
            let tokens = self.find(bytes.get(word_start..end).unwrap_or_default(), key, desk);
            if let Some(found) = desk.found.get_mut(number) {
                *found = tokens;
            }
            word_start = end;
            if desk.lanes.is_full() || number + 1 == count {
                first_start = self.write(bytes, first_start, first..number + 1, desk, out);
                first = number + 1;
            }
        }
    }

    /// The tokens of a word, or who is to find them.
    #[inline]
    fn find(&self, word: &[u8], key: Key, desk: &mut Desk) -> [u32; TOKENS] {
        let known = if key == Key::default() || !WordTable::is_short(key) {
            self.words.find_long(&self.tokens, word)
        } else {
            self.words.find_short(key)
        };
        if let Some(id) = known {
            return one(id);
        }
        if key != Key::default()
            && let Some(tokens) = desk.new_words.find(key)
        {
            return tokens;
        }
        if word.len() > lanes::LONGEST {
            return one(LONG);
        }
        one(IN_LANE | u32::try_from(desk.lanes.push(&self.encoder, word)).unwrap_or(0))
    }

    /// Appends the ids of some words, the first of which begins at `start`. Where the last one ends.
    fn write(
        &self,
        bytes: &[u8],
        mut start: usize,
        numbers: std::ops::Range<usize>,
        desk: &mut Desk,
        out: &mut Vec<u32>,
    ) -> usize {
        desk.lanes.run(&self.encoder);
        let Desk { new_words, lanes, ends, keys, found } = desk;
        let words = found.iter().zip(keys.iter()).zip(ends.iter());
        for ((tokens, key), &end) in words.take(numbers.end).skip(numbers.start) {
            match *tokens {
                [LONG, ..] => self.encoder.merge(bytes.get(start..end).unwrap_or_default(), out),
                [id, NONE, ..] if id < IN_LANE => out.push(id),
                [lane, NONE, ..] => {
                    let before = out.len();
                    lanes.append((lane & !IN_LANE) as usize, out);
                    if *key != Key::default() {
                        new_words.note(*key, out.get(before..).unwrap_or_default());
                    }
                }
                ref several => {
                    let length = several.iter().position(|&id| id == NONE).unwrap_or(TOKENS);
                    out.extend_from_slice(several.get(..length).unwrap_or_default());
                }
            }
            start = end;
        }
        lanes.clear();
        start
    }
}

fn one(id: u32) -> [u32; TOKENS] {
    let mut tokens = [NONE; TOKENS];
    if let Some(first) = tokens.first_mut() {
        *first = id;
    }
    tokens
}
