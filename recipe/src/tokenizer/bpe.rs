//! Byte-level byte pair encoding of one pre-token at a time.
//!
//! Owns: the token bytes, the word table, the pair table and the merge order (lowest rank first, leftmost among
//! equals). Must not know: where pre-tokens come from, added tokens, JSON.
//! Cost: a pre-token that is an entry is one hash probe. Others merge: quadratic on the stack up to [`SHORT`] bytes,
//! where that is fastest, with a heap in O(n log n) beyond. Both tables are fixed once built and their probe chains
//! depend on the vocabulary only, so no text can make them slow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Longest pre-token, in bytes, that merges in arrays on the stack.
const SHORT: usize = 64;
/// Rank of a pair that does not merge.
const NO_RANK: u32 = u32::MAX;
/// Bits of a token id inside a pair slot.
const ID_BITS: u32 = 20;
/// Bits of a merge rank inside a pair slot.
const RANK_BITS: u32 = 24;
/// One more than the highest token id that a pair slot holds; the all-ones id is part of the empty slot.
pub(super) const MAXIMUM_ENTRIES: usize = (1 << ID_BITS) - 1;
/// Most merges that a pair slot can number.
pub(super) const MAXIMUM_MERGES: usize = (1 << RANK_BITS) - 1;

/// One merge: its two parts and what they become. Its rank is its place in the list.
#[derive(Clone, Copy)]
pub(super) struct Merge {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) merged: u32,
}

/// Bytes of every token that stands for text, by id. An empty entry is an id that has none.
#[derive(Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl TokenBytes {
    /// Adds the entry of the next id. `None` when all entries together pass 4 GiB.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// Bytes of `id`, or `None` when it stands for no text.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize).filter(|bytes| !bytes.is_empty())
    }

    /// Number of ids, those without bytes included.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Hash table from whole words to token ids: open addressing, half full at most.
pub(super) struct WordTable {
    slots: Vec<WordSlot>,
    mask: usize,
}

#[derive(Clone, Copy)]
struct WordSlot {
    key: u64,
    length: u32,
    /// `u32::MAX` in an empty slot.
    id: u32,
}

impl WordTable {
    /// Table of the given ids, which all have bytes.
    pub(super) fn new(tokens: &TokenBytes, ids: impl Iterator<Item = u32>) -> Self {
        let size = (tokens.len() * 2).next_power_of_two();
        let empty = WordSlot { key: 0, length: 0, id: u32::MAX };
        let mut table = Self { slots: vec![empty; size], mask: size - 1 };
        for id in ids {
            if let Some(word) = tokens.get(id) {
                let key = word_key(word);
                table.insert(WordSlot { key, length: word.len() as u32, id });
            }
        }
        table
    }

    #[inline]
    fn start(&self, key: u64, length: u32) -> usize {
        mix(key, u64::from(length)) as usize & self.mask
    }

    fn insert(&mut self, new: WordSlot) {
        let mut position = self.start(new.key, new.length);
        while let Some(slot) = self.slots.get_mut(position) {
            if slot.id == u32::MAX {
                *slot = new;
                return;
            }
            position = (position + 1) & self.mask;
        }
    }

    /// Id of `word`.
    #[inline]
    pub(super) fn find(&self, tokens: &TokenBytes, word: &[u8]) -> Option<u32> {
        let key = word_key(word);
        let length = u32::try_from(word.len()).ok()?;
        let mut position = self.start(key, length);
        loop {
            let slot = self.slots.get(position)?;
            if slot.id == u32::MAX {
                return None;
            }
            let same = slot.key == key && slot.length == length;
            if same && (word.len() <= EXACT_KEY || tokens.get(slot.id) == Some(word)) {
                return Some(slot.id);
            }
            position = (position + 1) & self.mask;
        }
    }
}

/// Longest word whose key and length say all of it.
const EXACT_KEY: usize = 8;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn mix(state: u64, value: u64) -> u64 {
    let product = u128::from(state ^ value.rotate_left(32)) * u128::from(MULTIPLIER);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The bytes of a short word, a hash of a longer one. Reads that overlap spare a loop over single bytes.
#[inline]
fn word_key(word: &[u8]) -> u64 {
    if word.len() > EXACT_KEY {
        return long_word_key(word);
    }
    if let (Some(head), Some(tail)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail));
    }
    word.iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
}

