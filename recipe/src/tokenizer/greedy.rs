//! Byte pair encoding in linear time: the longest token first, taken back where merging would have gone across.
//!
//! Merging a word gives the only sequence of tokens in which every two neighbours are what merging gives for their own
//! bytes. For a merge that crosses the border of two neighbours would be the next one inside their bytes alone too, so
//! it would have shown there; and what the word's merges do within any two neighbours is what they do to them alone.
//! So tokens are tried from the longest to the shortest, and each is checked against the one before it only. A place
//! that is reached has one sequence of tokens before it; where none fits behind, the place is dead and never tried
//! again. (The idea is that of the crate `bpe`.)
//!
//! Owns: how each token came about. Must not know: where words come from. Cost: every place of a word is visited once
//! at most, and tries every token that starts there once at most: linear in the word, at any length. Text that comes
//! again costs a comparison. No allocation but for words with dead places, one bit a byte.

use super::pairs::{ID_BITS, Merge, PairTable, ordered};
use super::places::{DeadPlaces, Decisions};
use super::tables::{ImageReader, ImageWriter, Table};
use super::trie::Trie;
use super::words::TokenBytes;

const ID_MASK: u32 = (1 << ID_BITS) - 1;
const MAXIMUM_LENGTH: usize = (1 << (u32::BITS - ID_BITS)) - 1;

/// How tokens are made of each other, and which of them a text begins with.
pub(super) struct Greedy {
    trie: Trie,
    /// By id: what a neighbour on the right must begin with, or one on the left end in, for merges to go across: one bit
    /// for each value of the low six bits of that byte. Most neighbours fail one of both.
    joins: Table<[u64; 2]>,
    /// By id: the length in bytes, and in the low bits the longest token that it begins with; `ID_MASK` when there is none.
    lengths: Table<u32>,
    /// By id.
    origins: Table<Origin>,
}

/// How one token came about: the left and the right token that it was merged of, and one more than the order of the merge;
/// 0 for a single byte.
type Origin = [u32; 3];

