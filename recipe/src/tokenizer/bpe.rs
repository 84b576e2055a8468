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
mod tests {
    use std::sync::Mutex;

    use super::{Encoder, Merge};
    use crate::tokenizer::lanes;
    use crate::tokenizer::tables::{ImageReader, ImageWriter};
    use crate::tokenizer::words::TokenBytes;
    use proptest::prelude::*;

    /// The rule itself: merge the leftmost pair of the lowest rank until no pair merges.
    fn by_the_rule(merges: &[Merge], word: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = word.iter().map(|&byte| u32::from(byte)).collect();
        loop {
            let found = merges.iter().find_map(|merge| {
                let at = ids.array_windows().position(|&[left, right]| (left, right) == (merge[0], merge[1]))?;
                Some((at, merge))
            });
            let Some((at, merge)) = found else { return ids };
            ids.splice(at..at + 2, [merge[2]]);
        }
    }

    /// Merges that build on each other, each after those that make its parts.
    fn merges() -> impl Strategy<Value = Vec<Merge>> {
        proptest::collection::vec((0_usize..30, 0_usize..30), 1..30).prop_map(|parts| {
            let mut ids: Vec<u32> = (97..100).collect();
            let mut merges: Vec<Merge> = Vec::new();
            for ((left, right), merged) in parts.into_iter().zip(256..) {
                let (left, right) = (ids[left % ids.len()], ids[right % ids.len()]);
                if merges.iter().all(|&[one, other, _]| (one, other) != (left, right)) {
                    merges.push([left, right, merged]);
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
        in_order_of_id.sort_by_key(|&[.., merged]| merged);
        for [left, right, merged] in in_order_of_id {
            bytes.resize(merged as usize, Vec::new());
            bytes.push([bytes[left as usize].as_slice(), &bytes[right as usize]].concat());
        }
        let mut tokens = TokenBytes::default();
        for bytes in &bytes {
            tokens.push(bytes).unwrap();
        }
        Encoder::new(&byte_ids, merges.to_vec(), &tokens)
    }

    /// Compares lanes with the plain merger: more words than there are lanes, of different lengths, each a part of the word.
    fn check_lanes<const WIDTH: usize>(encoder: &Encoder, word: &[u8]) {
        let parts = (0..100).map(|number| (number, number % word.len().max(1)..word.len()));
        let parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty() && part.len() <= WIDTH).collect();
        let mut found = std::collections::HashMap::new();
        lanes::merge::<WIDTH>(encoder, word, &parts, |number, ids| {
            assert!(found.insert(number, ids.to_vec()).is_none());
        });
        assert_eq!(found.len(), parts.len());
        for (number, part) in parts {
            let mut expected = Vec::new();
            encoder.merge_plainly(&word[part], &mut expected);
            assert_eq!(found[&number], expected);
        }
    }

    /// An image, which lives as long as the program.
    fn image(encoder: &Encoder) -> &'static [u8] {
        static IMAGES: Mutex<Vec<&[u64]>> = Mutex::new(Vec::new());
        let mut image = ImageWriter::default();
        encoder.write(&mut image);
        let words: Vec<u64> = image.finish().as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let words: &[u64] = words.leak();
        IMAGES.lock().unwrap().push(words);
        bytemuck::cast_slice(words)
    }

    fn read(image: &'static [u8]) -> Option<Encoder> {
        Encoder::read(&mut ImageReader::new(image))
    }

    #[test]
    fn an_image_that_is_cut_is_not_read() {
        let twice = [[97, 98, 256], [97, 98, 256]];
        for (merges, is_greedy) in [(&twice[..1], true), (&twice[..], false)] {
            let encoder = encoder(merges);
            assert_eq!(encoder.greedy.is_some(), is_greedy);
            let image = image(&encoder);
            assert!(read(image).is_some());
            assert!((0..image.len()).step_by(64).all(|length| read(&image[..length]).is_none()));
        }
    }

    /// What each merger makes of `word`; all but the plain one only where they can read the vocabulary.
    fn by_all_mergers(encoder: &Encoder, word: &[u8]) -> Vec<Vec<u32>> {
        let mut plain = Vec::new();
        encoder.merge_plainly(word, &mut plain);
        let mut all = vec![plain];
        if let Some(greedy) = &encoder.greedy {
            let mut ids = vec![7];
            greedy.encode(&encoder.pairs, word, &mut ids);
            all.push(ids.split_off(1));
        }
        check_lanes::<{ lanes::NARROW }>(encoder, word);
        check_lanes::<{ lanes::WIDE }>(encoder, word);
        all
    }

    #[test]
    fn a_last_byte_that_changes_all_tokens_of_a_long_word_does_so() {
        // Each byte merges with the one before it, the later first: so the last decides for all which two belong together.
        let merges: Vec<Merge> = (0..120).rev().zip(256..).map(|(byte, id)| [byte, byte + 1, id]).collect();
        let encoder = encoder(&merges);
        for last in 60..=120 {
            let word: Vec<u8> = std::iter::repeat_n(200, 256).chain(0..=last).collect();
            let (mut ids, mut expected) = (Vec::new(), Vec::new());
            encoder.merge(&word, &mut ids);
            encoder.merge_plainly(&word, &mut expected);
            assert_eq!(ids, expected);
        }
    }

    /// Words that are merged in parts, some of whose borders are in the midst of something that comes again and again.
    fn long_word() -> impl Strategy<Value = String> {
        let part =
            ("[abc]{1,40}", prop_oneof![Just(1_usize), 1..60_usize]).prop_map(|(part, times)| part.repeat(times));
        proptest::collection::vec(part, 5..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn long_words_are_merged_like_short_ones(merges in merges(), word in long_word()) {
            let (encoder, mut ids, mut expected) = (encoder(&merges), vec![7], vec![7]);
            encoder.merge(word.as_bytes(), &mut ids);
            encoder.merge_plainly(word.as_bytes(), &mut expected);
            prop_assert_eq!(ids, expected);
        }

        #[test]
        fn all_mergers_follow_the_rule(merges in merges(), word in "[abc]{0,32}|(a|ab|abc){0,10}|(ab?c?a){0,8}") {
            let (encoder, word) = (encoder(&merges), word.as_bytes());
            prop_assert_eq!(by_all_mergers(&encoder, word), vec![by_the_rule(&merges, word); 2]);
        }

        #[test]
        fn merges_in_any_order_follow_the_rule(merges in merges().prop_shuffle(), word in "[abc]{0,32}") {
            let expected = by_the_rule(&merges, word.as_bytes());
            let encoder = encoder(&merges);
            for ids in [&encoder, &read(image(&encoder)).unwrap()].map(|encoder| by_all_mergers(encoder, word.as_bytes())).concat() {
                prop_assert_eq!(&ids, &expected);
            }
        }
    }
}
