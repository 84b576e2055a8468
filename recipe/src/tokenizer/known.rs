//! Words that were seen before, and their tokens.
//!
//! Owns: what was found for a word, as long as no others take its place. Must not know: how words become tokens.
//! Cost: a fixed size, five megabytes; one cache line to look up a short word, two for a long one.
//! Never cleared.

#![allow(clippy::cast_possible_truncation, reason = "a hash is cut to a place")]

use super::prefetch::prefetch;
use super::words::Key;

/// Most tokens of a short word that is noted.
pub(super) const TOKENS: usize = 4;
/// Number of cache lines for short words; each holds two, the younger first.
const LINES: usize = 1 << 16;
const LINE: usize = 64;
/// Where the number of tokens lies in the second half of a key, above the bits that keys use.
const COUNT_SHIFT: u32 = 60;
/// Number of places for long words.
const LONG_PLACES: usize = 1 << 13;
/// Longest word that is noted, and most tokens of one.
const LONGEST: usize = 56;
const MOST_TOKENS: usize = 16;

/// The two halves of a key, with the number of tokens, and the tokens in pairs.
type Slot = [u64; 4];

/// A bounded table of words and their tokens, for one thread at a time.
pub(super) struct KnownWords {
    /// With room to begin at a cache line.
    memory: Vec<u64>,
    start: usize,
    long: Vec<LongWord>,
}

/// Two cache lines: the length of a word, the number of its tokens, its bytes, and the tokens.
type LongWord = [u32; 2 + LONGEST / 4 + MOST_TOKENS];

impl KnownWords {
    pub(super) fn new() -> Self {
        let memory = vec![0_u64; (LINES + 1) * LINE / size_of::<u64>()];
        let start = memory.as_ptr().align_offset(LINE).min(LINE / size_of::<u64>());
        Self { memory, start, long: vec![[0; _]; LONG_PLACES] }
    }

    /// The table, to be looked at without further ado.
    #[inline]
    pub(super) fn view(&self) -> Known<'_> {
        let (slots, _) = self.memory.get(self.start..).unwrap_or_default().as_chunks::<4>();
        Known { lines: slots.as_chunks().0, long: &self.long }
    }

    /// Notes a short word that is a token.
    #[inline]
    pub(super) fn note_token(&mut self, key: Key, id: u32) {
        if key.is_whole() {
            self.note_short(key, [id, 0, 0, 0], 1);
        }
    }

    #[inline]
    fn note_short(&mut self, key: Key, ids: [u32; TOKENS], count: usize) {
        let (slots, _) = self.memory.get_mut(self.start..).unwrap_or_default().as_chunks_mut::<4>();
        let (lines, _) = slots.as_chunks_mut::<2>();
        if let Some(line) = lines.get_mut(place(key)) {
            let [first, last] = bytemuck::cast(ids);
            *line = [[key.low, key.high | (count as u64) << COUNT_SHIFT, first, last], line[0]];
        }
    }

    /// Notes the tokens of a word.
    #[inline]
    pub(super) fn note(&mut self, key: Key, word: &[u8], tokens: &[u32]) {
        if key.is_whole() && tokens.len() <= TOKENS {
            let mut ids = [0; TOKENS];
            for (target, &source) in ids.iter_mut().zip(tokens) {
                *target = source;
            }
            self.note_short(key, ids, tokens.len());
        } else if !key.is_whole()
            && word.len() <= LONGEST
            && tokens.len() <= MOST_TOKENS
            && let Some(place) = self.long.get_mut(long_place(key))
        {
            let [length, count, rest @ ..] = place;
            (*length, *count) = (word.len() as u32, tokens.len() as u32);
            let (bytes, ids) = rest.split_at_mut(LONGEST / 4);
            bytemuck::cast_slice_mut(bytes).iter_mut().zip(word).for_each(|(target, &source)| *target = source);
            ids.iter_mut().zip(tokens).for_each(|(target, &source)| *target = source);
        }
    }
}

/// What [`KnownWords`] holds.
#[derive(Clone, Copy)]
pub(super) struct Known<'table> {
    lines: &'table [[Slot; 2]],
    long: &'table [LongWord],
}

impl<'table> Known<'table> {
    /// The tokens of a short word that was noted, and their number.
    #[inline]
    pub(super) fn find(self, key: Key) -> Option<([u32; TOKENS], usize)> {
        let [younger, older] = self.lines.get(place(key))?;
        let differs = |slot: &Slot| (slot[0] ^ key.low) | (slot[1] ^ key.high) << (64 - COUNT_SHIFT);
        let slot = if differs(younger) == 0 { younger } else { older };
        (differs(slot) == 0).then(|| (bytemuck::cast([slot[2], slot[3]]), (slot[1] >> COUNT_SHIFT) as usize))
    }

    /// The tokens of a long word that was noted.
    pub(super) fn find_long(self, key: Key, word: &[u8]) -> Option<&'table [u32]> {
        let found = Some(long_place(key)).filter(|_| !key.is_whole()).and_then(|place| self.long.get(place));
        let [length, count, rest @ ..] = found?;
        let (bytes, ids) = rest.split_at_checked(LONGEST / 4)?;
        let same = *length as usize == word.len() && bytemuck::cast_slice(bytes).starts_with(word);
        ids.get(..*count as usize).filter(|_| same)
    }

    /// Begins to load what is known of a word.
    #[inline]
    pub(super) fn prefetch(self, key: Key) {
        prefetch(self.lines, place(key));
    }
}

#[inline]
fn place(key: Key) -> usize {
    (key.hash() >> (64 - LINES.ilog2())) as usize
}

fn long_place(key: Key) -> usize {
    (key.hash() >> (64 - LONG_PLACES.ilog2())) as usize
}