impl Greedy {
    /// `None` for a vocabulary in which a token has two merges, or a merge comes before one that makes its parts: how
    /// such a token came about cannot be told. None is known that trained merges gave.
    pub(super) fn new(byte_ids: &[u32; 256], merges: &[Merge], bytes: &TokenBytes, pairs: &PairTable) -> Option<Self> {
        let mut made = vec![Origin::default(); bytes.len()];
        // Whether a token is known, and then whether merging gives it.
        let mut known: Vec<Option<bool>> = vec![None; bytes.len()];
        for &id in byte_ids {
            *known.get_mut(id as usize)? = Some(true);
        }
        for (order, [left, right, merged]) in ordered(merges) {
            let order = order + 1;
            let reachable = (*known.get(left as usize)?)? && (*known.get(right as usize)?)?;
            if known.get(merged as usize)?.is_some() || bytes.get(merged)?.len() > MAXIMUM_LENGTH {
                return None;
            }
            *known.get_mut(merged as usize)? = Some(reachable && stay_apart(&made, pairs, (left, right), order));
            *made.get_mut(merged as usize)? = [left, right, order];
        }
        let reachable = (0..).zip(&known).filter(|(_, known)| **known == Some(true));
        let mut entries: Vec<(&[u8], u32)> = reachable.filter_map(|(id, _)| Some((bytes.get(id)?, id))).collect();
        entries.sort_unstable();
        let joins = joins(&made, merges, &entries, bytes)?;
        let trie = Trie::new(&entries);
        let mut lengths = vec![ID_MASK; bytes.len()];
        for (spelling, id) in entries {
            let shorter = spelling.split_last().and_then(|(_, shorter)| trie.longest(shorter).0);
            let length = u32::try_from(spelling.len()).ok()?;
            *lengths.get_mut(id as usize)? = length << ID_BITS | shorter.unwrap_or(ID_MASK);
        }
        Some(Self { trie, joins: joins.into(), lengths: lengths.into(), origins: made.into() })
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        self.trie.write(image);
        image.write(&self.joins);
        image.write(&self.lengths);
        image.write(&self.origins);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { trie: Trie::read(image)?, joins: image.read()?, lengths: image.read()?, origins: image.read()? })
    }

    /// The merges that tokens come from, by id, and their orders.
    pub(super) fn merges(&self) -> impl DoubleEndedIterator<Item = (u32, Merge)> + Clone + '_ {
        let origins = self.origins.iter().enumerate();
        let merge = |(id, &[left, right, order]): (usize, &Origin)| {
            Some((order.checked_sub(1)?, [left, right, u32::try_from(id).ok()?]))
        };
        origins.filter_map(merge)
    }

    /// Appends the ids of `word`.
    pub(super) fn encode(&self, pairs: &PairTable, word: &[u8], out: &mut Vec<u32>) {
        let start = out.len();
        let (mut dead, mut decisions) = (DeadPlaces::default(), Decisions::default());
        let (mut position, mut seen) = (0, 0);
        let mut candidate = self.longest(word, position, &mut seen);
        while position < word.len() {
            let before = out.get(start..).and_then(<[u32]>::last).copied();
            let Some(Candidate { id, fits }) = candidate else {
                let Some(before) = before else { return };
                decisions.note(before, position..seen, None);
                dead.insert(position);
                out.pop();
                position -= self.length(before);
                candidate = self.shorter(before);
                continue;
            };
            let end = position + self.length(id);
            if dead.contains(end) || !fits && !self.fits(pairs, word, position, before, id) {
                candidate = self.shorter(id);
                continue;
            }
            if let Some(before) = before {
                decisions.note(before, position..seen, Some(id));
            }
            out.push(id);
            position = end;
            candidate = if let Some(decision) = decisions.find(id, word, position) {
                seen = seen.max(position + decision.seen.len());
                decision.found.map(|id| Candidate { id, fits: true })
            } else {
                self.longest(word, position, &mut seen)
            };
        }
    }

    /// The longest token at `position`. `seen` becomes how far the word was looked at; its end counts as one more byte.
    #[inline]
    fn longest(&self, word: &[u8], position: usize, seen: &mut usize) -> Option<Candidate> {
        let (found, length) = self.trie.longest(word.get(position..).unwrap_or_default());
        *seen = (*seen).max(position + length + 1);
        found.map(|id| Candidate { id, fits: false })
    }

    /// Whether the token `id` at `position` of `word` stays apart from `before`, the one before it.
    #[inline]
    pub(super) fn fits(&self, pairs: &PairTable, word: &[u8], position: usize, before: Option<u32>, id: u32) -> bool {
        let Some(mut border) = self.border(word, position, before, id) else { return true };
        loop {
            if let Some(apart) = border.step(&self.origins, pairs) {
                return apart;
            }
        }
    }

    /// The border between `before` and the token `id` at `position` of `word`, if merges may go across.
    #[inline]
    fn border(&self, word: &[u8], position: usize, before: Option<u32>, id: u32) -> Option<Border> {
        let &[last, first] = word.get(position.checked_sub(1)?..)?.first_chunk::<2>()?;
        let before = before?;
        self.may_join((before, last), (id, first)).then(|| Border::new(before, id))
    }

    /// Whether merges may go across the border of two tokens, of which the bytes there are given as well.
    #[inline]
    fn may_join(&self, (left, last): (u32, u8), (right, first): (u32, u8)) -> bool {
        let left = self.joins.get(left as usize).map_or(0, |joins| joins[0]);
        let right = self.joins.get(right as usize).map_or(0, |joins| joins[1]);
        left & join_bit(first) != 0 && right & join_bit(last) != 0
    }

    /// Length of a token in bytes.
    #[inline]
    pub(super) fn length(&self, id: u32) -> usize {
        self.lengths.get(id as usize).map_or(0, |length| (length >> ID_BITS) as usize)
    }

    /// The longest token that another one begins with.
    #[inline]
    fn shorter(&self, id: u32) -> Option<Candidate> {
        let shorter = self.lengths.get(id as usize)? & ID_MASK;
        (shorter != ID_MASK).then_some(Candidate { id: shorter, fits: false })
    }
}

