//! What a prompt consists of, one after the other: texts, and ids that are known.
//!
//! Texts that are not known are encoded together, since many words take less time each than few. What comes between them
//! waits meanwhile.
//!
//! Owns: that texts which are known are not encoded again: long ones in the range cache, and short ones, of which a prompt's
//! markup has many and few that differ, as long as the prompt lasts. Must not know: control tokens, other threads.

use std::ops::Range;

use super::encode::Desk;
use super::fingerprint::Fingerprint;
use super::markup::Markup;
use super::ranges::{Known, Looked, RangeCache, SHORTEST};
use super::woven::Woven;
use super::{Tokenizer, Vocabulary};

/// Bytes of text that are encoded together.
const TOGETHER: usize = 32 << 10;
/// Longer texts are encoded each on its own, those that are whole where they lie.
const ALONE: usize = 8 << 10;

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
    let cache = tokenizer.cache.as_deref();
    let mut rest = stretches.clone();
    if let (Some(Stretch::Text(text, None)), None) = (rest.next(), rest.next())
        && let Some(text) = text.plain().filter(|text| text.len() < SHORTEST || cache.is_none())
    {
        // Nothing comes again that could be remembered.
        return tokenizer.vocabulary.encode(desk, text, &[text.len()], out, |_| ());
    }
    let long = stretches.clone().filter_map(|stretch| stretch.text()).filter(|text| text.len() >= SHORTEST);
    let mut looked = cache.map(|cache| cache.look_up(long)).unwrap_or_default().into_iter().peekable();
    let mut writer = Writer::new(&tokenizer.vocabulary, cache, desk, out);
    let (mut markup, mut long_numbers) = (Markup::default(), Vec::new());
    for stretch in stretches {
        let (Stretch::Text(_, id) | Stretch::Ids(_, id)) = stretch;
        match stretch {
            Stretch::Ids(ids, _) => writer.put(Part::Ids(ids)),
            Stretch::Text(text, _) if text.len() == 0 => (),
            Stretch::Text(text, _) if text.len() < SHORTEST => {
                match text.plain().and_then(|text| markup.number(text, writer.texts())) {
                    Some(number) => writer.put(Part::Again(number)),
                    None => writer.encode(text, None),
                }
            }
            Stretch::Text(text, _) => {
                let found = looked.next();
                if let Some(Looked::Known(next)) = looked.peek() {
                    next.prefetch();
                }
                long_numbers.push(writer.texts());
                match found {
                    Some(Looked::Known(known)) => writer.put(Part::Known(known)),
                    Some(Looked::Again(place)) => {
                        writer.put(Part::Again(long_numbers.get(place).copied().unwrap_or_default()));
                    }
                    Some(Looked::New(fingerprint, _)) => writer.encode(text, Some(fingerprint)),
                    None => writer.encode(text, None),
                }
            }
        }
        if let Some(id) = id {
            writer.put(Part::Id(id));
        }
    }
    writer.encode_waiting();
}

/// What waits to be appended.
enum Part<'text> {
    Ids(&'text [u32]),
    Id(u32),
    /// Ids of the range cache.
    Known(Known),
    /// The next text that is encoded, and what the range cache is to keep it by.
    Text(Option<Fingerprint>),
    /// The text of this number again.
    Again(usize),
}

/// Appends parts in order, and encodes texts together.
struct Writer<'work, 'text> {
    vocabulary: &'work Vocabulary,
    cache: Option<&'work RangeCache>,
    desk: &'work mut Desk,
    out: &'work mut Vec<u32>,
    /// Where the ids of the texts are that do not wait, by number.
    places: Vec<Range<usize>>,
    /// The texts that wait, where each ends, and all parts from the first of them on.
    waiting: String,
    ends: Vec<usize>,
    parts: Vec<Part<'text>>,
    /// Their ids.
    ids: Vec<u32>,
}

impl<'work, 'text> Writer<'work, 'text> {
    fn new(
        vocabulary: &'work Vocabulary,
        cache: Option<&'work RangeCache>,
        desk: &'work mut Desk,
        out: &'work mut Vec<u32>,
    ) -> Self {
        let (places, waiting, ends) = (Vec::new(), String::new(), Vec::new());
        Self { vocabulary, cache, desk, out, places, waiting, ends, parts: Vec::new(), ids: Vec::new() }
    }

    /// How many texts there were to encode: the number of the next one.
    fn texts(&self) -> usize {
        self.places.len() + self.ends.len()
    }

    /// Appends ids, as soon as it is their turn.
    fn put(&mut self, part: Part<'text>) {
        if self.parts.is_empty() {
            self.append(part);
        } else {
            self.parts.push(part);
        }
    }

    /// Appends the ids of a text, as soon as it is their turn.
    fn encode(&mut self, text: Woven<'text>, fingerprint: Option<Fingerprint>) {
        // Markup begins no waiting: all that is known behind it would have to wait too.
        if text.len() > ALONE || text.len() < SHORTEST && self.parts.is_empty() {
            self.encode_waiting();
            return self.encode_alone(text, fingerprint);
        }
        text.pieces().for_each(|piece| self.waiting.push_str(piece));
        self.ends.push(self.waiting.len());
        self.parts.push(Part::Text(fingerprint));
        if self.waiting.len() >= TOGETHER {
            self.encode_waiting();
        }
    }

