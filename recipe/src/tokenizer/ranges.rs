//! Plain ranges that were encoded before, and their ids.
//!
//! Agents send their whole history with every request. A plain range stands between control tokens, so its ids depend on
//! nothing else, and a range that is known costs one pass over its bytes.
//!
//! Owns: the ranges, within a bound, and the count of those found. Must not know: how text is encoded.
//! Cost: a hash of the range, then a comparison with the whole text: equal hashes give no wrong ids. The ranges of a prompt
//! are looked up together, as nearly all of the time would be spent waiting for memory, one after the other. Ranges are
//! kept in two generations; when the younger has half of the bytes, the older is forgotten and a new one begins.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::iter::repeat_n;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::prefetch::prefetch;
use super::woven::Woven;

/// Shorter ranges are encoded about as fast as they are found.
pub(super) const SHORTEST: usize = 32;
/// What an entry takes besides its text and ids.
const OVERHEAD: usize = 128;

/// Words of four bytes in a line of the processor's cache.
const LINE: usize = 16;
/// Lines of a range that are asked for ahead; the processor sees by itself that the others follow.
const AHEAD: usize = 4;

/// A bounded memory of encoded ranges, shared by all requests.
pub struct RangeCache {
    bound: usize,
    /// Not known outside, so that nobody can make texts that get in each other's way.
    keys: Keys,
    state: Mutex<State>,
    hits: Count,
    misses: Count,
}

/// Ranges, and their bytes.
#[derive(Default)]
struct Count(AtomicU64, AtomicU64);

impl Count {
    fn add(&self, text: Woven<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.fetch_add(text.len() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed))
    }
}

/// What a [`RangeCache`] holds, and how often it helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeCacheStatistics {
    /// Ranges that were found.
    pub hits: u64,
    /// Ranges that were not, those too short to be kept not counted.
    pub misses: u64,
    /// Bytes of text that were found.
    pub hit_bytes: u64,
    /// Bytes of text that were not.
    pub missed_bytes: u64,
    /// Bytes held, ids included.
    pub held_bytes: usize,
    /// Most bytes that are held.
    pub bound: usize,
}

/// Ranges by the hash of their text, which serves the map as it is.
type Generation = HashMap<u64, Range, BuildHasherDefault<Same>>;

#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[derive(Default)]
struct State {
    younger: Generation,
    older: Generation,
    younger_bytes: usize,
    older_bytes: usize,
}

/// A text and its ids in one piece of memory: number of bytes, number of ids, the bytes, the ids.
#[derive(Clone)]
struct Range(Arc<[u32]>);

impl Range {
    /// `None` if one of the numbers is too large.
    fn new(text: Woven<'_>, ids: &[u32]) -> Option<Self> {
        let numbers = [u32::try_from(text.len()).ok()?, u32::try_from(ids.len()).ok()?];
        let text_words = text.len().div_ceil(4);
        let mut range: Arc<[u32]> = repeat_n(0, numbers.len() + text_words + ids.len()).collect();
        let (head, rest) = Arc::get_mut(&mut range)?.split_at_mut_checked(numbers.len())?;
        let (words, own_ids) = rest.split_at_mut_checked(text_words)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        head.copy_from_slice(&numbers);
        let mut place = 0;
        for piece in text.pieces() {
            bytes.get_mut(place..place + piece.len())?.copy_from_slice(piece.as_bytes());
            place += piece.len();
        }
        own_ids.copy_from_slice(ids);
        Some(Self(range))
    }

    /// The ids, if this is `text`.
    fn ids_of(&self, text: Woven<'_>) -> Option<&[u32]> {
        let [length, _, words @ ..] = &*self.0 else { return None };
        let length = *length as usize;
        let (words, ids) = words.split_at_checked(length.div_ceil(4))?;
        let bytes: &[u8] = bytemuck::cast_slice(words);
        bytes.get(..length).is_some_and(|bytes| text.is(bytes)).then_some(ids)
    }

    fn bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.0) + OVERHEAD
    }

    fn prefetch(&self, lines: usize) {
        for line in 0..lines {
            prefetch(&self.0, line * LINE);
        }
    }
}

/// What is known of a text before it is compared.
pub(super) struct Looked {
    hash: u64,
    range: Option<Range>,
}

impl Looked {
    /// Asks for the memory that is needed first.
    pub(super) fn prefetch(&self) {
        if let Some(range) = &self.range {
            range.prefetch(AHEAD);
        }
    }
}

impl RangeCache {
    /// Empty cache that holds up to `bound` bytes.
    pub fn new(bound: usize) -> Self {
        let (state, hits, misses) = (Mutex::default(), Count::default(), Count::default());
        Self { bound, keys: Keys::new(), state, hits, misses }
    }

    /// What it holds, and how often it helped.
    pub fn statistics(&self) -> RangeCacheStatistics {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ((hits, hit_bytes), (misses, missed_bytes)) = (self.hits.get(), self.misses.get());
        let held_bytes = state.younger_bytes + state.older_bytes;
        RangeCacheStatistics { hits, misses, hit_bytes, missed_bytes, held_bytes, bound: self.bound }
    }

