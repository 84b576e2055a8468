//! Short texts that a prompt's markup repeats.
//!
//! Owns: which texts came before, as far as there is a place for them. Must not know: ids, other prompts.
//! Cost: a look at up to four texts.

/// Groups of places for short texts, and places of a group.
const GROUPS: usize = 64;
const PLACES: usize = 4;

/// The short texts of a prompt, each with its number.
#[derive(Default)]
pub(super) struct Markup<'text> {
    /// None until there is a text.
    groups: Vec<[(&'text str, usize); PLACES]>,
}

impl<'text> Markup<'text> {
    /// The number of `text`, if it came before and still has its place; from now on that is `new` otherwise.
    pub(super) fn number(&mut self, text: &'text str, new: usize) -> Option<usize> {
        self.groups.resize_with(GROUPS, Default::default);
        let places = self.groups.get_mut(group(text))?;
        if let Some((_, number)) = places.iter().find(|(known, _)| *known == text) {
            return Some(*number);
        }
        let free = places.iter().position(|(known, _)| known.is_empty()).unwrap_or(0);
        if let Some(place) = places.get_mut(free) {
            *place = (text, new);
        }
        None
    }
}

/// By the length, the first bytes and the last, which overlap in shorter texts.
#[allow(clippy::cast_possible_truncation, reason = "any number will do")]
fn group(text: &str) -> usize {
    let (bytes, mut short) = (text.as_bytes(), [0; 8]);
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => {
            short.iter_mut().zip(bytes).for_each(|(short, byte)| *short = *byte);
            (short, short)
        }
    };
    let [first, last] = [first, last].map(u64::from_le_bytes);
    let hash = (first ^ last.rotate_left(23) ^ bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 32) as usize % GROUPS
}
