//! What is known of the places of a word while tokens are tried at them.
//!
//! Owns: that nothing is tried twice: not at a place that leads nowhere, and not where the text of another place comes again.
//! Must not know: tokens but as numbers. Cost: a bit a byte once a place leads nowhere, and a comparison of up to
//! [`MOST_SEEN`] bytes a token where text comes again.

use std::ops::Range;

/// Most bytes that are compared with those of another place, so that the time stays linear.
const MOST_SEEN: usize = 1024;
/// Decisions that are remembered.
const REMEMBERED: usize = 16;

/// What was found at places of a word. It depends on the token before and on the text as far as that was looked at, so it
/// holds wherever both come again. What it serves is one character again and again: there many tokens fit at every place, all
/// but one of which lead nowhere.
#[derive(Default)]
pub(super) struct Decisions([Decision; REMEMBERED]);

#[derive(Default)]
pub(super) struct Decision {
    /// The token before the place.
    before: u32,
    /// The place, and up to where the word was looked at.
    pub(super) seen: Range<usize>,
    /// The longest token that was not found wrong.
    pub(super) found: Option<u32>,
}

impl Decisions {
    #[inline]
    pub(super) fn note(&mut self, before: u32, seen: Range<usize>, found: Option<u32>) {
        self.0[before as usize % REMEMBERED] = Decision { before, seen, found };
    }

    /// What was found where the same text followed the same token.
    #[inline]
    pub(super) fn find(&self, before: u32, word: &[u8], position: usize) -> Option<&Decision> {
        let decision = Some(&self.0[before as usize % REMEMBERED]).filter(|decision| decision.before == before)?;
        let seen = word.get(decision.seen.clone()).filter(|seen| (1..=MOST_SEEN).contains(&seen.len()))?;
        word.get(position..)?.starts_with(seen).then_some(decision)
    }
}

/// Places of a word from which no tokens lead to its end.
#[derive(Default)]
pub(super) struct DeadPlaces {
    bits: Vec<u64>,
}

impl DeadPlaces {
    #[inline]
    pub(super) fn contains(&self, place: usize) -> bool {
        self.bits.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }

    #[cold]
    pub(super) fn insert(&mut self, place: usize) {
        if self.bits.len() <= place / 64 {
            self.bits.resize(place / 64 + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(place / 64) {
            *bits |= 1 << (place % 64);
        }
    }
}
