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
    fn add(&self, ranges: u64, bytes: u64) {
        self.0.fetch_add(ranges, Ordering::Relaxed);
        self.1.fetch_add(bytes, Ordering::Relaxed);
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

/// Whatever is known of ranges.
type Ranges<T> = HashMap<Fingerprint, T, BuildHasherDefault<Ends>>;

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
    younger: Ranges<Known>,
    older: Ranges<Known>,
    younger_bytes: usize,
    older_bytes: usize,
}

/// The ids of a range.
#[derive(Clone)]
pub(super) struct Known(Arc<[u32]>);

impl Known {
    pub(super) fn ids(&self) -> &[u32] {
        &self.0
    }

    fn bytes(&self) -> usize {
        size_of_val(self.ids()) + OVERHEAD
    }

    /// Asks for the memory that is needed first.
    pub(super) fn prefetch(&self) {
        self.prefetch_lines(AHEAD);
    }

    fn prefetch_lines(&self, lines: usize) {
        for line in 0..lines {
            prefetch(self.ids(), line * LINE);
        }
    }
}

/// What is known of a text among others.
pub(super) enum Looked {
    Known(Known),
    /// Nothing; so many bytes.
    New(Fingerprint, usize),
    /// Nothing, and it is like the one at this place, which is the first of its kind.
    Again(usize),
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
        let mut all_bytes = 0;
        let new = |text: Woven<'_>| {
            all_bytes += text.len() as u64;
            Looked::New(self.keys.fingerprint(text), text.len())
        };
        let mut all: Vec<_> = texts.map(new).collect();
        self.find(&mut all);
        let (mut firsts, mut misses, mut missed_bytes) = (Ranges::default(), 0, 0);
        for (place, looked) in all.iter_mut().enumerate() {
            let Looked::New(fingerprint, bytes) = *looked else { continue };
            let first = *firsts.entry(fingerprint).or_insert(place);
            if first == place {
                (misses, missed_bytes) = (misses + 1, missed_bytes + bytes as u64);
            } else {
                *looked = Looked::Again(first);
            }
        }
        self.misses.add(misses, missed_bytes);
        self.hits.add(all.len() as u64 - misses, all_bytes - missed_bytes);
        all
    }

    /// Finds the ids that are known.
    fn find(&self, all: &mut [Looked]) {
        let Some(mut state) = self.state.hold() else { return };
        for looked in &*all {
            if let Looked::New(fingerprint, _) = looked
                && let Some(known) = state.get(*fingerprint)
            {
                known.prefetch_lines(1);
            }
        }
        for looked in all {
            if let Looked::New(fingerprint, _) = *looked
                && let Some(known) = state.touch(fingerprint, self.bound)
            {
                *looked = Looked::Known(known);
            }
        }
    }

    /// Keeps the ids of ranges, but for those that take more than half of the bound.
    pub(super) fn keep<'ids>(&self, new: impl Iterator<Item = (Fingerprint, &'ids [u32])>) {
        let new = new.map(|(fingerprint, ids)| (fingerprint, Known(ids.into())));
        let new: Vec<_> = new.filter(|(_, known)| known.bytes() <= self.bound / 2).collect();
        if let Some(mut state) = self.state.hold() {
            for (fingerprint, known) in new {
                state.keep(fingerprint, known, self.bound);
            }
        }
    }
}

impl State {
    fn get(&self, fingerprint: Fingerprint) -> Option<&Known> {
        self.younger.get(&fingerprint).or_else(|| self.older.get(&fingerprint))
    }

    /// A range, which is one of the younger ones from now on.
    fn touch(&mut self, fingerprint: Fingerprint, bound: usize) -> Option<Known> {
        if let Some(range) = self.younger.get(&fingerprint) {
            return Some(range.clone());
        }
        let range = self.older.remove(&fingerprint)?;
        self.older_bytes -= range.bytes();
        self.keep(fingerprint, range.clone(), bound);
        Some(range)
    }

    fn keep(&mut self, fingerprint: Fingerprint, range: Known, bound: usize) {
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
    use super::{Looked, RangeCache};
    use crate::tokenizer::Woven;

    /// Looks for texts as a prompt has them and keeps those that are new, each byte an id. For each text the place of the
    /// one that it is like, if its ids are not known.
    fn look_up(cache: &RangeCache, texts: &[&str]) -> Vec<Option<usize>> {
        let looked = cache.look_up(texts.iter().map(|&text| Woven::from(text)));
        let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let mut firsts = Vec::new();
        for (place, (looked, text)) in looked.into_iter().zip(texts).enumerate() {
            firsts.push(match looked {
                Looked::Known(known) => {
                    assert_eq!(known.ids(), ids(text));
                    None
                }
                Looked::Again(first) => Some(first),
                Looked::New(fingerprint, _) => {
                    cache.keep([(fingerprint, &*ids(text))].into_iter());
                    Some(place)
                }
            });
        }
        firsts
    }

    fn is_known(cache: &RangeCache, text: &str) -> bool {
        look_up(cache, &[text]) == [None]
    }

    #[test]
    fn known_ranges_are_found() {
        let cache = RangeCache::new(1 << 20);
        let text = "a".repeat(300);
        assert!(!is_known(&cache, &text) && is_known(&cache, &text) && !is_known(&cache, &text[1..]));
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses), (1, 2));
        assert_eq!((statistics.hit_bytes, statistics.missed_bytes), (300, 599));
    }

    #[test]
    fn what_comes_twice_among_the_same_is_new_once() {
        let cache = RangeCache::new(1 << 20);
        let [one, two, known] = ["a", "b", "c"].map(|letter| letter.repeat(300));
        assert!(!is_known(&cache, &known));
        let places = look_up(&cache, &[&one, &known, &two, &one, &two, &known]);
        assert_eq!(places, [Some(0), None, Some(2), Some(0), Some(2), None]);
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses), (4, 3));
        assert_eq!(look_up(&cache, &[&two, &one]), [None, None]);
    }

    #[test]
    fn a_cache_that_a_fork_left_locked_is_passed_over() {
        let cache = RangeCache::new(1 << 20);
        let text = "a".repeat(300);
        let _held = cache.state.hold();
        cache.state.leave_behind();
        assert!(!is_known(&cache, &text) && !is_known(&cache, &text));
        assert_eq!(look_up(&cache, &[&text, &text]), [Some(0), Some(0)]);
        assert_eq!(cache.statistics().held_bytes, 0);
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let cache = RangeCache::new(64 << 10);
        let used = "used ".repeat(100);
        for number in 0..1000 {
            is_known(&cache, &format!("{number} {}", "x".repeat(500)));
            assert_eq!(is_known(&cache, &used), number > 0, "{number}");
            assert!(cache.statistics().held_bytes <= 64 << 10);
        }
        let large = "y".repeat(64 << 10);
        assert!(!is_known(&cache, &large) && !is_known(&cache, &large), "larger than half of the bound");
    }
}
