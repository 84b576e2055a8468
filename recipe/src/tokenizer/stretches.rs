//! What a prompt consists of, one after the other: texts, and ids that are known.
//!
//! Owns: that texts which are known are not encoded again: long ones in the range cache, and short ones, of which a prompt's
//! markup has many and few that differ, as long as the prompt lasts. Must not know: control tokens, other threads.

use std::ops::Range;

use super::Tokenizer;
use super::encode::Desk;
use super::ranges::SHORTEST;

/// A part of what is to be encoded.
#[derive(Clone, Copy)]
pub(crate) enum Stretch<'text> {
    /// Text on its own, without any added vocabulary.
    Plain(&'text str),
    /// Ids that are known.
    Ids(&'text [u32]),
    /// An id that is known.
    Id(u32),
}

impl<'text> Stretch<'text> {
    /// Bytes that are to be encoded.
    pub(super) fn bytes(&self) -> usize {
        self.text().map_or(0, str::len)
    }

    fn text(&self) -> Option<&'text str> {
        match self {
            Stretch::Plain(text) => Some(text),
            Stretch::Ids(_) | Stretch::Id(_) => None,
        }
    }
}

/// Appends the ids of all `stretches`, on this thread.
pub(super) fn encode(tokenizer: &Tokenizer, desk: &mut Desk, stretches: &[Stretch<'_>], out: &mut Vec<u32>) {
    if let [Stretch::Plain(text)] = stretches
        && text.len() < SHORTEST
    {
        // Nothing comes again that could be remembered.
        return tokenizer.vocabulary.encode(desk, text, out);
    }
    let cache = tokenizer.cache.as_deref();
    let long = stretches.iter().filter_map(Stretch::text).filter(|text| text.len() >= SHORTEST);
    let mut looked = cache.map(|cache| cache.look_up(long)).unwrap_or_default().into_iter().peekable();
    let mut markup = Markup::default();
    for stretch in stretches {
        match (*stretch, cache) {
            (Stretch::Plain(text), _) if text.len() < SHORTEST => {
                markup.encode(text, out, |out| tokenizer.vocabulary.encode(desk, text, out));
            }
            (Stretch::Plain(text), Some(cache)) => {
                let found = looked.next();
                if let Some(next) = looked.peek() {
                    next.prefetch();
                }
                cache.encode(text, found, out, |out| tokenizer.vocabulary.encode(desk, text, out));
            }
            (Stretch::Plain(text), None) => tokenizer.vocabulary.encode(desk, text, out),
            (Stretch::Ids(ids), _) => out.extend_from_slice(ids),
            (Stretch::Id(id), _) => out.push(id),
        }
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

fn group(text: &str) -> usize {
    let mix = |hash: usize, byte: &u8| (hash ^ usize::from(*byte)).wrapping_mul(0x9E37_79B1);
    let hash = text.as_bytes().iter().fold(text.len(), mix);
    (hash >> 16) % GROUPS
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
            stretches.extend([Stretch::Plain(text), Stretch::Id(id), Stretch::Ids(&[7, 8])]);
        }
        let cached = plain.with_cache(Arc::new(RangeCache::new(1 << 20)));
        for tokenizer in [&*plain, &cached, &cached] {
            let mut ids = Vec::new();
            tokenizer.encode_stretches(&stretches, &mut ids);
            assert!(ids == wanted);
        }
        let statistics = cached.cache().map(RangeCache::statistics).unwrap();
        assert_eq!(statistics.misses * 3, statistics.hits);
    }
}
