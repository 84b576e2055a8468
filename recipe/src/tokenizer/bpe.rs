//! Byte-level byte pair encoding of one pre-token at a time.
//!
//! Owns: the merge order: lowest rank first, leftmost among equals. Must not know: where pre-tokens come from, added
//! tokens, JSON.
//! Cost: quadratic on the stack up to [`SHORT`] bytes, where that is fastest, linear beyond, see `greedy`; with a heap
//! in O(n log n) for the rare vocabulary that `greedy` cannot read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::greedy::Greedy;
use super::pairs::{Merge, NO_RANK, PairTable};
use super::words::TokenBytes;

/// Longest pre-token, in bytes, that merges in arrays on the stack.
const SHORT: usize = 64;
/// Everything that turns a pre-token into ids.
pub(super) struct Encoder {
    byte_ids: [u32; 256],
    /// Rank of every pair of bytes, first byte first: the pairs that each merge starts with.
    byte_pairs: Vec<u32>,
    pairs: PairTable,
    /// Id that each merge produces, by rank.
    results: Vec<u32>,
    /// `None` for a vocabulary that it cannot read.
    pub(super) greedy: Option<Greedy>,
}

impl Encoder {
    /// Encoder of the given merges. Ids are below [`MAXIMUM_ENTRIES`], merges at most [`MAXIMUM_MERGES`].
    pub(super) fn new(byte_ids: &[u32; 256], merges: &[Merge], tokens: &TokenBytes) -> Self {
        let pairs = PairTable::new(merges);
        let byte_pairs = byte_ids.iter().flat_map(|&left| byte_ids.iter().map(move |&right| (left, right)));
        let byte_pairs = byte_pairs.map(|(left, right)| pairs.rank(left, right)).collect();
        let results = merges.iter().map(|merge| merge.merged).collect();
        let greedy = Greedy::new(byte_ids, merges, tokens, &pairs);
        Self { byte_ids: *byte_ids, byte_pairs, pairs, results, greedy }
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
        match &self.greedy {
            _ if word.len() <= SHORT => self.merge_short(word, out),
            Some(greedy) => greedy.encode(&self.pairs, word, out),
            None => self.merge_long(word, out),
        }
    }

    /// Finds the lowest rank by looking at all of them; closes the gap by moving the rest down.
    fn merge_short(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut id_space = [0; SHORT];
        let mut rank_space = [NO_RANK; SHORT];
        for (id, &byte) in id_space.iter_mut().zip(word) {
            *id = self.byte_id(byte);
        }
        let mut length = word.len();
        for (rank, &[left, right]) in rank_space.iter_mut().zip(word.array_windows()) {
            *rank = self.byte_pair_rank(left, right);
        }
        loop {
            let ids = id_space.get_mut(..length).unwrap_or_default();
            let ranks = rank_space.get_mut(..length).unwrap_or_default();
            let lowest = ranks.iter().copied().min().unwrap_or(NO_RANK);
            if lowest == NO_RANK {
                out.extend_from_slice(ids);
                return;
            }
            let at = ranks.iter().position(|&rank| rank == lowest).unwrap_or(0);
            ids.copy_within(at + 1.., at);
            ranks.copy_within(at + 1.., at);
            length -= 1;
            let merged = self.results.get(lowest as usize).copied().unwrap_or(0);
            let following = if at + 1 < length { ids.get(at + 1).copied() } else { None };
            let before = at.checked_sub(1).and_then(|before| ids.get(before)).copied();
            if let Some(id) = ids.get_mut(at) {
                *id = merged;
            }
            if let Some(rank) = ranks.get_mut(at) {
                *rank = following.map_or(NO_RANK, |following| self.pairs.rank(merged, following));
            }
            if let (Some(before), Some(rank)) = (before, ranks.get_mut(at.wrapping_sub(1))) {
                *rank = self.pairs.rank(before, merged);
            }
        }
    }