/// A token that may come next.
#[derive(Clone, Copy)]
struct Candidate {
    id: u32,
    /// Whether it is known to stay apart from the one before.
    fits: bool,
}

/// Whether merging two tokens together, by merges below `limit` in order, merges nothing across their border.
fn stay_apart(origins: &[Origin], pairs: &PairTable, (left, right): (u32, u32), limit: u32) -> bool {
    let mut border = Border { left, right, into_left: limit, into_right: limit };
    loop {
        if let Some(apart) = border.step(origins, pairs) {
            return apart;
        }
    }
}

/// The border of two tokens, as their merges are followed back in time: the two parts there, and the merges that these
/// went into. A merge of the two comes first when it is before both. Among equal merges the leftmost is first, which is the
/// one in the left token, but the border's before the one in the right token.
#[derive(Clone, Copy, Default)]
struct Border {
    left: u32,
    right: u32,
    into_left: u32,
    into_right: u32,
}

impl Border {
    fn new(left: u32, right: u32) -> Self {
        Self { left, right, into_left: u32::MAX, into_right: u32::MAX }
    }

    /// Goes back by one merge. Whether nothing merges across, once that is known.
    #[inline]
    fn step(&mut self, origins: &[Origin], pairs: &PairTable) -> Option<bool> {
        let origin = |id: u32| origins.get(id as usize).copied().unwrap_or_default();
        let ([_, left_end, left_order], [right_start, _, right_order]) = (origin(self.left), origin(self.right));
        let across = pairs.order(self.left, self.right).saturating_add(1);
        if across < self.into_left && across <= self.into_right {
            return Some(false);
        }
        if left_order > right_order {
            (self.into_left, self.left) = (left_order, left_end);
        } else if right_order > 0 {
            (self.into_right, self.right) = (right_order, right_start);
        } else {
            return Some(true);
        }
        None
    }
}

/// What each of the entries may join, by id.
fn joins(origins: &[Origin], merges: &[Merge], entries: &[(&[u8], u32)], bytes: &TokenBytes) -> Option<Vec<[u64; 2]>> {
    // By token, in order: the merges that it is the left or the right part of, and the byte beyond the border.
    let mut joining_right: Vec<Vec<(u32, u64)>> = vec![Vec::new(); origins.len()];
    let mut joining_left = joining_right.clone();
    for &[left, right, merged] in merges {
        let &[.., order] = origins.get(merged as usize)?;
        let (first, last) = (bytes.get(right)?.first()?, bytes.get(left)?.last()?);
        joining_right.get_mut(left as usize)?.push((order, join_bit(*first)));
        joining_left.get_mut(right as usize)?.push((order, join_bit(*last)));
    }
    let up_to = |joining: &[Vec<(u32, u64)>], part: u32, limit: u32| {
        let joining = joining.get(part as usize).map(Vec::as_slice).unwrap_or_default();
        joining.iter().take_while(|join| join.0 <= limit).fold(0, |bits, join| bits | join.1)
    };
    let origin = |id: u32| origins.get(id as usize).copied().filter(|&[.., order]| order > 0);
    let mut joins = vec![[0; 2]; origins.len()];
    for &(_, id) in entries {
        let (mut right_part, mut left_part) = (id, id);
        let (mut right, mut left) = (up_to(&joining_right, id, u32::MAX), up_to(&joining_left, id, u32::MAX));
        while let Some([_, end, order]) = origin(right_part) {
            right_part = end;
            right |= up_to(&joining_right, right_part, order - 1);
        }
        while let Some([start, _, order]) = origin(left_part) {
            left_part = start;
            left |= up_to(&joining_left, left_part, order);
        }
        *joins.get_mut(id as usize)? = [right, left];
    }
    Some(joins)
}

#[inline]
fn join_bit(byte: u8) -> u64 {
    1 << (byte & 63)
}