    /// Appends the ids of a text while none waits.
    fn encode_alone(&mut self, text: Woven<'text>, fingerprint: Option<Fingerprint>) {
        let whole = text.plain().unwrap_or_else(|| {
            text.pieces().for_each(|piece| self.waiting.push_str(piece));
            &self.waiting
        });
        let start = self.out.len();
        self.vocabulary.encode(self.desk, whole, &[whole.len()], self.out, |_| ());
        self.places.push(start..self.out.len());
        self.keep(fingerprint.map(|fingerprint| (fingerprint, start..self.out.len())));
        self.waiting.clear();
    }

    /// Encodes the texts that wait, and appends all parts.
    fn encode_waiting(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let mut ids = std::mem::take(&mut self.ids);
        let mut id_ends = Vec::with_capacity(self.ends.len());
        self.vocabulary.encode(self.desk, &self.waiting, &self.ends, &mut ids, |end| id_ends.push(end));
        let (mut kept, mut start, mut id_ends) = (Vec::new(), 0, id_ends.into_iter());
        for part in std::mem::take(&mut self.parts) {
            let Part::Text(fingerprint) = part else {
                self.append(part);
                continue;
            };
            let end = id_ends.next().unwrap_or_default();
            let before = self.out.len();
            self.out.extend_from_slice(ids.get(std::mem::replace(&mut start, end)..end).unwrap_or_default());
            self.places.push(before..self.out.len());
            kept.extend(fingerprint.map(|fingerprint| (fingerprint, before..self.out.len())));
        }
        self.keep(kept);
        ids.clear();
        self.ids = ids;
        self.waiting.clear();
        self.ends.clear();
    }

    fn append(&mut self, part: Part<'_>) {
        match part {
            Part::Ids(ids) => self.out.extend_from_slice(ids),
            Part::Id(id) => self.out.push(id),
            Part::Known(known) => self.out.extend_from_slice(known.ids()),
            Part::Again(number) => {
                if let Some(place) = self.places.get(number) {
                    self.out.extend_from_within(place.clone());
                }
            }
            Part::Text(_) => (),
        }
    }

    /// Gives new ids to the range cache.
    fn keep(&self, new: impl IntoIterator<Item = (Fingerprint, Range<usize>)>) {
        if let Some(cache) = self.cache {
            cache.keep(
                new.into_iter().map(|(fingerprint, place)| (fingerprint, self.out.get(place).unwrap_or_default())),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{SHORTEST, Stretch, TOGETHER};
    use crate::model::Version;
    use crate::tokenizer::{Insert, RangeCache, Woven};

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
    proptest! {
        #[test]
        fn texts_that_are_encoded_together_do_not_touch(
            // What would go on in the next text, new words, and texts that come again.
            texts in proptest::collection::vec(
                "[a-z]{0,12}|[0-9]{1,5}| {1,3}|\\r?\\n|\\p{Han}{1,20}|[!-/]{1,3}|[a-zA-Z0-9 ]{30,90}|(ab ){0,2}|\\PC{0,9}",
                0..60,
            ),
            long in "[a-z]{1,7}",
            lengths in proptest::collection::vec(0..2 * TOGETHER, 0..3),
            split in 0_usize..9,
        ) {
            let mut texts = texts;
            for (place, length) in lengths.iter().enumerate() {
                // Some are encoded alone, some fill what is encoded together.
                let words = format!("{long} ").repeat(length / (long.len() + 1)) + &long;
                texts.insert(place * 20 % (texts.len() + 1), words);
            }
            let tokenizer = Version::V4.tokenizer();
            let cached = tokenizer.with_cache(Arc::new(RangeCache::new(1 << 22)));
            let mut wanted = Vec::new();
            for (text, id) in texts.iter().zip(0..) {
                tokenizer.encode_pair_by_pair(text, &mut wanted);
                wanted.extend(Some(id).filter(|id| id % 3 > 0));
            }
            // Every other one as an insert between the parts of a text.
            let cut = |text: &str| text.char_indices().nth(split).map_or(text.len(), |(place, _)| place);
            let parts: Vec<_> = texts.iter().map(|text| text.split_at(cut(text))).collect();
            let inserts: Vec<_> = parts.iter().map(|&(own, text)| [Insert { after: own.len(), text }]).collect();
            let woven = |place: usize| match place % 2 {
                0 => Woven::from(&*texts[place]),
                _ => Woven::new(parts[place].0, &inserts[place]),
            };
            let stretches = (0..).take(texts.len()).map(|id| {
                Stretch::Text(woven(id as usize), Some(id).filter(|id| id % 3 > 0))
            });
            for tokenizer in [&*tokenizer, &cached, &cached] {
                let mut ids = Vec::new();
                tokenizer.encode_stretches(stretches.clone(), &mut ids);
                prop_assert!(ids == wanted);
            }
        }
    }
}
