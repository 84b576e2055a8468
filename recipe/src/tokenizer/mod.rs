//! Text to token ids and back, for the tokenizers of the DeepSeek family.
//!
//! Owns: the immutable [`Tokenizer`] and its two ways to read text: as plain text, where nothing a user types can
//! become a control token, and with added tokens recognised. Must not know: prompts, protocols, model versions.
//! Cost: see `pretokenize`, `words`, `bpe` and `greedy`; a clone and a re-spelling share all heavy tables.

mod added;
mod blocks;
mod borders;
mod bpe;
mod character_classes;
mod cuts;
mod decode;
mod encode;
mod fingerprint;
mod greedy;
mod helpers;
mod known;
mod lanes;
mod line;
mod load;
mod long;
mod markup;
mod pairs;
mod parallel;
mod piecewise;
mod places;
mod prefetch;
mod pretokenize;
mod ranges;
mod stretches;
mod tables;
mod trie;
mod words;
mod woven;

use std::collections::HashMap;
use std::sync::Arc;

use added::{AddedTokens, Part};
use bpe::Encoder;
use cuts::Cuts;
use encode::Desk;
use helpers::Helpers;
use pretokenize::PreTokens;
use tables::{ImageReader, ImageWriter};
use words::TokenBytes;

use crate::fork::Lock;

pub use decode::{UnknownTokenId, Utf8Hold};
pub use load::LoadError;
pub use ranges::{RangeCache, RangeCacheStatistics};
pub(crate) use stretches::Stretch;
pub use tables::ALIGNMENT as IMAGE_ALIGNMENT;
pub(crate) use woven::{Insert, Woven};

/// A tokenizer of the DeepSeek family: immutable, cheap to clone, safe to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    added: Arc<AddedTokens>,
    threads: usize,
    cache: Option<Arc<RangeCache>>,
}

/// The tables that do not depend on added tokens.
struct Vocabulary {
    tokens: TokenBytes,
    /// Words that are tokens although merging does not make them; nearly always none.
    whole_words: HashMap<Box<[u8]>, u32>,
    cuts: Cuts,
    encoder: Encoder,
    /// One for each thread that encodes at the same time.
    desks: Lock<Vec<Box<Desk>>>,
    helpers: Helpers,
}