    /// Finds the lowest rank with a heap over a linked list; entries that later merges made stale are skipped. The plain
    /// way: what `greedy` is compared with.
    pub(super) fn merge_long(&self, word: &[u8], out: &mut Vec<u32>) {
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
            list.join(at, self.results.get(rank as usize).copied().unwrap_or(0));
            heap.extend(list.previous(at).and_then(|before| candidate(&list, before)));
            heap.extend(candidate(&list, at));
        }
        list.append_to(out);
    }
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
mod tests {
    use super::{Encoder, Merge, SHORT};
    use crate::tokenizer::words::TokenBytes;
    use proptest::prelude::*;

    /// The rule itself: merge the leftmost pair of the lowest rank until no pair merges.
    fn by_the_rule(merges: &[Merge], word: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = word.iter().map(|&byte| u32::from(byte)).collect();
        loop {
            let found = merges.iter().find_map(|merge| {
                let at = ids.array_windows().position(|&[left, right]| (left, right) == (merge.left, merge.right))?;
                Some((at, merge))
            });
            let Some((at, merge)) = found else { return ids };
            ids.splice(at..at + 2, [merge.merged]);
        }
    }

    /// Merges that build on each other, each after those that make its parts.
    fn merges() -> impl Strategy<Value = Vec<Merge>> {
        proptest::collection::vec((0_usize..30, 0_usize..30), 1..30).prop_map(|parts| {
            let mut ids: Vec<u32> = (97..100).collect();
            let mut merges: Vec<Merge> = Vec::new();
            for ((left, right), merged) in parts.into_iter().zip(256..) {
                let (left, right) = (ids[left % ids.len()], ids[right % ids.len()]);
                if merges.iter().all(|merge| (merge.left, merge.right) != (left, right)) {
                    merges.push(Merge { left, right, merged });
                    ids.push(merged);
                }
            }
            merges
        })
    }

    fn encoder(merges: &[Merge]) -> Encoder {
        let mut byte_ids = [0; 256];
        for (id, byte) in byte_ids.iter_mut().zip(0..) {
            *id = byte;
        }
        let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        let mut in_order_of_id = merges.to_vec();
        in_order_of_id.sort_by_key(|merge| merge.merged);
        for merge in in_order_of_id {
            bytes.resize(merge.merged as usize, Vec::new());
            bytes.push([bytes[merge.left as usize].as_slice(), &bytes[merge.right as usize]].concat());
        }
        let mut tokens = TokenBytes::default();
        for bytes in &bytes {
            tokens.push(bytes).unwrap();
        }
        Encoder::new(&byte_ids, merges, &tokens)
    }

    /// What each merger makes of `word`; the linear one only where it can read the vocabulary.
    fn by_all_mergers(encoder: &Encoder, word: &[u8]) -> Vec<Vec<u32>> {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        encoder.merge_short(word, &mut short);
        encoder.merge_long(word, &mut long);
        let greedy = encoder.greedy.iter().map(|greedy| {
            let mut ids = vec![7];
            greedy.encode(&encoder.pairs, word, &mut ids);
            ids.split_off(1)
        });
        [short, long].into_iter().chain(greedy).collect()
    }

    proptest! {
        #[test]
        fn all_mergers_follow_the_rule(merges in merges(), word in "[abc]{0,64}|(a|ab|abc){0,20}|(ab?c?a){0,16}") {
            let (encoder, word) = (encoder(&merges), word.as_bytes());
            prop_assert!(word.len() <= SHORT);
            prop_assert_eq!(by_all_mergers(&encoder, word), vec![by_the_rule(&merges, word); 3]);
        }

        #[test]
        fn merges_in_any_order_follow_the_rule(merges in merges().prop_shuffle(), word in "[abc]{0,64}") {
            let expected = by_the_rule(&merges, word.as_bytes());
            for ids in by_all_mergers(&encoder(&merges), word.as_bytes()) {
                prop_assert_eq!(&ids, &expected);
            }
        }
    }
}
