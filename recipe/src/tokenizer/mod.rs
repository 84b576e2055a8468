//! Text to token ids and back, for the tokenizers of the DeepSeek family.
//!
//! Owns: the immutable [`Tokenizer`] and its two ways to read text: as plain text, where nothing a user types can
//! become a control token, and with added tokens recognised. Must not know: prompts, protocols, model versions.
//! Cost: see `pretokenize`, `words`, `bpe` and `greedy`; a clone and a re-spelling share all heavy tables.

mod added;
mod bpe;
mod character_classes;
mod decode;
mod greedy;
mod load;
mod pairs;
mod pretokenize;
mod trie;
mod words;

use std::sync::Arc;

use added::{AddedTokens, Part};
use bpe::Encoder;
use pretokenize::PreTokens;
use words::{TokenBytes, WordTable};

pub use decode::{UnknownTokenId, Utf8Hold};
pub use load::LoadError;

/// A tokenizer of the DeepSeek family: immutable, cheap to clone, safe to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    added: Arc<AddedTokens>,
}

/// The tables that do not depend on added tokens.
struct Vocabulary {
    tokens: TokenBytes,
    words: WordTable,
    encoder: Encoder,
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
    /// Reads a `tokenizer.json`. Files whose pipeline is not exactly the one implemented here are refused, never
    /// approximated.
    pub fn from_json(bytes: &[u8]) -> Result<Self, LoadError> {
        load::from_json(bytes)
    }

    /// The same tokenizer with other spellings for some of its added tokens.
    pub fn with_special_spellings(&self, spellings: &[(u32, &str)]) -> Result<Self, LoadError> {
        let added = self.added.respelled(spellings)?;
        Ok(Self { vocabulary: Arc::clone(&self.vocabulary), added: Arc::new(added) })
    }

    /// Appends the ids of `text` without any added vocabulary: control tokens that it spells out stay ordinary text.
    pub fn encode_plain(&self, text: &str, out: &mut Vec<u32>) {
        let Vocabulary { tokens, words, encoder } = &*self.vocabulary;
        // Ordinary text has between three and four bytes a token.
        out.reserve(text.len() / 4 + 1);
        for word in PreTokens::new(text) {
            match words.find(tokens, word) {
                Some(id) => out.push(id),
                None => encoder.merge(word, out),
            }
        }
    }

    /// Appends the ids of `text` with added tokens recognised wherever it spells them. For trusted text only.
    pub fn encode_with_special(&self, text: &str, out: &mut Vec<u32>) {
        self.added.split(text, |part| match part {
            Part::Plain(plain) => self.encode_plain(plain, out),
            Part::Token(id) => out.push(id),
        });
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
