//! What a prompt consists of, one after the other: texts, and ids that are known.
//!
//! Owns: that texts which are known are not encoded again: long ones in the range cache, and short ones, of which a prompt's
//! markup has many and few that differ, as long as the prompt lasts. Must not know: control tokens, other threads.

use std::ops::Range;

use super::Tokenizer;
use super::encode::Desk;
use super::ranges::SHORTEST;
use super::woven::Woven;

/// A part of what is to be encoded, and the id behind it, if one is known.
#[derive(Clone, Copy)]
pub(crate) enum Stretch<'text> {
    /// Text on its own, without any added vocabulary.
    Text(Woven<'text>, Option<u32>),
    /// Ids that are known.
    Ids(&'text [u32], Option<u32>),
}

impl<'text> Stretch<'text> {
    /// Bytes that are to be encoded.
    pub(super) fn bytes(&self) -> usize {
        self.text().map_or(0, Woven::len)
    }

    fn text(&self) -> Option<Woven<'text>> {
        match *self {
            Stretch::Text(text, _) => Some(text),
            Stretch::Ids(..) => None,
        }
    }
}

/// Appends the ids of all `stretches`, on this thread.
pub(super) fn encode<'text>(
    tokenizer: &Tokenizer,
    desk: &mut Desk,
    stretches: impl Iterator<Item = Stretch<'text>> + Clone,
    out: &mut Vec<u32>,
) {
    let mut rest = stretches.clone();
    if let (Some(Stretch::Text(text, None)), None) = (rest.next(), rest.next())
        && let Some(text) = text.plain().filter(|text| text.len() < SHORTEST)
    {
        // Nothing comes again that could be remembered.
        return tokenizer.vocabulary.encode(desk, text, out);
    }
    let cache = tokenizer.cache.as_deref();
    let long = stretches.clone().filter_map(|stretch| stretch.text()).filter(|text| text.len() >= SHORTEST);
    let mut looked = cache.map(|cache| cache.look_up(long)).unwrap_or_default().into_iter().peekable();
    let (mut markup, mut room) = (Markup::default(), String::new());
    for stretch in stretches {
        let (Stretch::Text(_, id) | Stretch::Ids(_, id)) = stretch;
        match stretch {
            Stretch::Ids(ids, _) => out.extend_from_slice(ids),
            Stretch::Text(text, _) => {
                let whole = text.plain();
                let mut encode = |out: &mut Vec<u32>| {
                    tokenizer.vocabulary.encode(desk, whole.unwrap_or_else(|| text.whole(&mut room)), out);
                };
                match (whole, cache) {
                    (Some(short), _) if short.len() < SHORTEST => markup.encode(short, out, encode),
                    (_, Some(cache)) => {
                        let found = if text.len() < SHORTEST { None } else { looked.next() };
                        if let Some(next) = looked.peek() {
                            next.prefetch();
                        }
                        cache.encode(text, found, out, encode);
                    }
                    (_, None) => encode(out),
                }
            }
        }
        out.extend(id);
    }
}

/// Groups of places for short texts, and places of a group.
const GROUPS: usize = 64;
const PLACES: usize = 4;

/// Short texts, and where their ids are.
#[derive(Default)]
struct Markup<'text> {
    /// None until there is a text.
    groups: Vec<[(&'text str, Range<usize>); PLACES]>,
}

impl<'text> Markup<'text> {
    /// Appends the ids of `text`, those that are there already or those that `encode` appends.
    fn encode(&mut self, text: &'text str, out: &mut Vec<u32>, encode: impl FnOnce(&mut Vec<u32>)) {
        self.groups.resize_with(GROUPS, Default::default);
        let Some(places) = self.groups.get_mut(group(text)) else { return encode(out) };
        if let Some((_, range)) = places.iter().find(|(known, _)| *known == text) {
            return out.extend_from_within(range.clone());
        }
        let start = out.len();
        encode(out);
        let free = places.iter().position(|(known, _)| known.is_empty()).unwrap_or(0);
        if let Some(place) = places.get_mut(free) {
            *place = (text, start..out.len());
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{SHORTEST, Stretch};
    use crate::model::Version;
    use crate::tokenizer::RangeCache;

    #[test]
    fn texts_that_come_again_have_the_same_ids() {
        // More short texts than are remembered, long ones, empty ones; all of them come again.
        let texts: Vec<String> = (0..700)
            .map(|number| match number % 350 {
                number if number % 7 == 0 => String::new(),
                number if number % 5 == 0 => "long ".repeat(SHORTEST + number),
                number => format!("<{number}>"),
            })
            .collect();
        let plain = Version::V4.tokenizer();
        let (mut wanted, mut stretches) = (Vec::new(), Vec::new());
        for (text, id) in texts.iter().zip(0..) {
            plain.encode_plain(text, &mut wanted);
            wanted.extend([id, 7, 8]);
            stretches.extend([Stretch::Text((&**text).into(), Some(id)), Stretch::Ids(&[7, 8], None)]);
        }
        let cached = plain.with_cache(Arc::new(RangeCache::new(1 << 20)));
        for tokenizer in [&*plain, &cached, &cached] {
            let mut ids = Vec::new();
            tokenizer.encode_stretches(stretches.iter().copied(), &mut ids);
            assert!(ids == wanted);
        }
        let statistics = cached.cache().map(RangeCache::statistics).unwrap();
        assert_eq!(statistics.misses * 3, statistics.hits);
    }
}