    /// Looks for texts that are to be encoded one after the other. None of them is shorter than [`SHORTEST`].
    pub(super) fn look_up<'t>(&self, texts: impl Iterator<Item = Woven<'t>>) -> Vec<Looked> {
        let hash = |text| Looked { hash: self.keys.hash(text), range: None };
        let mut all: Vec<Looked> = texts.map(hash).collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for range in all.iter().filter_map(|looked| state.get(looked.hash)) {
            range.prefetch(1);
        }
        for looked in &mut all {
            looked.range = state.touch(looked.hash, self.bound);
        }
        all
    }

    /// Appends the ids of `text`, those that are known or those that `encode` appends.
    pub(super) fn encode(
        &self,
        text: Woven<'_>,
        looked: Option<Looked>,
        out: &mut Vec<u32>,
        encode: impl FnOnce(&mut Vec<u32>),
    ) {
        if text.len() < SHORTEST {
            return encode(out);
        }
        let looked = looked.unwrap_or_else(|| Looked { hash: self.keys.hash(text), range: None });
        // What was not known before may be known by now, if it comes twice.
        let range = looked
            .range
            .or_else(|| self.state.lock().unwrap_or_else(PoisonError::into_inner).touch(looked.hash, self.bound));
        if let Some(ids) = range.as_ref().and_then(|range| range.ids_of(text)) {
            self.hits.add(text);
            return out.extend_from_slice(ids);
        }
        self.misses.add(text);
        let before = out.len();
        encode(out);
        let range = Range::new(text, out.get(before..).unwrap_or_default());
        if let Some(range) = range.filter(|range| range.bytes() <= self.bound / 2) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.keep(looked.hash, range, self.bound);
        }
    }
}

impl State {
    fn get(&self, hash: u64) -> Option<&Range> {
        self.younger.get(&hash).or_else(|| self.older.get(&hash))
    }

    /// A range, which is one of the younger ones from now on.
    fn touch(&mut self, hash: u64, bound: usize) -> Option<Range> {
        if let Some(range) = self.younger.get(&hash) {
            return Some(range.clone());
        }
        let range = self.older.remove(&hash)?;
        self.older_bytes -= range.bytes();
        self.keep(hash, range.clone(), bound);
        Some(range)
    }

    fn keep(&mut self, hash: u64, range: Range, bound: usize) {
        if self.younger_bytes + range.bytes() > bound / 2 {
            self.older = std::mem::take(&mut self.younger);
            self.older_bytes = std::mem::take(&mut self.younger_bytes);
        }
        self.younger_bytes += range.bytes();
        if let Some(replaced) = self.younger.insert(hash, range) {
            self.younger_bytes -= replaced.bytes();
        }
    }
}

/// What a hash starts with, and what it multiplies by.
struct Keys {
    lanes: [u64; 4],
    factors: [u64; 4],
}

impl Keys {
    fn new() -> Self {
        let random = RandomState::new();
        let key = |number: usize| random.hash_one(number);
        Self { lanes: [0, 1, 2, 3].map(key), factors: [4, 5, 6, 7].map(key) }
    }

    /// A hash of long texts, 64 bytes at a time.
    fn hash(&self, text: Woven<'_>) -> u64 {
        let mut lanes = self.lanes;
        let mut length = 0;
        let mut add = |block: &[u8; 64]| {
            let (pairs, _) = block.as_chunks::<16>();
            for ((lane, factor), pair) in lanes.iter_mut().zip(self.factors).zip(pairs) {
                let [left, right]: [u64; 2] = bytemuck::cast(*pair);
                *lane = folded(*lane ^ left, factor ^ right);
            }
        };
        // What is left of the pieces so far.
        let (mut begun, mut filled) = ([0; 64], 0);
        for piece in text.pieces() {
            length += piece.len() as u64;
            let free = begun.get_mut(filled..).unwrap_or_default();
            let (head, piece) = piece.as_bytes().split_at(if filled == 0 { 0 } else { free.len().min(piece.len()) });
            free.iter_mut().zip(head).for_each(|(byte, head)| *byte = *head);
            filled += head.len();
            if filled == begun.len() {
                add(&begun);
                filled = 0;
            }
            let (blocks, rest) = piece.as_chunks();
            blocks.iter().for_each(&mut add);
            if !rest.is_empty() {
                begun.iter_mut().zip(rest).for_each(|(byte, rest)| *byte = *rest);
                filled = rest.len();
            }
        }
        if filled > 0 {
            begun.iter_mut().skip(filled).for_each(|byte| *byte = 0);
            add(&begun);
        }
        lanes.into_iter().zip(self.factors).fold(length, |hash, (lane, factor)| folded(hash ^ lane, factor))
    }
}

