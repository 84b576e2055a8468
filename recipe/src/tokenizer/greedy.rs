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
//! at most, and tries every token that starts there once at most: linear in the word, at any length. No allocation
//! but for words with dead places, one bit a byte.

#![allow(clippy::cast_possible_truncation, reason = "tokens are packed in halves of words")]

use super::pairs::{ID_BITS, Merge, PairTable};
use super::tables::{ImageReader, ImageWriter, Table};
use super::trie::Trie;
use super::words::TokenBytes;

const ID_MASK: u32 = (1 << ID_BITS) - 1;
const MAXIMUM_LENGTH: usize = (1 << (u32::BITS - ID_BITS)) - 1;

/// How tokens are made of each other, and which of them a text begins with.
pub(super) struct Greedy {
    trie: Trie,
    /// By id.
    tokens: Table<PackedToken>,
}

/// How one token came about.
#[derive(Clone, Copy, Default)]
struct Token {
    /// What a neighbour on the right must begin with, or one on the left end in, for merges to go across: one bit for
    /// each value of the low six bits of that byte. Most neighbours fail one of both.
    joins_right: u64,
    joins_left: u64,
    /// The tokens that it was merged of.
    left: u32,
    right: u32,
    /// One more than the order of the merge; 0 for a single byte.
    order: u32,
    /// Length in bytes, and in the low bits the longest token that this one begins with; `ID_MASK` when there is none.
    length_and_shorter: u32,
}

/// A [`Token`] as a table holds it: half a cache line.
type PackedToken = [u64; 4];

impl Token {
    #[inline]
    fn unpack([joins_right, joins_left, parts, rest]: PackedToken) -> Self {
        let (left, right) = (parts as u32, (parts >> 32) as u32);
        Self { joins_right, joins_left, left, right, order: rest as u32, length_and_shorter: (rest >> 32) as u32 }
    }

    fn pack(self) -> PackedToken {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (parts, rest) = (pair(self.left, self.right), pair(self.order, self.length_and_shorter));
        [self.joins_right, self.joins_left, parts, rest]
    }

    #[inline]
    fn length(self) -> usize {
        (self.length_and_shorter >> ID_BITS) as usize
    }

    #[inline]
    fn shorter(self) -> Option<u32> {
        Some(self.length_and_shorter & ID_MASK).filter(|&id| id != ID_MASK)
    }
}

impl Greedy {
    /// `None` for a vocabulary in which a token has two merges, or a merge comes before one that makes its parts: how
    /// such a token came about cannot be told. None is known that trained merges gave.
    pub(super) fn new(
        byte_ids: &[u32; 256],
        merges: &[Merge],
        orders: &[u32],
        bytes: &TokenBytes,
        pairs: &PairTable,
    ) -> Option<Self> {
        let mut made = vec![Token::default(); bytes.len()];
        // Whether a token is known, and then whether merging gives it.
        let mut known: Vec<Option<bool>> = vec![None; bytes.len()];
        for &id in byte_ids {
            *known.get_mut(id as usize)? = Some(true);
        }
        for (&order, &Merge { left, right, merged }) in orders.iter().zip(merges) {
            let order = order + 1;
            let reachable = (*known.get(left as usize)?)? && (*known.get(right as usize)?)?;
            if known.get(merged as usize)?.is_some() || bytes.get(merged)?.len() > MAXIMUM_LENGTH {
                return None;
            }
            *known.get_mut(merged as usize)? = Some(reachable && stay_apart(&made[..], pairs, (left, right), order));
            *made.get_mut(merged as usize)? = Token { left, right, order, ..Token::default() };
        }
        let reachable = (0..).zip(&known).filter(|(_, known)| **known == Some(true));
        let mut entries: Vec<(&[u8], u32)> = reachable.filter_map(|(id, _)| Some((bytes.get(id)?, id))).collect();
        entries.sort_unstable();
        mark_joins(&mut made, merges, &entries, bytes)?;
        let trie = Trie::new(&entries);
        for (spelling, id) in entries {
            let shorter = spelling.split_last().and_then(|(_, shorter)| trie.longest(shorter));
            let length = u32::try_from(spelling.len()).ok()?;
            made.get_mut(id as usize)?.length_and_shorter = length << ID_BITS | shorter.unwrap_or(ID_MASK);
        }
        Some(Self { trie, tokens: made.into_iter().map(Token::pack).collect() })
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        self.trie.write(image);
        image.write(&self.tokens);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { trie: Trie::read(image)?, tokens: image.read()? })
    }

    #[inline]
    fn token(&self, id: u32) -> Token {
        self.tokens.get(id as usize).copied().map(Token::unpack).unwrap_or_default()
    }

    /// Appends the ids of `word`.
    pub(super) fn encode(&self, pairs: &PairTable, word: &[u8], out: &mut Vec<u32>) {
        let start = out.len();
        let mut dead = Places::default();
        let mut position = 0;
        let mut candidate = self.trie.longest(word);
        let mut before = Token::default();
        while let Some(id) = candidate {
            let token = self.token(id);
            let end = position + token.length();
            if !dead.contains(end) && self.fits(pairs, word, position, (before, out.get(start..)), (token, id)) {
                out.push(id);
                before = token;
                position = end;
                candidate = word.get(end..).and_then(|rest| self.trie.longest(rest));
            } else if let Some(shorter) = token.shorter() {
                candidate = Some(shorter);
            } else {
                dead.insert(position);
                candidate = out.pop();
                position -= before.length();
                before = out.get(start..).and_then(<[u32]>::last).map(|&id| self.token(id)).unwrap_or_default();
            }
        }
    }

    /// Whether `token` at `position` stays apart from `before`, the last one of `ids`.
    #[inline]
    fn fits(
        &self,
        pairs: &PairTable,
        word: &[u8],
        position: usize,
        before: (Token, Option<&[u32]>),
        token: (Token, u32),
    ) -> bool {
        let border = position.checked_sub(1).and_then(|last| word.get(last..)).and_then(<[u8]>::first_chunk::<2>);
        let Some(&[last, first]) = border else { return true };
        if before.0.joins_right & join_bit(first) == 0 || token.0.joins_left & join_bit(last) == 0 {
            return true;
        }
        let before = before.1.and_then(<[u32]>::last).copied();
        before.is_none_or(|before| stay_apart(&*self.tokens, pairs, (before, token.1), u32::MAX))
    }
}

