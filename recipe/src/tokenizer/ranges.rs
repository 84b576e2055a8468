//! Plain ranges that were encoded before, and their ids.
//!
//! Agents send their whole history with every request. A plain range stands between control tokens, so its ids depend on
//! nothing else, and a range that is known costs one pass over its bytes.
//!
//! Owns: the ids, within a bound, and the count of ranges found. Must not know: how text is encoded.
//! Cost: a fingerprint of the range, which stands for its text, and a copy of its ids. The ranges of a prompt are looked up
//! together, as nearly all of the time would be spent waiting for memory, one after the other. Ranges are kept in two
//! generations; when the younger has half of the bytes, the older is forgotten and a new one begins.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fingerprint::{Fingerprint, Keys};
use super::prefetch::prefetch;
use super::woven::Woven;
use crate::fork::Lock;

/// Shorter ranges are encoded about as fast as they are found.
pub(super) const SHORTEST: usize = 32;
/// What an entry takes besides its ids.
const OVERHEAD: usize = 128;

/// Words of four bytes in a line of the processor's cache.
const LINE: usize = 16;
/// Lines of a range that are asked for ahead; the processor sees by itself that the others follow.
const AHEAD: usize = 4;

/// A bounded memory of encoded ranges, shared by all requests.
pub struct RangeCache {
    bound: usize,
    keys: Keys,
    state: Lock<State>,
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

/// The ids of ranges.
type Generation = HashMap<Fingerprint, Range, BuildHasherDefault<Ends>>;

/// The ends of a fingerprint: the lower half of one hash, and the upper half of the other. Texts that differ in a byte may
/// share one of them.
#[derive(Default)]
struct Ends(u64);

impl Hasher for Ends {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let ends = [bytes.first_chunk(), bytes.last_chunk()].into_iter().flatten();
        self.0 = ends.fold(0, |hash, end| hash ^ u64::from_ne_bytes(*end));
    }
}

#[derive(Default)]
struct State {
    younger: Generation,
    older: Generation,
    younger_bytes: usize,
    older_bytes: usize,
}

/// The ids of a range.
#[derive(Clone)]
struct Range(Arc<[u32]>);

impl Range {
    fn bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.0) + OVERHEAD
    }

    fn prefetch(&self, lines: usize) {
        for line in 0..lines {
            prefetch(&self.0, line * LINE);
        }
    }
}

/// What is known of a text.
pub(super) struct Looked {
    fingerprint: Fingerprint,
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
        let (state, hits, misses) = (Lock::default(), Count::default(), Count::default());
        Self { bound, keys: Keys::new(), state, hits, misses }
    }

    /// What it holds, and how often it helped.
    pub fn statistics(&self) -> RangeCacheStatistics {
        let held_bytes = self.state.hold().map_or(0, |state| state.younger_bytes + state.older_bytes);
        let ((hits, hit_bytes), (misses, missed_bytes)) = (self.hits.get(), self.misses.get());
        RangeCacheStatistics { hits, misses, hit_bytes, missed_bytes, held_bytes, bound: self.bound }
    }

    /// Looks for texts that are to be encoded one after the other. None of them is shorter than [`SHORTEST`].
    pub(super) fn look_up<'t>(&self, texts: impl Iterator<Item = Woven<'t>>) -> Vec<Looked> {
        let new = |text| Looked { fingerprint: self.keys.fingerprint(text), range: None };
        let mut all: Vec<Looked> = texts.map(new).collect();
        let Some(mut state) = self.state.hold() else { return all };
        for range in all.iter().filter_map(|looked| state.get(looked.fingerprint)) {
            range.prefetch(1);
        }
        for looked in &mut all {
            looked.range = state.touch(looked.fingerprint, self.bound);
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
        let looked = looked.unwrap_or_else(|| Looked { fingerprint: self.keys.fingerprint(text), range: None });
        // What was not known before may be known by now, if it comes twice.
        let range = looked.range.or_else(|| self.state.hold()?.touch(looked.fingerprint, self.bound));
        if let Some(Range(ids)) = range {
            self.hits.add(text);
            return out.extend_from_slice(&ids);
        }
        self.misses.add(text);
        let before = out.len();
        encode(out);
        let range = Range(out.get(before..).unwrap_or_default().into());
        if range.bytes() <= self.bound / 2
            && let Some(mut state) = self.state.hold()
        {
            state.keep(looked.fingerprint, range, self.bound);
        }
    }
}

impl State {
    fn get(&self, fingerprint: Fingerprint) -> Option<&Range> {
        self.younger.get(&fingerprint).or_else(|| self.older.get(&fingerprint))
    }

    /// A range, which is one of the younger ones from now on.
    fn touch(&mut self, fingerprint: Fingerprint, bound: usize) -> Option<Range> {
        if let Some(range) = self.younger.get(&fingerprint) {
            return Some(range.clone());
        }
        let range = self.older.remove(&fingerprint)?;
        self.older_bytes -= range.bytes();
        self.keep(fingerprint, range.clone(), bound);
        Some(range)
    }

    fn keep(&mut self, fingerprint: Fingerprint, range: Range, bound: usize) {
        if self.younger_bytes + range.bytes() > bound / 2 {
            self.older = std::mem::take(&mut self.younger);
            self.older_bytes = std::mem::take(&mut self.younger_bytes);
        }
        self.younger_bytes += range.bytes();
        if let Some(replaced) = self.younger.insert(fingerprint, range) {
            self.younger_bytes -= replaced.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RangeCache;
    use crate::tokenizer::Woven;

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
    fn ranges_may_be_looked_for_together() {
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
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses), (5, 5));
    }

    #[test]
    fn short_ranges_are_left_out() {
        let cache = RangeCache::new(1 << 20);
        assert!(encode(&cache, "short").1 && encode(&cache, "short").1);
        assert_eq!(cache.statistics().misses, 0);
    }

    #[test]
    fn a_cache_that_a_fork_left_locked_is_passed_over() {
        let cache = RangeCache::new(1 << 20);
        let text = "a".repeat(300);
        let _held = cache.state.hold();
        cache.state.leave_behind();
        assert!(encode(&cache, &text).1 && encode(&cache, &text).1);
        assert_eq!(cache.look_up([text.as_str().into()].into_iter()).len(), 1);
        assert_eq!(cache.statistics().held_bytes, 0);
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
