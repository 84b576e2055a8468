//! Merging of several words side by side.
//!
//! What a merge makes possible is in memory that is rarely near. So many words take the same step, one after the other,
//! while the memory for the others is on its way.
//!
//! Owns: the order of merges in words of up to [`WIDE`] bytes: lowest first, leftmost among equals. Must not know: where
//! words come from.
//! Cost: for each byte of a word about one merge, two look-ups in the pair table, and a search through the lane.

#![allow(clippy::cast_possible_truncation, reason = "places are less than 2^5")]

use std::hint::select_unpredictable;
use std::ops::Range;

use super::bpe::Encoder;
use super::pairs::NO_ORDER;

/// Longest words that lanes take, in bytes. Nearly all fit into the narrow ones, which are faster.
pub(super) const NARROW: usize = 16;
pub(super) const WIDE: usize = 32;
/// Words under way at the same time.
const LANES: usize = 16;
/// Bits of a place in a lane.
const PLACE_BITS: u32 = WIDE.ilog2();

/// A merge that is possible: its order, and in the low bits where its left token begins. Signed, as the least of several
/// signed numbers is found at once even by processors of old.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(i32);

impl Candidate {
    const NONE: Self = Self(i32::MAX);

    /// [`Self::NONE`] for [`NO_ORDER`].
    #[inline]
    fn new(order: u32, place: usize) -> Self {
        let candidate = order << PLACE_BITS | place as u32;
        Self(select_unpredictable(order == NO_ORDER, i32::MAX, candidate.cast_signed()))
    }

    #[inline]
    fn order_and_place(self) -> (u32, usize) {
        (self.0.cast_unsigned() >> PLACE_BITS, self.0.cast_unsigned() as usize % WIDE)
    }
}

/// A word on its way from bytes to tokens.
#[derive(Clone, Copy)]
struct Lane<const WIDTH: usize> {
    /// Of the word, among those that are merged together.
    number: usize,
    /// The places at which a token begins, a bit each, and which token that is.
    places: u64,
    ids: [u32; WIDTH],
    /// The merges of the token at each place with the one behind it.
    candidates: [Candidate; WIDTH],
    /// The places of the last merge's token and its neighbours; where there is none, its own or any.
    changed: [usize; 3],
}

impl<const WIDTH: usize> Lane<WIDTH> {
    const EMPTY: Self =
        Self { number: 0, places: 0, ids: [0; WIDTH], candidates: [Candidate::NONE; WIDTH], changed: [0; 3] };

    /// Takes a word of up to `WIDTH` bytes.
    #[inline]
    fn new(encoder: &Encoder, number: usize, word: &[u8]) -> Self {
        let mut lane = Self { number, places: (1 << word.len()) - 1, ..Self::EMPTY };
        for ((place, id), &byte) in lane.ids.iter_mut().enumerate().zip(word) {
            *id = encoder.byte_id(byte);
            if let (Some(&next), Some(candidate)) = (word.get(place + 1), lane.candidates.get_mut(place)) {
                *candidate = Candidate::new(encoder.byte_pair_order(byte, next), place);
            }
        }
        lane
    }

    /// The merge that comes first.
    #[inline]
    fn first(&self) -> Candidate {
        self.candidates.iter().copied().min().unwrap_or(Candidate::NONE)
    }

    /// Does the merge that comes first, if there is one, and begins to load what tells of the merges it makes possible:
    /// `look_up` is to come next.
    #[inline]
    fn merge(&mut self, encoder: &Encoder) -> bool {
        let first = self.first();
        if first == Candidate::NONE {
            return false;
        }
        let (order, place) = first.order_and_place();
        let id = encoder.merged(order);
        let behind = self.places & u64::MAX << place << 1;
        let taken = behind.trailing_zeros() as usize;
        let behind = behind & behind.wrapping_sub(1);
        let before = self.places & ((1 << place) - 1);
        self.places ^= 1 << taken;
        // Where nothing is behind, the place that was taken stands for that: no token begins there any more.
        let next = select_unpredictable(behind == 0, taken, behind.trailing_zeros() as usize);
        let previous = (before | 1).ilog2() as usize;
        self.ids[place % WIDTH] = id;
        self.candidates[taken % WIDTH] = Candidate::NONE;
        self.changed = [previous, place, next];
        encoder.pairs.prefetch(self.ids[previous % WIDTH], id);
        encoder.pairs.prefetch(id, self.ids[next % WIDTH]);
        true
    }

    /// Looks up the merges that the last one made possible.
    #[inline]
    fn look_up(&mut self, encoder: &Encoder) {
        let [previous, place, next] = self.changed;
        let id = self.ids[place % WIDTH];
        let order = encoder.pairs.order(id, self.ids[next % WIDTH]);
        let has_next = self.places >> next & 1 == 1;
        self.candidates[place % WIDTH] = Candidate::new(select_unpredictable(has_next, order, NO_ORDER), place);
        let order = encoder.pairs.order(self.ids[previous % WIDTH], id);
        let kept = self.candidates[previous % WIDTH];
        let changed = Candidate::new(order, previous);
        self.candidates[previous % WIDTH] = select_unpredictable(previous < place, changed, kept);
    }

    /// Its tokens, one behind the other.
    #[inline]
    fn tokens<'out>(&self, out: &'out mut [u32; WIDTH]) -> &'out [u32] {
        let (mut places, mut count) = (self.places, 0);
        while places != 0 {
            out[count % WIDTH] = self.ids[places.trailing_zeros() as usize % WIDTH];
            places &= places - 1;
            count += 1;
        }
        out.get(..count).unwrap_or_default()
    }
}

/// Merges words of `text` of up to `WIDTH` bytes, each with its number, and hands over the number and the tokens of each, in
/// any order.
pub(super) fn merge<const WIDTH: usize>(
    encoder: &Encoder,
    text: &[u8],
    words: &[(usize, Range<usize>)],
    mut done: impl FnMut(usize, &[u32]),
) {
    if words.is_empty() {
        return;
    }
    let mut words = words.iter();
    let mut next = || {
        let (number, word) = words.next()?;
        Some(Lane::<WIDTH>::new(encoder, *number, text.get(word.clone())?))
    };
    let mut lanes = [Lane::EMPTY; LANES];
    let mut count = 0;
    for (lane, word) in lanes.iter_mut().zip(std::iter::from_fn(&mut next)) {
        *lane = word;
        count += 1;
    }
    let mut tokens = [0; WIDTH];
    while count > 0 {
        let mut at = 0;
        while at < count {
            if lanes[at].merge(encoder) {
                at += 1;
                continue;
            }
            done(lanes[at].number, lanes[at].tokens(&mut tokens));
            lanes[at] = next().unwrap_or_else(|| {
                count -= 1;
                lanes[count]
            });
        }
        lanes.iter_mut().take(count).for_each(|lane| lane.look_up(encoder));
    }
}
