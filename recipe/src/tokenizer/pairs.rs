//! Which pairs of tokens merge, and in what order.
//!
//! Owns: the pair table. Must not know: how a word is merged, token bytes.
//! Cost: one load for most pairs that do not merge, two for the others, all from tables small enough to stay near. The table is fixed once built and its probe
//! chains depend on the vocabulary only, so no text can make it slow.

use super::prefetch::prefetch;
use super::tables::{ImageReader, ImageWriter, Table};

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) merged: u32,
}

/// Hash table from token pairs to the order of their merges: left id, right id and order share one word.
pub(super) struct PairTable {
    slots: Table<u64>,
    mask: usize,
    shift: u32,
    /// [`FILTER_BITS`] bits a slot: most pairs that do not merge are known by one load from this small table.
    filter: Table<u64>,
}

impl PairTable {
    /// Table of merges, each with its order: a number of less than 2^24 that is the lower the earlier the merge is.
    pub(super) fn new(merges: &[Merge], orders: &[u32]) -> Self {
        let size = (merges.len() * 2).next_power_of_two().max(FILTER_WORD);
        let mut table = Self::of(vec![u64::MAX; size].into(), vec![0; size / FILTER_WORD].into());
        // From the last to the first: where a pair is listed twice the last rank counts, as in the reference.
        for (merge, order) in merges.iter().zip(orders).rev() {
            table.insert(merge.left, merge.right, *order);
        }
        table
    }

    fn of(slots: Table<u64>, filter: Table<u64>) -> Self {
        let (mask, shift) = (slots.len().wrapping_sub(1), 64 - slots.len().max(FILTER_WORD).ilog2());
        Self { slots, mask, shift, filter }
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.slots);
        image.write(&self.filter);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self::of(image.read()?, image.read()?))
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
        if let Some(word) = self.filter.to_mut().get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
        while let Some(slot) = self.slots.to_mut().get_mut(position) {
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