/// Tokens by id, packed or not.
trait Tokens {
    fn token(&self, id: u32) -> Token;
}

impl Tokens for [Token] {
    fn token(&self, id: u32) -> Token {
        self.get(id as usize).copied().unwrap_or_default()
    }
}

impl Tokens for [PackedToken] {
    #[inline]
    fn token(&self, id: u32) -> Token {
        self.get(id as usize).copied().map(Token::unpack).unwrap_or_default()
    }
}

/// Whether merging two tokens together, by merges below `limit` in order, merges nothing across their border. It follows
/// the merges of both back in time: `left` and `right` are the two parts at the border, and a merge of these comes first
/// when it is before the ones that they went into. Among equal merges the leftmost is first, which is the one in the left
/// token, but the border's before the one in the right token.
fn stay_apart(
    tokens: &(impl Tokens + ?Sized),
    pairs: &PairTable,
    (mut left, mut right): (u32, u32),
    limit: u32,
) -> bool {
    let (mut into_left, mut into_right) = (limit, limit);
    let (mut left_token, mut right_token) = (tokens.token(left), tokens.token(right));
    loop {
        let across = pairs.order(left, right).saturating_add(1);
        if across < into_left && across <= into_right {
            return false;
        }
        if left_token.order > right_token.order {
            into_left = left_token.order;
            left = left_token.right;
            left_token = tokens.token(left);
        } else if right_token.order > 0 {
            into_right = right_token.order;
            right = right_token.left;
            right_token = tokens.token(right);
        } else {
            return true;
        }
    }
}

/// Fills `joins_right` and `joins_left` of the entries.
fn mark_joins(tokens: &mut [Token], merges: &[Merge], entries: &[(&[u8], u32)], bytes: &TokenBytes) -> Option<()> {
    // By token, in order: the merges that it is the left or the right part of, and the byte beyond the border.
    let mut joining_right: Vec<Vec<(u32, u64)>> = vec![Vec::new(); tokens.len()];
    let mut joining_left = joining_right.clone();
    for merge in merges {
        let order = tokens.token(merge.merged).order;
        let (first, last) = (bytes.get(merge.right)?.first()?, bytes.get(merge.left)?.last()?);
        joining_right.get_mut(merge.left as usize)?.push((order, join_bit(*first)));
        joining_left.get_mut(merge.right as usize)?.push((order, join_bit(*last)));
    }
    let up_to = |joining: &[Vec<(u32, u64)>], part: u32, limit: u32| {
        let joining = joining.get(part as usize).map(Vec::as_slice).unwrap_or_default();
        joining.iter().take_while(|join| join.0 <= limit).fold(0, |bits, join| bits | join.1)
    };
    for &(_, id) in entries {
        let (mut right_part, mut left_part) = (id, id);
        let (mut joins_right, mut joins_left) =
            (up_to(&joining_right, id, u32::MAX), up_to(&joining_left, id, u32::MAX));
        while let token @ Token { order: 1.., .. } = tokens.token(right_part) {
            right_part = token.right;
            joins_right |= up_to(&joining_right, right_part, token.order - 1);
        }
        while let token @ Token { order: 1.., .. } = tokens.token(left_part) {
            left_part = token.left;
            joins_left |= up_to(&joining_left, left_part, token.order);
        }
        let token = tokens.get_mut(id as usize)?;
        (token.joins_right, token.joins_left) = (joins_right, joins_left);
    }
    Some(())
}

#[inline]
fn join_bit(byte: u8) -> u64 {
    1 << (byte & 63)
}

/// A set of places in a word.
#[derive(Default)]
struct Places {
    bits: Vec<u64>,
}

impl Places {
    #[inline]
    fn contains(&self, place: usize) -> bool {
        self.bits.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }

    #[cold]
    fn insert(&mut self, place: usize) {
        if self.bits.len() <= place / 64 {
            self.bits.resize(place / 64 + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(place / 64) {
            *bits |= 1 << (place % 64);
        }
    }
}
