//! Plain text to ids.
//!
//! Words are cut in batches. Of each the desk's table is asked for the memory of all words before the first is looked up,
//! as most of the time would otherwise be spent waiting for it. Words that are not there are merged side by side, for the
//! same reason, and noted there; then all tokens are copied from it, word by word. Words that are tokens are there from the
//! beginning. A new word often comes again at once, so of those that are alike in a batch only the first is merged. Short
//! texts share a batch, in which no word reaches from one into the next.
//!
//! Owns: the order of these steps, and the [`Desk`] of a thread. Must not know: added tokens.
//! Cost: see `pretokenize`, `known`, `words`, `lanes` and `long`; a desk has five megabytes, and takes some three
//! milliseconds to make.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a hash is cut to a place, and words of a batch are less than 2^16"
)]

use std::ops::Range;

use super::Vocabulary;
use super::known::{KnownWords, TOKENS};
use super::lanes;
use super::pretokenize::PreTokens;
use super::words::Key;

/// Words of a batch.
pub(super) const BATCH: usize = 1024;
/// Places for unknown words of a batch that may come again in it.
const RECENT: usize = 512;

/// What a thread needs to encode: it is reused, so that words that were new once are known to later texts.
pub(super) struct Desk {
    known: KnownWords,
    ends: [usize; BATCH],
    keys: [Key; BATCH],
    /// The tokens of the known words of a batch, and in front of which of them others are to be put.
    ids: [u32; BATCH * TOKENS],
    unknown: Vec<Unknown>,
    /// Where texts end in the batch.
    borders: Vec<Border>,
    /// Numbers and places of unknown words that are to be merged: those for narrow lanes, for wide ones, and for none.
    unmerged: [Vec<(usize, Range<usize>)>; 3],
    /// Numbers of unknown words, by a part of their hash; also of batches before.
    recent: [u16; RECENT],
    /// Numbers of unknown words that came before in the batch, and of those that came first.
    repeated: Vec<(usize, usize)>,
    /// The tokens of the unknown words, in the order in which they were found, and which are whose.
    found: Vec<u32>,
    found_ranges: Vec<Range<usize>>,
}

/// A word that is not known.
struct Unknown {
    key: Key,
    word: Range<usize>,
    /// How many tokens of known words are before it.
    before: usize,
}

/// Where a text ends: behind how many words, and how many of their tokens are known, and how many words are not.
#[derive(Clone, Copy, Default)]
struct Border {
    words: usize,
    filled: usize,
    unknown: usize,
}

impl Unknown {
    fn is_like(&self, other: &Self, text: &[u8]) -> bool {
        let same_bytes = || text.get(self.word.clone()) == text.get(other.word.clone());
        self.key == other.key && (self.key.is_whole() || same_bytes())
    }
}

impl Desk {
    fn new(vocabulary: &Vocabulary) -> Self {
        let mut known = KnownWords::new();
        // The more frequent a token, the lower its id; and the younger of two words in a place stays longer.
        for id in vocabulary.tokens.ids().rev() {
            if vocabulary.encoder.is_word(id)
                && let Some((text, length)) = vocabulary.tokens.beginning(id)
            {
                known.note_token(Key::new(text, length), id);
            }
        }
        Self {
            known,
            ends: [0; BATCH],
            keys: [Key::default(); BATCH],
            ids: [0; BATCH * TOKENS],
            unknown: Vec::with_capacity(BATCH),
            borders: Vec::new(),
            unmerged: Default::default(),
            recent: [0; RECENT],
            repeated: Vec::new(),
            found: Vec::new(),
            found_ranges: Vec::with_capacity(BATCH),
        }
    }

    /// Finds the tokens of the words up to the last border, the first of which begins at `start`, as far as they are known, and
    /// lists the other words.
    fn look_up(&mut self, text: &[u8], start: usize) {
        let known = self.known.view();
        let count = self.borders.last().map_or(0, |border| border.words);
        let mut word_start = start;
        for (key, &end) in self.keys.iter_mut().zip(&self.ends).take(count) {
            *key = Key::new(text.get(word_start..).unwrap_or_default(), end - word_start);
            known.prefetch(*key);
            word_start = end;
        }
        self.unknown.clear();
        let (mut word_start, mut filled, mut first) = (start, 0, 0);
        for border in &mut self.borders {
            let words = std::mem::replace(&mut first, border.words)..border.words;
            let (keys, ends) = (self.keys.get(words.clone()).unwrap_or_default(), self.ends.get(words));
            for (&key, &end) in keys.iter().zip(ends.unwrap_or_default()) {
                if let Some((tokens, length)) = known.find(key)
                    && let Some(target) = self.ids.get_mut(filled..filled + TOKENS)
                {
                    target.copy_from_slice(&tokens);
                    filled += length;
                } else {
                    self.unknown.push(Unknown { key, word: word_start..end, before: filled });
                }
                word_start = end;
            }
            (border.filled, border.unknown) = (filled, self.unknown.len());
        }
    }
}

impl Vocabulary {
    /// Runs `work` at a desk, the one that was left last, if there is one.
    pub(super) fn at_desk<R>(&self, work: impl FnOnce(&mut Desk) -> R) -> R {
        let free = self.desks.hold().and_then(|mut desks| desks.pop());
        let mut desk = free.unwrap_or_else(|| Box::new(Desk::new(self)));
        let result = work(&mut desk);
        if let Some(mut desks) = self.desks.hold() {
            desks.push(desk);
        }
        result
    }