/// Both halves of a product together.
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
    let lower = product as u64;
    lower ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::RangeCache;
    use crate::tokenizer::{Insert, Woven};

    fn encode(cache: &RangeCache, text: &str) -> (Vec<u32>, bool) {
        let (mut ids, mut encoded) = (vec![7], false);
        cache.encode(text.into(), None, &mut ids, |out| {
            encoded = true;
            out.extend(text.bytes().map(u32::from));
        });
        assert_eq!(ids[1..], text.bytes().map(u32::from).collect::<Vec<_>>());
        (ids, encoded)
    }

    #[test]
    fn known_ranges_are_not_encoded_again() {
        let cache = RangeCache::new(1 << 20);
        let text = "a".repeat(300);
        assert!(encode(&cache, &text).1);
        assert!(!encode(&cache, &text).1);
        assert!(encode(&cache, &text[1..]).1);
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses), (1, 2));
        assert_eq!((statistics.hit_bytes, statistics.missed_bytes), (300, 599));
    }

    #[test]
    fn ranges_that_were_looked_for_together_are_compared_as_well() {
        let cache = RangeCache::new(1 << 20);
        let texts = [300, 301, 302, 303].map(|length| "a".repeat(length));
        let encode = |text: &str, looked, is_known: bool| {
            let (mut ids, mut encoded) = (Vec::new(), false);
            cache.encode(text.into(), Some(looked), &mut ids, |out| {
                encoded = true;
                out.extend(text.bytes().map(u32::from));
            });
            assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
            assert_eq!(encoded, !is_known);
        };
        for is_known in [false, true] {
            let looked = cache.look_up(texts.iter().map(|text| text.as_str().into()));
            texts.iter().zip(looked).for_each(|(text, looked)| encode(text, looked, is_known));
        }
        // A text that comes twice is found although it was not there when both were looked for.
        let twice = "b".repeat(300);
        let looked = cache.look_up([&*twice, &*twice].into_iter().map(Woven::from));
        [false, true].into_iter().zip(looked).for_each(|(is_known, looked)| encode(&twice, looked, is_known));
        // What was found for one text is nothing to another.
        let looked = cache.look_up([Woven::from(&*twice)].into_iter());
        for looked in looked {
            encode(&"c".repeat(300), looked, false);
        }
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses), (5, 6));
    }

    #[test]
    fn every_byte_counts_for_the_hash() {
        let keys = super::Keys::new();
        let text: String = (0..200).map(|number| char::from(b' ' + number % 64)).collect();
        let mut hashes = std::collections::HashSet::new();
        for length in 0..=text.len() {
            assert!(hashes.insert(keys.hash(text[..length].into())), "{length}");
        }
        for place in 0..text.len() {
            let mut other = text.clone();
            other.replace_range(place..=place, "~");
            assert!(hashes.insert(keys.hash((&*other).into())), "{place}");
        }
        // Zeros at the end are not what a block is filled up with.
        assert!((2..200).all(|length| hashes.insert(keys.hash((&*"\0".repeat(length)).into()))));
    }

    #[test]
    fn pieces_do_not_count() {
        let (cache, text) = (RangeCache::new(1 << 20), "a text of many words ".repeat(20));
        assert!(encode(&cache, &text).1);
        for (start, end) in (0..200).flat_map(|start| [0, 1, 40, 64, 130, 200].map(|length| (start, start + length))) {
            let own = [&text[..start], &text[end..]].concat();
            let inserts = [(start, start), (0, end)].map(|(after, until)| (after, &text[start..until]));
            let inserts = inserts.map(|(after, text)| Insert { after, text });
            let woven = Woven::new(&own, &inserts);
            assert_eq!((woven.len(), woven.pieces().collect::<String>()), (text.len(), text.clone()));
            assert_eq!(cache.keys.hash(woven), cache.keys.hash((&*text).into()), "{start}..{end}");
            let mut ids = Vec::new();
            cache.encode(woven, None, &mut ids, |_| panic!("it is known"));
            assert_eq!(ids.len(), text.len());
            let other = [inserts[0], Insert { after: 0, text: "other" }];
            assert!(!Woven::new(&own, &other).is(text.as_bytes()));
        }
    }

    #[test]
    fn short_ranges_are_left_out() {
        let cache = RangeCache::new(1 << 20);
        assert!(encode(&cache, "short").1 && encode(&cache, "short").1);
        assert_eq!(cache.statistics().misses, 0);
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let cache = RangeCache::new(64 << 10);
        let used = "used ".repeat(100);
        for number in 0..1000 {
            encode(&cache, &format!("{number} {}", "x".repeat(500)));
            assert_eq!(encode(&cache, &used).1, number == 0, "{number}");
            assert!(cache.statistics().held_bytes <= 64 << 10);
        }
        assert!(encode(&cache, &"y".repeat(64 << 10)).1);
        assert!(encode(&cache, &"y".repeat(64 << 10)).1, "larger than half of the bound");
    }
}
