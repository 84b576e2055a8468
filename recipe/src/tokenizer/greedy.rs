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

use super::pairs::{ID_BITS, Merge, PairTable};
use super::trie::Trie;
use super::words::TokenBytes;

const ID_MASK: u32 = (1 << ID_BITS) - 1;
const MAXIMUM_LENGTH: usize = (1 << (u32::BITS - ID_BITS)) - 1;

/// How tokens are made of each other, and which of them a text begins with.
pub(super) struct Greedy {
    trie: Trie,
    /// By id.
    tokens: Vec<Token>,
}

/// How one token came about.
#[derive(Clone, Copy, Default)]
struct Token {
    /// The tokens that it was merged of.
    left: u32,
    right: u32,
    /// One more than the rank of the merge; 0 for a single byte.
    order: u32,
    /// Length in bytes, and in the low bits the longest token that this one begins with; `ID_MASK` when there is none.
    length_and_shorter: u32,
}

impl Token {
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
    pub(super) fn new(byte_ids: &[u32; 256], merges: &[Merge], bytes: &TokenBytes, pairs: &PairTable) -> Option<Self> {
        let mut greedy = Self { trie: Trie::default(), tokens: vec![Token::default(); bytes.len()] };
        // Whether a token is known, and then whether merging gives it.
        let mut known: Vec<Option<bool>> = vec![None; bytes.len()];
        for &id in byte_ids {
            *known.get_mut(id as usize)? = Some(true);
        }
        for (order, &Merge { left, right, merged }) in (1..).zip(merges) {
            let reachable = (*known.get(left as usize)?)? && (*known.get(right as usize)?)?;
            if known.get(merged as usize)?.is_some() || bytes.get(merged)?.len() > MAXIMUM_LENGTH {
                return None;
            }
            let reachable = reachable && greedy.stay_apart(pairs, left, right, order);
            *known.get_mut(merged as usize)? = Some(reachable);
            *greedy.tokens.get_mut(merged as usize)? = Token { left, right, order, length_and_shorter: 0 };
        }
        let reachable = (0..).zip(&known).filter(|(_, known)| **known == Some(true));
        let mut entries: Vec<(&[u8], u32)> = reachable.filter_map(|(id, _)| Some((bytes.get(id)?, id))).collect();
        entries.sort_unstable();
        greedy.trie = Trie::new(&entries);
        for (spelling, id) in entries {
            let shorter = spelling.split_last().and_then(|(_, shorter)| greedy.trie.longest(shorter));
            let length = u32::try_from(spelling.len()).ok()?;
            greedy.tokens.get_mut(id as usize)?.length_and_shorter = length << ID_BITS | shorter.unwrap_or(ID_MASK);
        }
        Some(greedy)
    }

    #[inline]
    fn token(&self, id: u32) -> Token {
        self.tokens.get(id as usize).copied().unwrap_or_default()
    }

    /// Appends the ids of `word`.
    pub(super) fn encode(&self, pairs: &PairTable, word: &[u8], out: &mut Vec<u32>) {
        let start = out.len();
        let mut dead = Places::default();
        let mut position = 0;
        let mut candidate = self.trie.longest(word);
        while let Some(id) = candidate {
            let token = self.token(id);
            let end = position + token.length();
            let before = out.get(start..).and_then(<[u32]>::last).copied();
            if !dead.contains(end) && before.is_none_or(|before| self.stay_apart(pairs, before, id, u32::MAX)) {
                out.push(id);
                position = end;
                candidate = word.get(end..).and_then(|rest| self.trie.longest(rest));
            } else if let Some(shorter) = token.shorter() {
                candidate = Some(shorter);
            } else {
                dead.insert(position);
                candidate = out.pop();
                position -= candidate.map_or(0, |id| self.token(id).length());
            }
        }
    }

    /// Whether merging `left` and `right` together, by merges below `limit` in order, merges nothing across their
    /// border. It follows the merges of both back in time: `left` and `right` are the two parts at the border, and a
    /// merge of these comes first when it is before the ones that they went into. Among equal merges the leftmost is
    /// first, which is the one in the left token, but the border's before the one in the right token.
    #[inline]
    fn stay_apart(&self, pairs: &PairTable, mut left: u32, mut right: u32, limit: u32) -> bool {
        let (mut into_left, mut into_right) = (limit, limit);
        let (mut left_token, mut right_token) = (self.token(left), self.token(right));
        loop {
            let across = pairs.rank(left, right).saturating_add(1);
            if across < into_left && across <= into_right {
                return false;
            }
            if left_token.order > right_token.order {
                into_left = left_token.order;
                left = left_token.right;
                left_token = self.token(left);
            } else if right_token.order > 0 {
                into_right = right_token.order;
                right = right_token.left;
                right_token = self.token(right);
            } else {
                return true;
            }
        }
    }
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