    /// Appends the ids of texts, which stand one behind the other in `text` and end at `ends`, and hands over how many ids
    /// there are at the end of each.
    pub(super) fn encode(
        &self,
        desk: &mut Desk,
        text: &str,
        ends: &[usize],
        out: &mut Vec<u32>,
        mut ended: impl FnMut(usize),
    ) {
        let (mut batch, mut start, mut words) = (0, 0, 0);
        desk.borders.clear();
        for &end in ends {
            let mut pre_tokens = PreTokens::within(text, start..end);
            loop {
                words += pre_tokens.fill(&self.cuts, desk.ends.get_mut(words..).unwrap_or_default());
                if pre_tokens.position() == end {
                    break;
                }
                self.encode_batch(desk, text, batch, words, out, &mut ended);
                (batch, words) = (pre_tokens.position(), 0);
            }
            start = end;
            desk.borders.push(Border { words, ..Border::default() });
        }
        self.encode_batch(desk, text, batch, words, out, &mut ended);
    }

    /// Appends the ids of so many words, the first of which begins at `start`.
    #[inline]
    fn encode_batch(
        &self,
        desk: &mut Desk,
        text: &str,
        start: usize,
        words: usize,
        out: &mut Vec<u32>,
        ended: impl FnMut(usize),
    ) {
        let text = text.as_bytes();
        desk.borders.push(Border { words, ..Border::default() });
        desk.look_up(text, start);
        self.find_unknown(text, desk);
        desk.write(out, ended);
        desk.borders.clear();
    }

    /// Finds the tokens of words that are not known, and notes them.
    fn find_unknown(&self, text: &[u8], desk: &mut Desk) {
        let Desk { known, unknown, unmerged, recent, repeated, found, found_ranges, .. } = desk;
        found.clear();
        found_ranges.clear();
        repeated.clear();
        unmerged.iter_mut().for_each(Vec::clear);
        let [narrow, wide, long] = unmerged;
        for (number, Unknown { key, word, .. }) in unknown.iter().enumerate() {
            let start = found.len();
            let bytes = text.get(word.clone()).unwrap_or_default();
            if let Some(first) = first_alike(number, unknown, recent, text) {
                repeated.push((number, first));
            } else if let Some(tokens) = known.view().find_long(*key, bytes) {
                found.extend_from_slice(tokens);
            } else if let Some(&id) = self.whole_words.get(bytes) {
                found.push(id);
            } else {
                let unmerged = match word.len() {
                    length if length <= lanes::NARROW => &mut *narrow,
                    length if length <= lanes::WIDE => &mut *wide,
                    _ => &mut *long,
                };
                unmerged.push((number, word.clone()));
            }
            found_ranges.push(start..found.len());
        }
        let mut take = |number: usize, tokens: &[u32]| {
            let (Some(unknown), Some(range)) = (unknown.get(number), found_ranges.get_mut(number)) else { return };
            *range = found.len()..found.len() + tokens.len();
            found.extend_from_slice(tokens);
            known.note(unknown.key, text.get(unknown.word.clone()).unwrap_or_default(), tokens);
        };
        lanes::merge::<{ lanes::NARROW }>(&self.encoder, text, narrow, &mut take);
        lanes::merge::<{ lanes::WIDE }>(&self.encoder, text, wide, &mut take);
        let mut tokens = Vec::new();
        for (number, word) in long {
            tokens.clear();
            self.encoder.merge(text.get(word.clone()).unwrap_or_default(), &mut tokens);
            take(*number, &tokens);
        }
        for &(number, first) in &*repeated {
            if let Some(range) = found_ranges.get(first).cloned()
                && let Some(target) = found_ranges.get_mut(number)
            {
                *target = range;
            }
        }
    }
}

/// Number of the unknown word before the one of `number` that is like it, if that still has its place among the recent ones.
#[inline]
fn first_alike(number: usize, unknown: &[Unknown], recent: &mut [u16; RECENT], text: &[u8]) -> Option<usize> {
    let word = unknown.get(number)?;
    let place = recent.get_mut((word.key.hash() >> (u64::BITS - RECENT.ilog2())) as usize)?;
    // A number of a batch before may be any; whatever is before this word and like it will do.
    let first = Some(usize::from(*place)).filter(|&first| first < number);
    let first = first.filter(|&first| unknown.get(first).is_some_and(|first| first.is_like(word, text)));
    if first.is_none() {
        *place = number as u16;
    }
    first
}

impl Desk {
    /// Appends the tokens of all words, and hands over how many ids there are at each border but the last.
    fn write(&self, out: &mut Vec<u32>, mut ended: impl FnMut(usize)) {
        let mut all = self.unknown.iter().zip(&self.found_ranges);
        let (mut written, mut first) = (0, 0);
        for (number, border) in self.borders.iter().enumerate() {
            if number > 0 {
                ended(out.len());
            }
            let count = border.unknown - std::mem::replace(&mut first, border.unknown);
            for (unknown, range) in all.by_ref().take(count) {
                out.extend_from_slice(self.ids.get(written..unknown.before).unwrap_or_default());
                out.extend_from_slice(self.found.get(range.clone()).unwrap_or_default());
                written = unknown.before;
            }
            out.extend_from_slice(self.ids.get(written..border.filled).unwrap_or_default());
            written = border.filled;
        }
    }
}