#[inline]
fn long_word_key(word: &[u8]) -> u64 {
    let (chunks, _) = word.as_chunks::<8>();
    let tail = word.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
    chunks.iter().fold(mix(MULTIPLIER, tail), |state, chunk| mix(state, u64::from_le_bytes(*chunk)))
}

/// Hash table from token pairs to merge ranks: left id, right id and rank share one word.
struct PairTable {
    slots: Vec<u64>,
    mask: usize,
    shift: u32,
}

impl PairTable {
    fn new(merges: &[Merge]) -> Self {
        let size = (merges.len() * 2).next_power_of_two().max(2);
        let mut table = Self { slots: vec![u64::MAX; size], mask: size - 1, shift: 64 - size.ilog2() };
        // From the last to the first: where a pair is listed twice the last rank counts, as in the reference.
        for (rank, merge) in merges.iter().enumerate().rev() {
            table.insert(merge.left, merge.right, rank as u64);
        }
        table
    }

    #[inline]
    fn start(&self, key: u64) -> usize {
        (key.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    fn insert(&mut self, left: u32, right: u32, rank: u64) {
        let key = u64::from(left) << ID_BITS | u64::from(right);
        let mut position = self.start(key);
        while let Some(slot) = self.slots.get_mut(position) {
            if *slot >> RANK_BITS == key {
                return;
            }
            if *slot == u64::MAX {
                *slot = key << RANK_BITS | rank;
                return;
            }
            position = (position + 1) & self.mask;
        }
    }

    /// Rank of the merge of `left` and `right`, or [`NO_RANK`].
    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
        let key = u64::from(left) << ID_BITS | u64::from(right);
        let mut position = self.start(key);
        while let Some(&slot) = self.slots.get(position) {
            if slot >> RANK_BITS == key {
                return (slot & u64::from(u32::MAX >> (32 - RANK_BITS))) as u32;
            }
            if slot == u64::MAX {
                break;
            }
            position = (position + 1) & self.mask;
        }
        NO_RANK
    }
}

/// Everything that turns a pre-token into ids.
pub(super) struct Encoder {
    byte_ids: [u32; 256],
    /// Rank of every pair of bytes, first byte first: the pairs that each merge starts with.
    byte_pairs: Vec<u32>,
    pairs: PairTable,
    /// Id that each merge produces, by rank.
    merged: Vec<u32>,
}

impl Encoder {
    /// Encoder of the given merges. Ids are below [`MAXIMUM_ENTRIES`], merges at most [`MAXIMUM_MERGES`].
    pub(super) fn new(byte_ids: [u32; 256], merges: &[Merge]) -> Self {
        let merged = merges.iter().map(|merge| merge.merged).collect();
        let pairs = PairTable::new(merges);
        let byte_pairs = byte_ids.iter().flat_map(|&left| byte_ids.iter().map(move |&right| (left, right)));
        let byte_pairs = byte_pairs.map(|(left, right)| pairs.rank(left, right)).collect();
        Self { byte_ids, byte_pairs, pairs, merged }
    }

    #[inline]
    fn byte_pair_rank(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs.get(usize::from(left) << 8 | usize::from(right)).copied().unwrap_or(NO_RANK)
    }

    #[inline]
    fn byte_id(&self, byte: u8) -> u32 {
        self.byte_ids.get(usize::from(byte)).copied().unwrap_or(0)
    }

    /// Appends the ids of one pre-token, merged from its bytes.
    pub(super) fn merge(&self, word: &[u8], out: &mut Vec<u32>) {
        if word.len() <= SHORT { self.merge_short(word, out) } else { self.merge_long(word, out) }
    }

