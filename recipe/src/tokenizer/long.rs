//! Long words of short tokens, merged in parts that are joined.
//!
//! `greedy` waits for memory at every token. `lanes` does not, but takes short words only. So a long word is cut, its parts
//! are merged side by side, and where the tokens of two parts do not stay apart, the few around their border are made
//! again. What `greedy` rests on makes that exact: a sequence of tokens of which every two neighbours stay apart is what
//! merging gives.
//!
//! Owns: where words are cut, and how parts are joined. Must not know: where words come from.
//! Cost: linear. Each part is merged once; a border that cannot be joined is the last, as the rest then goes to `greedy`.

use super::bpe::Encoder;
use super::greedy::Greedy;
use super::lanes::{self, WIDE};

/// Bytes that tell of a word whether its tokens are short: less than so many bytes, on average. Long ones are found faster
/// than merged.
const SAMPLE: usize = 128;
const SHORT_TOKEN: usize = 3;
/// Shortest word that is merged in parts.
const SHORTEST: usize = 2 * SAMPLE;
/// Parts that are merged together, and the least bytes of each: of the places behind them, the cut is where a merge is
/// least likely.
const PARTS: usize = 128;
const LEAST: usize = WIDE - 8;
/// How many tokens are made again on each side of a border, at most: as few as will do. And of how many bytes, so that those of
/// long tokens are not made again with every part.
const MOST_AGAIN: usize = 8;
const MOST_BYTES: usize = 64;

/// Appends the ids of `word`.
pub(super) fn merge(encoder: &Encoder, greedy: &Greedy, word: &[u8], out: &mut Vec<u32>) {
    let start = out.len();
    let sample = word.get(..SAMPLE).filter(|_| word.len() >= SHORTEST).unwrap_or_default();
    greedy.encode(&encoder.pairs, sample, out);
    if sample.len() >= SHORT_TOKEN * (out.len() - start) {
        out.truncate(start);
        return greedy.encode(&encoder.pairs, word, out);
    }
    let mut joined = Joined { encoder, greedy, word, end: SAMPLE, start, out, between: Vec::new() };
    let mut parts = Vec::with_capacity(PARTS);
    let mut found = vec![([0; WIDE], 0); PARTS];
    let mut cut = SAMPLE;
    while cut < word.len() {
        parts.clear();
        while parts.len() < PARTS && cut < word.len() {
            let end = next_cut(encoder, word, cut);
            parts.push((parts.len(), cut..end));
            cut = end;
        }
        lanes::merge::<WIDE>(encoder, word, &parts, |number, tokens| {
            if let Some((ids, count)) = found.get_mut(number) {
                ids.iter_mut().zip(tokens).for_each(|(id, token)| *id = *token);
                *count = tokens.len();
            }
        });
        for (ids, count) in found.iter().take(parts.len()) {
            if !joined.join(ids.get(..*count).unwrap_or_default()) {
                return joined.finish();
            }
        }
    }
}

/// Where the part that begins at `start` ends.
fn next_cut(encoder: &Encoder, word: &[u8], start: usize) -> usize {
    let last = start + WIDE;
    if last >= word.len() {
        return word.len();
    }
    let pair_order = |at: &usize| match word.get(at - 1..=*at) {
        Some(&[left, right]) => encoder.byte_pair_order(left, right),
        _ => 0,
    };
    (start + LEAST..=last).max_by_key(pair_order).unwrap_or(last)
}

/// The tokens of the beginning of a word.
struct Joined<'word> {
    encoder: &'word Encoder,
    greedy: &'word Greedy,
    word: &'word [u8],
    /// Where the beginning ends, and where its tokens begin in `out`.
    end: usize,
    start: usize,
    out: &'word mut Vec<u32>,
    /// Tokens that are made again.
    between: Vec<u32>,
}

impl Joined<'_> {
    /// Appends the tokens of a part, if few have to be made again for that.
    fn join(&mut self, part: &[u32]) -> bool {
        [0, 1, 2, 4, MOST_AGAIN].iter().any(|&count| {
            let (again, rest) = part.split_at(count.min(part.len()));
            let bytes = self.length(again);
            self.length(self.split(count).1) + bytes <= MOST_BYTES && self.make_again(count, self.end + bytes, rest)
        })
    }

    /// Appends the tokens of the rest of the word.
    fn finish(&mut self) {
        let _is_joined = [MOST_AGAIN, usize::MAX].iter().any(|&count| self.make_again(count, self.word.len(), &[]));
    }

    /// Makes the last `count` tokens again, together with what is up to `end`, and appends `rest`, which begins there. Does
    /// nothing where these would not stay apart from their neighbours.
    fn make_again(&mut self, count: usize, end: usize, rest: &[u32]) -> bool {
        let (kept, again) = self.split(count);
        let (start, kept_until, last_kept) =
            (self.end - self.length(again), self.start + kept.len(), kept.last().copied());
        self.between.clear();
        let bytes = self.word.get(start..end).unwrap_or_default();
        self.greedy.encode(&self.encoder.pairs, bytes, &mut self.between);
        let first = self.between.first().or(rest.first());
        let is_joined = self.stay_apart(last_kept.as_ref(), start, first)
            && self.stay_apart(self.between.last(), end, rest.first());
        if is_joined {
            self.end = end + self.length(rest);
            self.out.truncate(kept_until);
            self.out.extend_from_slice(&self.between);
            self.out.extend_from_slice(rest);
        }
        is_joined
    }

    /// All tokens but the last `count`, and these.
    fn split(&self, count: usize) -> (&[u32], &[u32]) {
        let tokens = self.out.get(self.start..).unwrap_or_default();
        tokens.split_at(tokens.len().saturating_sub(count))
    }

    /// Whether two tokens, whose border is at `place`, stay apart; true where there is only one.
    fn stay_apart(&self, left: Option<&u32>, place: usize, right: Option<&u32>) -> bool {
        right.is_none_or(|&right| self.greedy.fits(&self.encoder.pairs, self.word, place, left.copied(), right))
    }

    fn length(&self, tokens: &[u32]) -> usize {
        tokens.iter().map(|&id| self.greedy.length(id)).sum()
    }
}
