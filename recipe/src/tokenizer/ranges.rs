//! Plain ranges that were encoded before, and their ids.
//!
//! Agents send their whole history with every request. A plain range stands between control tokens, so its ids depend on
//! nothing else, and a range that is known costs one pass over its bytes.
//!
//! Owns: the ranges, within a bound, and the count of those found. Must not know: how text is encoded.
//! Cost: a hash of the range, then a comparison with the whole text: equal hashes give no wrong ids. Ranges are kept in
//! two generations; when the younger has half of the bytes, the older is forgotten and a new one begins.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Shorter ranges are encoded about as fast as they are found.
const SHORTEST: usize = 32;
/// What an entry takes besides its text and ids.
const OVERHEAD: usize = 128;

/// A bounded memory of encoded ranges, shared by all requests.
pub struct RangeCache {
    bound: usize,
    state: Mutex<State>,
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
type Generation = HashMap<u64, Arc<Range>, BuildHasherDefault<Same>>;

#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
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
    statistics: RangeCacheStatistics,
}

struct Range {
    text: Box<str>,
    ids: Box<[u32]>,
}

impl Range {
    fn bytes(&self) -> usize {
        self.text.len() + size_of_val::<[u32]>(&self.ids) + OVERHEAD
    }
}

impl RangeCache {
    /// Empty cache that holds up to `bound` bytes.
    pub fn new(bound: usize) -> Self {
        Self { bound, state: Mutex::default() }
    }

    /// What it holds, and how often it helped.
    pub fn statistics(&self) -> RangeCacheStatistics {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held_bytes = state.younger_bytes + state.older_bytes;
        RangeCacheStatistics { held_bytes, bound: self.bound, ..state.statistics }
    }

    /// Appends the ids of `text`, those that are known or those that `encode` appends.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>, encode: impl FnOnce(&mut Vec<u32>)) {
        if text.len() < SHORTEST {
            return encode(out);
        }
        let hash = hash(text.as_bytes());
        if let Some(range) = self.find(hash, text) {
            out.extend_from_slice(&range.ids);
            return;
        }
        let before = out.len();
        encode(out);
        self.insert(hash, Range { text: text.into(), ids: out.get(before..).unwrap_or_default().into() });
    }

    fn find(&self, hash: u64, text: &str) -> Option<Arc<Range>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.younger.get(&hash).or_else(|| state.older.get(&hash)).map(Arc::clone);
        let found = found.filter(|range| *range.text == *text);
        let statistics = &mut state.statistics;
        let length = text.len() as u64;
        if let Some(range) = &found {
            (statistics.hits, statistics.hit_bytes) = (statistics.hits + 1, statistics.hit_bytes + length);
            if let Some(old) = state.older.remove(&hash) {
                state.older_bytes -= old.bytes();
                state.keep(hash, Arc::clone(range), self.bound);
            }
        } else {
            (statistics.misses, statistics.missed_bytes) = (statistics.misses + 1, statistics.missed_bytes + length);
        }
        found
    }

    fn insert(&self, hash: u64, range: Range) {
        if range.bytes() <= self.bound / 2 {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.keep(hash, Arc::new(range), self.bound);
        }
    }
}

impl State {
    fn keep(&mut self, hash: u64, range: Arc<Range>, bound: usize) {
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

/// A hash of long texts, four words at a time.
fn hash(text: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| (state.rotate_left(29) ^ word).wrapping_mul(MULTIPLIER);
    let (blocks, rest) = text.as_chunks::<32>();
    let mut lanes = [text.len() as u64, 1, 2, 3];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let tail = rest.iter().fold(0, |state, &byte| mix(state, u64::from(byte)));
    let all = lanes.into_iter().fold(tail, mix);
    all ^ all >> 32
}

#[cfg(test)]
mod tests {
    use super::RangeCache;

    fn encode(cache: &RangeCache, text: &str) -> (Vec<u32>, bool) {
        let (mut ids, mut encoded) = (vec![7], false);
        cache.encode(text, &mut ids, |out| {
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