    /// Finds the lowest rank by looking at all of them. A token keeps the place of its first byte; a bit for each
    /// place says whether a token begins there.
    fn merge_short(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut ids = [0; SHORT];
        let mut ranks = [NO_RANK; SHORT];
        for (id, &byte) in ids.iter_mut().zip(word) {
            *id = self.byte_id(byte);
        }
        for (rank, &[left, right]) in ranks.iter_mut().zip(word.array_windows()) {
            *rank = self.byte_pair_rank(left, right);
        }
        let id_at = |ids: &[u32; SHORT], at: u32| ids.get(at as usize).copied().unwrap_or(0);
        let mut begins = low_bits(word.len());
        loop {
            let in_use = ranks.get(..word.len()).unwrap_or_default();
            let lowest = in_use.iter().copied().min().unwrap_or(NO_RANK);
            if lowest == NO_RANK {
                break;
            }
            let at = in_use.iter().position(|&rank| rank == lowest).unwrap_or(0);
            let merged = self.merged.get(lowest as usize).copied().unwrap_or(0);
            let after = begins & !low_bits(at + 1);
            begins ^= after & after.wrapping_neg();
            if let (Some(id), Some(rank)) = (ids.get_mut(at), ranks.get_mut(after.trailing_zeros() as usize)) {
                *id = merged;
                *rank = NO_RANK;
            }
            let after = begins & !low_bits(at + 1);
            let following = (after != 0).then(|| id_at(&ids, after.trailing_zeros()));
            if let Some(rank) = ranks.get_mut(at) {
                *rank = following.map_or(NO_RANK, |following| self.pairs.rank(merged, following));
            }
            if let Some(before) = (begins & low_bits(at)).checked_ilog2() {
                let left = id_at(&ids, before);
                if let Some(rank) = ranks.get_mut(before as usize) {
                    *rank = self.pairs.rank(left, merged);
                }
            }
        }
        while begins != 0 {
            out.push(id_at(&ids, begins.trailing_zeros()));
            begins &= begins - 1;
        }
    }

    /// Finds the lowest rank with a heap over a linked list; entries that later merges made stale are skipped.
    fn merge_long(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut list = LinkedIds::new(word.iter().map(|&byte| self.byte_id(byte)));
        let candidate = |list: &LinkedIds, at: usize| {
            let (left, right) = (list.id(at)?, list.id(list.next(at)?)?);
            let rank = self.pairs.rank(left, right);
            (rank != NO_RANK).then_some(Reverse((rank, at)))
        };
        let mut heap: BinaryHeap<_> = (0..word.len()).filter_map(|at| candidate(&list, at)).collect();
        while let Some(entry) = heap.pop() {
            let Reverse((rank, at)) = entry;
            if candidate(&list, at) != Some(entry) {
                continue;
            }
            list.join(at, self.merged.get(rank as usize).copied().unwrap_or(0));
            heap.extend(list.previous(at).and_then(|before| candidate(&list, before)));
            heap.extend(candidate(&list, at));
        }
        list.append_to(out);
    }
}

/// A word with the lowest `count` bits set; all of them from 64 on.
#[inline]
fn low_bits(count: usize) -> u64 {
    u32::try_from(count).ok().and_then(|count| 1_u64.checked_shl(count)).map_or(u64::MAX, |bit| bit - 1)
}

/// Ids in a doubly linked list inside one vector; a node keeps its place, the place of its first byte.
struct LinkedIds {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    /// `None` once joined to the node before it.
    id: Option<u32>,
    previous: usize,
    next: usize,
}

impl LinkedIds {
    fn new(ids: impl Iterator<Item = u32>) -> Self {
        let node = |(at, id): (usize, u32)| Node { id: Some(id), previous: at.wrapping_sub(1), next: at + 1 };
        Self { nodes: ids.enumerate().map(node).collect() }
    }

    fn id(&self, at: usize) -> Option<u32> {
        self.nodes.get(at)?.id
    }

    fn next(&self, at: usize) -> Option<usize> {
        Some(self.nodes.get(at)?.next).filter(|&next| next < self.nodes.len())
    }

    fn previous(&self, at: usize) -> Option<usize> {
        Some(self.nodes.get(at)?.previous).filter(|&previous| previous < self.nodes.len())
    }

    /// Joins the node at `at` and the next one into `id`.
    fn join(&mut self, at: usize, id: u32) {
        let Some(joined) = self.next(at) else { return };
        let beyond = self.nodes.get(joined).map_or(self.nodes.len(), |node| node.next);
        if let Some(node) = self.nodes.get_mut(joined) {
            node.id = None;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.id = Some(id);
            node.next = beyond;
        }
        if let Some(node) = self.nodes.get_mut(beyond) {
            node.previous = at;
        }
    }

    fn append_to(&self, out: &mut Vec<u32>) {
        out.extend(self.nodes.iter().filter_map(|node| node.id));
    }
}
