//! Byte pair encoding of several short words side by side.
//!
//! Every merge of a word waits for what the pair table says of the pairs before; with many words under way, one after
//! the other takes a step while the memory for the others is on its way.
//!
//! Owns: words on their way from bytes to tokens. Must not know: where words come from. Cost: quadratic in the length of
//! a word, which is [`LONGEST`] at most; a fixed size, about ten KiB.

use super::bpe::Encoder;
use super::pairs::NO_ORDER;

/// Longest word that a lane takes, in bytes.
pub(super) const LONGEST: usize = 32;
/// Words under way at the same time.
pub(super) const LANES: usize = 16;
/// Orders that are compared together.
const STRIDE: usize = 8;
const NOWHERE: u8 = u8::MAX;

/// One word. Its tokens keep the place of their first byte; joined ones leave a gap.
#[derive(Clone, Copy)]
struct Lane {
    ids: [u32; LONGEST],
    /// Order of the merge of the token here and the next one.
    orders: [u32; LONGEST],
    next: [u8; LONGEST],
    previous: [u8; LONGEST],
    length: usize,
    /// The token that was merged last: its pairs are not known yet. `NOWHERE` for a word that is done.
    merged: u8,
}

/// A few short words.
pub(super) struct Lanes {
    lanes: [Lane; LANES],
    count: usize,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let empty = Lane {
            ids: [0; LONGEST],
            orders: [NO_ORDER; LONGEST],
            next: [0; LONGEST],
            previous: [0; LONGEST],
            length: 0,
            merged: NOWHERE,
        };
        Self { lanes: [empty; LANES], count: 0 }
    }

    /// Takes a word, not empty and of [`LONGEST`] bytes at most, and gives its lane.
    pub(super) fn push(&mut self, encoder: &Encoder, word: &[u8]) -> usize {
        let number = self.count;
        if let Some(lane) = self.lanes.get_mut(number) {
            lane.start(encoder, word);
            self.count += 1;
        }
        number
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == LANES
    }

    /// Merges all words to their end.
    pub(super) fn run(&mut self, encoder: &Encoder) {
        let lanes = self.lanes.get_mut(..self.count).unwrap_or_default();
        let mut under_way = true;
        while under_way {
            under_way = false;
            for lane in &mut *lanes {
                under_way |= lane.step(encoder);
            }
        }
    }

    /// Appends the tokens of a lane, after all have run.
    pub(super) fn append(&self, lane: usize, out: &mut Vec<u32>) {
        let Some(lane) = self.lanes.get(lane) else { return };
        let mut at = 0;
        while at < lane.length {
            out.extend(lane.ids.get(at));
            at = lane.next.get(at).map_or(LONGEST, |&next| usize::from(next));
        }
    }

    /// Forgets all words.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

impl Lane {
    fn start(&mut self, encoder: &Encoder, word: &[u8]) {
        self.length = word.len();
        self.merged = 0;
        self.orders.iter_mut().take(word.len().next_multiple_of(STRIDE)).for_each(|order| *order = NO_ORDER);
        for (order, &[left, right]) in self.orders.iter_mut().zip(word.array_windows()) {
            *order = encoder.byte_pair_order(left, right);
        }
        for (id, &byte) in self.ids.iter_mut().zip(word) {
            *id = encoder.byte_id(byte);
        }
        let places = self.next.iter_mut().zip(&mut self.previous).zip(0_u8..);
        for ((next, previous), at) in places.take(word.len()) {
            (*next, *previous) = (at + 1, at.wrapping_sub(1));
        }
        self.merge_lowest(encoder);
    }

    #[inline]
    fn id(&self, at: u8) -> u32 {
        self.ids.get(usize::from(at)).copied().unwrap_or(0)
    }

    #[inline]
    fn next(&self, at: u8) -> u8 {
        self.next.get(usize::from(at)).copied().unwrap_or(NOWHERE)
    }

    #[inline]
    fn previous(&self, at: u8) -> u8 {
        self.previous.get(usize::from(at)).copied().unwrap_or(NOWHERE)
    }

    /// Looks up the pairs of the last merge and does the next one. Whether there may be more.
    #[inline]
    fn step(&mut self, encoder: &Encoder) -> bool {
        let at = self.merged;
        if at == NOWHERE {
            return false;
        }
        self.look_up(encoder, at);
        self.look_up(encoder, self.previous(at));
        self.merge_lowest(encoder)
    }

    /// Finds the order of the pair that begins at `at`.
    #[inline]
    fn look_up(&mut self, encoder: &Encoder, at: u8) {
        let next = self.next(at);
        let known = usize::from(next) < self.length;
        let order = if known { encoder.pairs.order(self.id(at), self.id(next)) } else { NO_ORDER };
        if let Some(place) = self.orders.get_mut(usize::from(at)) {
            *place = order;
        }
    }

    /// Does the first merge of the lowest order, and asks for the memory that tells of its new pairs.
    #[inline]
    fn merge_lowest(&mut self, encoder: &Encoder) -> bool {
        let (strides, _) = self.orders.as_chunks::<STRIDE>();
        let strides = strides.get(..self.length.div_ceil(STRIDE)).unwrap_or_default();
        let mut lowest = [NO_ORDER; STRIDE];
        for stride in strides {
            for (lowest, order) in lowest.iter_mut().zip(stride) {
                *lowest = *order.min(lowest);
            }
        }
        let lowest = lowest.into_iter().min().unwrap_or(NO_ORDER);
        if lowest == NO_ORDER {
            self.merged = NOWHERE;
            return false;
        }
        let place = self.orders.iter().position(|&order| order == lowest).unwrap_or(0);
        let at = u8::try_from(place).unwrap_or(0);
        let joined = self.next(at);
        let beyond = self.next(joined);
        let id = encoder.merged(lowest);
        if let Some(place) = self.ids.get_mut(place) {
            *place = id;
        }
        if let Some(place) = self.next.get_mut(place) {
            *place = beyond;
        }
        if let Some(place) = self.previous.get_mut(usize::from(beyond)) {
            *place = at;
        }
        if let Some(place) = self.orders.get_mut(usize::from(joined)) {
            *place = NO_ORDER;
        }
        encoder.pairs.prefetch(id, self.id(beyond));
        encoder.pairs.prefetch(self.id(self.previous(at)), id);
        self.merged = at;
        true
    }
}