/// What one token stands for on the output side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'tokenizer> {
    /// Bytes of an ordinary token; they may begin or end inside a character.
    Text(&'tokenizer [u8]),
    /// An added token: its id and spelling.
    Special(u32, &'tokenizer str),
}

impl Tokenizer {
    fn new(vocabulary: Vocabulary, added: AddedTokens) -> Self {
        Self { vocabulary: Arc::new(vocabulary), added: Arc::new(added), threads: 1, cache: None }
    }

    /// Reads a `tokenizer.json`. Files whose pipeline is not exactly the one implemented here are refused, never
    /// approximated.
    pub fn from_json(bytes: &[u8]) -> Result<Self, LoadError> {
        load::from_json(bytes)
    }

    /// All tables, to be embedded in a program built for this machine's byte order, aligned to [`IMAGE_ALIGNMENT`].
    pub fn to_image(&self) -> Vec<u8> {
        let mut image = ImageWriter::default();
        let Vocabulary { tokens, whole_words, cuts, encoder, desks: _, helpers: _ } = &*self.vocabulary;
        tokens.write(&mut image);
        let mut ids: Vec<u32> = whole_words.values().copied().collect();
        ids.sort_unstable();
        image.write(&ids);
        cuts.write(&mut image);
        self.added.write(&mut image);
        encoder.write(&mut image);
        image.finish()
    }

    /// A tokenizer whose tables are those of an image, in place: nothing is parsed, nothing copied. The image must come
    /// from [`Self::to_image`] of the same version; of others all that is sure is that they do no harm.
    pub fn from_image(image: &'static [u8]) -> Result<Self, LoadError> {
        let read = |image: &mut ImageReader| {
            let tokens = TokenBytes::read(image)?;
            let whole_words =
                image.read::<u32>()?.iter().filter_map(|&id| Some((tokens.get(id)?.into(), id))).collect();
            let cuts = Cuts::read(image)?;
            let (added, encoder) = (AddedTokens::read(image)?, Encoder::read(image)?);
            let vocabulary =
                Vocabulary { tokens, whole_words, cuts, encoder, desks: Lock::default(), helpers: Helpers::default() };
            Some(Self::new(vocabulary, added))
        };
        read(&mut ImageReader::new(image)).ok_or_else(|| LoadError::new("its image is cut or not aligned"))
    }

    /// The same tokenizer with other spellings for some of its added tokens.
    pub fn with_special_spellings(&self, spellings: &[(u32, &str)]) -> Result<Self, LoadError> {
        let added = self.added.respelled(spellings)?;
        Ok(Self { added: Arc::new(added), ..self.clone() })
    }

    /// The same tokenizer with up to this many threads for long texts; 0 counts as 1. Alone it uses none but the caller's.
    /// All that share tables share the threads beside their callers', which are one fewer than the most that one asks for.
    #[must_use]
    pub fn with_threads(&self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self.clone() }
    }

    /// The same tokenizer with a memory of encoded ranges. Tokenizers of other vocabularies must not share it.
    #[must_use]
    pub fn with_cache(&self, cache: Arc<RangeCache>) -> Self {
        Self { cache: Some(cache), ..self.clone() }
    }

    /// Most threads that one text may use.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The memory of encoded ranges, if there is one.
    pub fn cache(&self) -> Option<&RangeCache> {
        self.cache.as_deref()
    }

    /// Appends the ids of `text` without any added vocabulary: control tokens that it spells out stay ordinary text.
    pub fn encode_plain(&self, text: &str, out: &mut Vec<u32>) {
        self.encode_stretches([Stretch::Text(text.into(), None)].into_iter(), out);
    }

    /// Appends the ids of all `stretches`.
    pub(crate) fn encode_stretches<'text>(
        &self,
        stretches: impl Iterator<Item = Stretch<'text>> + Clone,
        out: &mut Vec<u32>,
    ) {
        let (mut bytes, mut count) = (0, 0);
        stretches.clone().for_each(|stretch| (bytes, count) = (bytes + stretch.bytes(), count + 1));
        // Ordinary text has more than three bytes a token; room that is not used costs nothing.
        out.reserve(bytes / 3 + 2 * count);
        self.vocabulary.at_desk(|desk| {
            if parallel::is_worthwhile(self, bytes) {
                parallel::encode(self, desk, stretches, out);
            } else {
                stretches::encode(self, desk, stretches, out);
            }
        });
    }

    /// What [`Self::encode_plain`] appends, merged pair by pair by the plain rule and without any table of words: slow, and
    /// there to be compared with.
    pub fn encode_pair_by_pair(&self, text: &str, out: &mut Vec<u32>) {
        let mut pre_tokens = PreTokens::new(text);
        let mut start = 0;
        while let Some(next) = pre_tokens.next_end() {
            self.vocabulary.encoder.merge_plainly(text.as_bytes().get(start..next).unwrap_or_default(), out);
            start = next;
        }
    }

    /// Appends the ids of `text` with added tokens recognised wherever it spells them. For trusted text only.
    pub fn encode_with_special(&self, text: &str, out: &mut Vec<u32>) {
        let mut stretches = Vec::new();
        self.added.split(text, |part| match (part, stretches.last_mut()) {
            (Part::Plain(plain), _) => stretches.push(Stretch::Text(plain.into(), None)),
            (Part::Token(id), Some(Stretch::Text(_, behind @ None))) => *behind = Some(id),
            (Part::Token(id), _) => stretches.push(Stretch::Text("".into(), Some(id))),
        });
        self.encode_stretches(stretches.into_iter(), out);
    }

    /// Id of the added token with exactly this spelling.
    pub fn special_id(&self, spelling: &str) -> Option<u32> {
        self.added.id(spelling)
    }

    /// What `id` stands for, or `None` when the vocabulary has no such id.
    #[inline]
    pub fn piece(&self, id: u32) -> Option<Piece<'_>> {
        match self.vocabulary.tokens.get(id) {
            Some(bytes) => Some(Piece::Text(bytes)),
            None => self.added.spelling(id).map(|spelling| Piece::Special(id, spelling)),
        }
    }

    /// Bytes of a sequence of ids, added tokens as they are spelled. Fails at the first unknown id.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, UnknownTokenId> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            bytes.extend_from_slice(match self.piece(id).ok_or(UnknownTokenId(id))? {
                Piece::Text(text) => text,
                Piece::Special(_, spelling) => spelling.as_bytes(),
            });
        }
        Ok(bytes)
    }

    /// Highest id plus one.
    pub fn vocabulary_size(&self) -> usize {
        let added = self.added.highest_id().map_or(0, |id| id as usize + 1);
        self.vocabulary.tokens.len().max(added)
    }

    /// Id and spelling of every added token, in order of id.
    pub fn added_tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        self.added.iter()
    }
}

#[cfg(test)]
mod tests;
