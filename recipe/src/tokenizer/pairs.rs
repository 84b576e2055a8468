//! Which pairs of tokens merge, and in what order.
//!
//! Owns: the pair table. Must not know: how a word is merged, token bytes.
//! Cost: one load of a part of a cache line, and hardly ever a second one. The table is fixed once built and depends on the
//! vocabulary only, so no text can make it slow.

#![allow(clippy::cast_possible_truncation, reason = "orders are less than 2^20, and a hash is cut to a place")]

use std::hint::select_unpredictable;

use super::prefetch::prefetch;

/// Order of a pair that does not merge.
pub(super) const NO_ORDER: u32 = u32::MAX;
/// Spreads pair keys over the table.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bits of a token id inside a slot.
pub(super) const ID_BITS: u32 = 20;
/// Bits of a slot behind the ids: the order of the merge, and before it the bits of [`last`].
const REST_BITS: u32 = 24;
const ORDER_BITS: u32 = 20;
/// One more than the highest token id that a slot holds; the all-ones id is part of the empty slot.
pub(super) const MAXIMUM_ENTRIES: usize = (1 << ID_BITS) - 1;
/// Most merges that a slot can number.
pub(super) const MAXIMUM_MERGES: usize = 1 << ORDER_BITS;
const ALL_LAST: u64 = (1 << REST_BITS) - (1 << ORDER_BITS);
const EMPTY: u64 = u64::MAX;

/// One merge: its two parts and what they become. Its rank is its place in the list.
pub(super) type Merge = [u32; 3];

/// Merges and their orders: numbers of less than 2^20 that are the lower the earlier a merge is. The id that it makes is
/// its order where ids are in the order of merges.
pub(super) fn ordered(merges: &[Merge]) -> impl DoubleEndedIterator<Item = (u32, Merge)> + Clone + '_ {
    let same = merges.is_sorted_by(|[.., one], [.., other]| one < other);
    let order = move |rank: usize, merged: u32| if same { merged } else { rank as u32 };
    merges.iter().enumerate().map(move |(rank, merge)| (order(rank, merge[2]), *merge))
}

/// Hash table from token pairs to the order of their merges: left id, right id and order share one word. Pairs for which
/// a bucket has no room are in the next one that has.
pub(super) struct PairTable {
    buckets: Vec<[u64; 2]>,
    shift: u32,
}

impl PairTable {
    /// Table of merges and their orders.
    pub(super) fn new(merges: impl DoubleEndedIterator<Item = (u32, Merge)> + Clone) -> Self {
        let size = merges.clone().count().next_power_of_two().max(2);
        let mut table = Self { buckets: vec![[EMPTY; 2]; size], shift: u64::BITS - size.ilog2() };
        // From the last to the first: where a pair is listed twice the last rank counts, as in the reference.
        for (order, [left, right, _]) in merges.rev() {
            table.insert(key(left, right), order);
        }
        table
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        (key.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) % self.buckets.len()
    }

    fn insert(&mut self, key: u64, order: u32) {
        let mut place = self.place(key);
        while let Some(bucket) = self.buckets.get_mut(place) {
            for slot in &mut *bucket {
                if *slot >> REST_BITS == key {
                    return;
                }
                if *slot == EMPTY {
                    *slot = key << REST_BITS | ALL_LAST | u64::from(order);
                    return;
                }
            }
            bucket[1] &= !last(key);
            place = self.next(place);
        }
    }

    /// Begins to load what tells of `left` and `right`.
    #[inline]
    pub(super) fn prefetch(&self, left: u32, right: u32) {
        prefetch(&self.buckets, self.place(key(left, right)));
    }

    /// Order of the merge of `left` and `right`, or [`NO_ORDER`].
    #[inline]
    pub(super) fn order(&self, left: u32, right: u32) -> u32 {
        let key = key(left, right);
        let place = self.place(key);
        let Some(&[first, second]) = self.buckets.get(place) else { return NO_ORDER };
        let (is_first, is_second) = (first >> REST_BITS == key, second >> REST_BITS == key);
        if !(is_first | is_second) & (second & last(key) == 0) {
            return self.order_beyond(place, key);
        }
        let slot = select_unpredictable(is_first, first, second);
        select_unpredictable(is_first | is_second, order_of(slot), NO_ORDER)
    }

    /// Order of a pair that is not in the bucket at `place`, for which that has no room.
    #[cold]
    fn order_beyond(&self, mut place: usize, key: u64) -> u32 {
        loop {
            place = self.next(place);
            let Some(bucket) = self.buckets.get(place) else { return NO_ORDER };
            if let Some(&slot) = bucket.iter().find(|&slot| slot >> REST_BITS == key) {
                return order_of(slot);
            }
            if bucket[1] & last(key) != 0 {
                return NO_ORDER;
            }
        }
    }
}

#[inline]
fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

/// What says in the second slot of a bucket that the bucket had room for all pairs whose keys end like `key`.
#[inline]
fn last(key: u64) -> u64 {
    1 << (u64::from(ORDER_BITS) + key % 4)
}

#[inline]
fn order_of(slot: u64) -> u32 {
    (slot & ((1 << ORDER_BITS) - 1)) as u32
}
