//! Which pairs of tokens merge, and in what order.
//!
//! Owns: the pair table. Must not know: how a word is merged, token bytes.
//! Cost: one load for most pairs that do not merge, two for the others, all from tables small enough to stay near. The table is fixed once built and its probe
//! chains depend on the vocabulary only, so no text can make it slow.

#![allow(clippy::cast_possible_truncation, reason = "ranks are less than 2^24")]

use super::prefetch::prefetch;

/// Order of a pair that does not merge.
pub(super) const NO_ORDER: u32 = u32::MAX;
/// Spreads pair keys over the table.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bits of the filter for each slot.
const FILTER_BITS: usize = 8;
/// Slots for which one word of the filter has bits.
const FILTER_WORD: usize = 64 / FILTER_BITS;
/// Bits of a token id inside a pair slot.
pub(super) const ID_BITS: u32 = 20;
/// Bits of the order of a merge inside a pair slot.
const ORDER_BITS: u32 = 24;
const ORDER_MASK: u64 = (1 << ORDER_BITS) - 1;
/// One more than the highest token id that a pair slot holds; the all-ones id is part of the empty slot.
pub(super) const MAXIMUM_ENTRIES: usize = (1 << ID_BITS) - 1;
/// Most merges that a pair slot can number.
pub(super) const MAXIMUM_MERGES: usize = (1 << ORDER_BITS) - 1;

/// One merge: its two parts and what they become. Its rank is its place in the list.
pub(super) type Merge = [u32; 3];

/// The orders of merges: numbers of less than 2^24 that are the lower the earlier a merge is. The id that it makes is its
/// order where ids are in the order of merges.
pub(super) fn orders(merges: &[Merge]) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
    let same = merges.is_sorted_by(|[.., one], [.., other]| one < other);
    (0..merges.len()).map(move |rank| merges.get(rank).filter(|_| same).map_or(rank as u32, |&[.., merged]| merged))
}

/// Hash table from token pairs to the order of their merges: left id, right id and order share one word.
pub(super) struct PairTable {
    slots: Vec<u64>,
    mask: usize,
    shift: u32,
    /// [`FILTER_BITS`] bits a slot: most pairs that do not merge are known by one load from this small table.
    filter: Vec<u64>,
}

impl PairTable {
    /// Table of merges by their orders.
    pub(super) fn new(merges: &[Merge]) -> Self {
        let size = (merges.len() * 2).next_power_of_two().max(FILTER_WORD);
        let (slots, filter) = (vec![u64::MAX; size], vec![0; size / FILTER_WORD]);
        let mut table = Self { slots, mask: size - 1, shift: 64 - size.ilog2(), filter };
        // From the last to the first: where a pair is listed twice the last rank counts, as in the reference.
        for (&[left, right, _], order) in merges.iter().zip(orders(merges)).rev() {
            table.insert(left, right, order);
        }
        table
    }

    /// Where the search for a pair starts, and its bit in the filter.
    #[inline]
    fn place(&self, key: u64) -> (usize, usize) {
        let hash = key.wrapping_mul(MULTIPLIER) >> (self.shift - FILTER_BITS.ilog2());
        let bit = usize::try_from(hash).unwrap_or(0);
        (bit / FILTER_BITS, bit)
    }

    fn insert(&mut self, left: u32, right: u32, order: u32) {
        let key = u64::from(left) << ID_BITS | u64::from(right);
        let (mut position, bit) = self.place(key);
        if let Some(word) = self.filter.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
        while let Some(slot) = self.slots.get_mut(position) {
            if *slot >> ORDER_BITS == key {
                return;
            }
            if *slot == u64::MAX {
                *slot = key << ORDER_BITS | u64::from(order);
                return;
            }
            position = (position + 1) & self.mask;
        }
    }

    /// Begins to load what tells of `left` and `right`.
    #[inline]
    pub(super) fn prefetch(&self, left: u32, right: u32) {
        let (position, bit) = self.place(u64::from(left) << ID_BITS | u64::from(right));
        prefetch(&self.filter, bit / 64);
        prefetch(&self.slots, position);
    }

    /// Order of the merge of `left` and `right`, or [`NO_ORDER`].
    #[inline]
    pub(super) fn order(&self, left: u32, right: u32) -> u32 {
        let key = u64::from(left) << ID_BITS | u64::from(right);
        let (mut position, bit) = self.place(key);
        if self.filter.get(bit / 64).is_none_or(|word| word >> (bit % 64) & 1 == 0) {
            return NO_ORDER;
        }
        while let Some(&slot) = self.slots.get(position) {
            if slot >> ORDER_BITS == key {
                return u32::try_from(slot & ORDER_MASK).unwrap_or(NO_ORDER);
            }
            if slot == u64::MAX {
                break;
            }
            position = (position + 1) & self.mask;
        }
        NO_ORDER
    }
}
