//! Byte-level byte pair encoding of one pre-token at a time.
//!
//! Owns: the merge order: lowest rank first, leftmost among equals. Must not know: where pre-tokens come from, added
//! tokens, JSON.
//! Cost: see `lanes` for short words; linear for longer ones, see `long` and `greedy`, or with a heap in O(n log n) for the
//! rare vocabulary that `greedy` cannot read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::greedy::Greedy;
use super::long;
use super::pairs::{Merge, NO_ORDER, PairTable, ordered};
use super::tables::{ImageReader, ImageWriter, Table};
use super::words::TokenBytes;

/// Everything that turns a pre-token into ids.
pub(super) struct Encoder {
    byte_ids: Table<u32>,
    /// Orders of the merges of two bytes, by both.
    byte_pairs: Vec<u32>,
    /// Empty where `greedy` has them.
    merges: Table<Merge>,
    /// Id that each merge produces, by its order; empty where the order is the id.
    results: Vec<u32>,
    pub(super) pairs: PairTable,
    /// `None` for a vocabulary that it cannot read.
    pub(super) greedy: Option<Greedy>,
}

impl Encoder {
    /// Encoder of the given merges. Ids are below [`MAXIMUM_ENTRIES`], merges at most [`MAXIMUM_MERGES`].
    ///
    /// [`MAXIMUM_ENTRIES`]: super::pairs::MAXIMUM_ENTRIES
    /// [`MAXIMUM_MERGES`]: super::pairs::MAXIMUM_MERGES
    pub(super) fn new(byte_ids: &[u32; 256], merges: Vec<Merge>, tokens: &TokenBytes) -> Self {
        let mut encoder = Self::of(byte_ids.to_vec().into(), ordered(&merges));
        encoder.greedy = Greedy::new(byte_ids, &merges, tokens, &encoder.pairs);
        if encoder.greedy.is_none() {
            encoder.merges = merges.into();
        }
        encoder
    }

    fn of(byte_ids: Table<u32>, merges: impl DoubleEndedIterator<Item = (u32, Merge)> + Clone) -> Self {
        // Training numbers tokens in the order of their merges; then no table is needed to get from one to the other.
        let mut results = Vec::new();
        if merges.clone().any(|(order, [.., merged])| order != merged) {
            results.resize(merges.clone().count(), 0);
            for (order, [.., merged]) in merges.clone() {
                results.get_mut(order as usize).into_iter().for_each(|result| *result = merged);
            }
        }
        let pairs = PairTable::new(merges.clone());
        let byte_pairs = byte_pairs(&byte_ids, merges, &pairs);
        Self { byte_pairs, byte_ids, merges: Table::default(), results, pairs, greedy: None }
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.byte_ids);
        image.write(&self.merges);
        if let Some(greedy) = &self.greedy {
            greedy.write(image);
        }
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        let (byte_ids, merges) = (image.read()?, image.read::<Merge>()?);
        if merges.is_empty() {
            let greedy = Greedy::read(image)?;
            let encoder = Self::of(byte_ids, greedy.merges());
            Some(Self { greedy: Some(greedy), ..encoder })
        } else {
            let encoder = Self::of(byte_ids, ordered(&merges));
            Some(Self { merges, ..encoder })
        }
    }

    #[inline]
    pub(super) fn byte_id(&self, byte: u8) -> u32 {
        self.byte_ids.get(usize::from(byte)).copied().unwrap_or(0)
    }

    /// Order of the merge of two bytes, or [`NO_ORDER`].
    #[inline]
    pub(super) fn byte_pair_order(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs.get(byte_pair(left, right)).copied().unwrap_or(NO_ORDER)
    }

    /// The token that the merge of this order gives.
    #[inline]
    pub(super) fn merged(&self, order: u32) -> u32 {
        self.results.get(order as usize).copied().unwrap_or(order)
    }

    /// Whether merging the bytes of `id` is known to give it.
    pub(super) fn is_word(&self, id: u32) -> bool {
        self.greedy.as_ref().is_some_and(|greedy| greedy.length(id) > 0)
    }

    /// Appends the ids of one pre-token of any length.
    pub(super) fn merge(&self, word: &[u8], out: &mut Vec<u32>) {
        match &self.greedy {
            Some(greedy) => long::merge(self, greedy, word, out),
            None => self.merge_plainly(word, out),
        }
    }

    /// Finds the lowest rank with a heap over a linked list; entries that later merges made stale are skipped. The plain
    /// way: what `greedy` is compared with.
    pub(super) fn merge_plainly(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut list = LinkedIds::new(word.iter().map(|&byte| self.byte_id(byte)));
        let candidate = |list: &LinkedIds, at: usize| {
            let (left, right) = (list.id(at)?, list.id(list.next(at)?)?);
            let order = self.pairs.order(left, right);
            (order != NO_ORDER).then_some(Reverse((order, at)))
        };
        let mut heap: BinaryHeap<_> = (0..word.len()).filter_map(|at| candidate(&list, at)).collect();
        while let Some(entry) = heap.pop() {
            let Reverse((order, at)) = entry;
            if candidate(&list, at) != Some(entry) {
                continue;
            }
            list.join(at, self.merged(order));
            heap.extend(list.previous(at).and_then(|before| candidate(&list, before)));
            heap.extend(candidate(&list, at));
        }
        list.append_to(out);
    }
}

#[inline]
fn byte_pair(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

fn byte_pairs(byte_ids: &[u32], merges: impl Iterator<Item = (u32, Merge)>, pairs: &PairTable) -> Vec<u32> {
    let highest = byte_ids.iter().copied().max().unwrap_or(0);
    let mut bytes = vec![None; highest as usize + 1];
    for (byte, &id) in (0..=u8::MAX).zip(byte_ids) {
        if let Some(place) = bytes.get_mut(id as usize) {
            *place = Some(byte);
        }
    }
    let byte = |id: u32| bytes.get(id as usize).copied().flatten();
    let mut table = vec![NO_ORDER; 1 << 16];
    for (_, [left, right, _]) in merges {
        if let (Some(first), Some(second)) = (byte(left), byte(right))
            && let Some(order) = table.get_mut(byte_pair(first, second))
        {
            *order = pairs.order(left, right);
        }
    }
    table
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

#[cfg(test)]
mod tests;
