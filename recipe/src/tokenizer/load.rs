//! Reads a `tokenizer.json` and refuses every pipeline that the rest of this module does not reproduce exactly.
//!
//! Owns: the file format, the check of the pipeline, the byte-to-character alphabet of byte-level vocabularies.
//! Must not know: how text is cut or merged. Cost: one JSON parse, then every vocabulary entry is encoded once.

use std::collections::HashMap;
use std::fmt;

use super::added::{AddedToken, AddedTokens};
use super::bpe::Encoder;
use super::cuts::Cuts;
use super::helpers::Helpers;
use super::pairs::{MAXIMUM_ENTRIES, MAXIMUM_MERGES, Merge};
use super::words::TokenBytes;
use super::{Tokenizer, Vocabulary};
use crate::fork::Lock;
use crate::json::{Object, Value, parse};

/// The expressions of the three `Split` steps, in order, as the file spells them.
const SPLITS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+\
     | ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// Why a tokenizer file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    /// Error with this message.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot use this tokenizer: {}", self.0)
    }
}

impl std::error::Error for LoadError {}

/// See [`Tokenizer::from_json`].
pub(super) fn from_json(bytes: &[u8]) -> Result<Tokenizer, LoadError> {
    let file = parse(bytes).map_err(|error| LoadError::new(format!("it is not JSON: {error}")))?;
    check_pipeline(&file)?;
    let model = member(&file, "model");
    let added = AddedTokens::new(added_tokens(member(&file, "added_tokens"))?)?;
    let vocabulary =
        member(model, "vocab").as_object().ok_or_else(|| LoadError::new("model.vocab must be an object"))?;
    let tokens = token_bytes(vocabulary, &added)?;
    let ids: HashMap<&[u8], u32> = (0..).take(tokens.len()).filter_map(|id| Some((tokens.get(id)?, id))).collect();
    let merges = merges(model, &ids)?;
    let encoder = Encoder::new(&byte_ids(&ids)?, merges, &tokens);
    let whole_words =
        if is_true(member(model, "ignore_merges")) { out_of_reach(&ids, &encoder) } else { HashMap::new() };
    let cuts = Cuts::new(&tokens);
    Ok(Tokenizer::new(
        Vocabulary { tokens, whole_words, cuts, encoder, desks: Lock::default(), helpers: Helpers::default() },
        added,
    ))
}

/// What an object has under `name`; null when it has nothing, or is no object.
fn member<'file>(value: &'file Value<'file>, name: &str) -> &'file Value<'file> {
    static NULL: Value<'static> = Value::Null;
    value.get(name).unwrap_or(&NULL)
}

fn is(value: &Value, text: &str) -> bool {
    value.as_str() == Some(text)
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn token_id(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.literal().parse().ok(),
        _ => None,
    }
}

/// Refuses whatever changes ids and is not implemented. Post-processors add nothing to what this module returns.
fn check_pipeline(file: &Value) -> Result<(), LoadError> {
    let expect = |path: &str, wanted: &str, met: bool| {
        if met { Ok(()) } else { Err(LoadError::new(format!("{path} must be {wanted}"))) }
    };
    let has = |value: &Value, name: &str, text: &str| is(member(value, name), text);
    let lacks = |value: &Value, name: &str| *member(value, name) == Value::Null;
    let false_in = |value: &Value, name: &str| *member(value, name) == Value::Bool(false);
    expect("truncation", "absent", lacks(file, "truncation"))?;
    expect("padding", "absent", lacks(file, "padding"))?;
    let normalizer = member(file, "normalizer");
    let empty = member(normalizer, "normalizers").as_array().is_some_and(<[_]>::is_empty);
    let none = *normalizer == Value::Null || has(normalizer, "type", "Sequence") && empty;
    expect("normalizer", "absent or an empty Sequence", none)?;

    let pre_tokenizer = member(file, "pre_tokenizer");
    let steps = member(pre_tokenizer, "pretokenizers").as_array().unwrap_or_default();
    let sequence = has(pre_tokenizer, "type", "Sequence") && steps.len() == SPLITS.len() + 1;
    expect("pre_tokenizer", "a Sequence of three Split steps and ByteLevel", sequence)?;
    for (number, (step, pattern)) in steps.iter().zip(SPLITS).enumerate() {
        let same = has(step, "type", "Split")
            && has(member(step, "pattern"), "Regex", pattern)
            && has(step, "behavior", "Isolated")
            && false_in(step, "invert");
        expect(&format!("pre_tokenizer step {number}"), &format!("an Isolated Split at {pattern:?}"), same)?;
    }
    let plain = steps.last().is_some_and(|last| {
        has(last, "type", "ByteLevel") && false_in(last, "add_prefix_space") && false_in(last, "use_regex")
    });
    expect("the last pre_tokenizer step", "ByteLevel without add_prefix_space and use_regex", plain)?;
    expect("decoder", "ByteLevel", has(member(file, "decoder"), "type", "ByteLevel"))?;

    let model = member(file, "model");
    expect("model.type", "BPE", has(model, "type", "BPE"))?;
    let no_dropout = match member(model, "dropout") {
        Value::Number(number) => number.literal().parse() == Ok(0.0),
        other => *other == Value::Null,
    };
    expect("model.dropout", "absent", no_dropout)?;
    for name in ["continuing_subword_prefix", "end_of_word_suffix"] {
        expect(&format!("model.{name}"), "absent", lacks(model, name) || has(model, name, ""))?;
    }
    Ok(())
}

fn added_tokens(list: &Value) -> Result<Vec<AddedToken>, LoadError> {
    let list = match list {
        Value::Null => &[],
        list => list.as_array().ok_or_else(|| LoadError::new("added_tokens must be an array"))?,
    };
    let token = |(index, token): (usize, &Value)| {
        let fail = |wanted: &str| LoadError::new(format!("added_tokens[{index}]{wanted}"));
        if let Some(name) = ["single_word", "lstrip", "rstrip"].into_iter().find(|name| is_true(member(token, name))) {
            return Err(fail(&format!(".{name} must be false")));
        }
        let id = token_id(member(token, "id")).filter(|&id| id < u32::MAX);
        Ok(AddedToken {
            id: id.ok_or_else(|| fail(".id must be a token id"))?,
            spelling: member(token, "content").as_str().ok_or_else(|| fail(".content must be a string"))?.into(),
            // The reference's default: special tokens are not normalised.
            normalized: match member(token, "normalized") {
                Value::Bool(normalized) => *normalized,
                _ => !is_true(member(token, "special")),
            },
        })
    };
    list.iter().enumerate().map(token).collect()
}

/// Bytes of all entries by id. Entries that are added tokens stand for no text of their own.
fn token_bytes(vocabulary: &Object, added: &AddedTokens) -> Result<TokenBytes, LoadError> {
    let mut entries: Vec<(u32, &str)> = Vec::with_capacity(vocabulary.len());
    for (spelling, id) in vocabulary.iter() {
        let id = token_id(id).filter(|&id| (id as usize) < MAXIMUM_ENTRIES);
        let id =
            id.ok_or_else(|| LoadError::new(format!("model.vocab gives {spelling:?} no id below {MAXIMUM_ENTRIES}")))?;
        if spelling.is_empty() {
            return Err(LoadError::new("model.vocab has an empty entry"));
        }
        if added.id(spelling).is_some_and(|added_id| added_id != id) {
            return Err(LoadError::new(format!("{spelling:?} has one id in model.vocab, another in added_tokens")));
        }
        entries.push((id, spelling));
    }
    entries.sort_unstable();
    let characters = character_bytes();
    let mut tokens = TokenBytes::default();
    let mut bytes = Vec::new();
    for (id, spelling) in entries {
        if id as usize >= tokens.len() {
            while tokens.len() < id as usize {
                push(&mut tokens, b"")?;
            }
        } else {
            return Err(LoadError::new(format!("model.vocab has two entries with id {id}")));
        }
        bytes.clear();
        match added.spelling(id) {
            Some(other) if other != spelling => {
                return Err(LoadError::new(format!(
                    "id {id} is {spelling:?} in model.vocab, {other:?} in added_tokens"
                )));
            }
            Some(_) => {}
            None => byte_level(spelling, &characters, &mut bytes)?,
        }
        push(&mut tokens, &bytes)?;
    }
    Ok(tokens)
}

fn push(tokens: &mut TokenBytes, bytes: &[u8]) -> Result<(), LoadError> {
    tokens.push(bytes).ok_or_else(|| LoadError::new("the vocabulary passes 4 GiB"))
}

/// The byte behind each character of a byte-level vocabulary: printable Latin-1 characters stand for themselves, the
/// other bytes for the characters from U+0100 on, in order.
fn character_bytes() -> [Option<u8>; 0x144] {
    let mut table = [None; 0x144];
    let mut substitute = 0x100;
    for byte in 0..=u8::MAX {
        let character = if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..) {
            usize::from(byte)
        } else {
            substitute += 1;
            substitute - 1
        };
        if let Some(entry) = table.get_mut(character) {
            *entry = Some(byte);
        }
    }
    table
}

/// Appends the bytes that a vocabulary entry spells.
fn byte_level(spelling: &str, characters: &[Option<u8>], bytes: &mut Vec<u8>) -> Result<(), LoadError> {
    for character in spelling.chars() {
        let byte = characters.get(character as usize).copied().flatten();
        bytes.push(byte.ok_or_else(|| {
            LoadError::new(format!("model.vocab entry {spelling:?} is neither byte-level nor an added token"))
        })?);
    }
    Ok(())
}

/// Merges in order of rank, written `"left right"` or `["left", "right"]`.
fn merges(model: &Value, ids: &HashMap<&[u8], u32>) -> Result<Vec<Merge>, LoadError> {
    let list = member(model, "merges").as_array().ok_or_else(|| LoadError::new("model.merges must be an array"))?;
    if list.len() > MAXIMUM_MERGES {
        return Err(LoadError::new(format!("model.merges has more than {MAXIMUM_MERGES} entries")));
    }
    let characters = character_bytes();
    let mut bytes = Vec::new();
    let mut merge = |rank: usize, item: &Value| {
        let fail = |what: &str| LoadError::new(format!("model.merges[{rank}] {what}"));
        let parts = match item {
            Value::Array(pair) => match pair.as_slice() {
                [left, right] => left.as_str().zip(right.as_str()),
                _ => None,
            },
            pair => pair.as_str().and_then(|pair| pair.split_once(' ')),
        };
        let (left, right) = parts.ok_or_else(|| fail("must be a pair of tokens"))?;
        bytes.clear();
        byte_level(left, &characters, &mut bytes)?;
        let middle = bytes.len();
        byte_level(right, &characters, &mut bytes)?;
        let find = |bytes: Option<&[u8]>| {
            let found = bytes.and_then(|bytes| ids.get(bytes)).copied();
            found.ok_or_else(|| fail("names a token that is not in model.vocab"))
        };
        Ok([find(bytes.get(..middle))?, find(bytes.get(middle..))?, find(Some(&bytes))?])
    };
    list.iter().enumerate().map(|(rank, item)| merge(rank, item)).collect()
}

fn byte_ids(ids: &HashMap<&[u8], u32>) -> Result<[u32; 256], LoadError> {
    let mut byte_ids = [0; 256];
    for (byte, id) in (0..=u8::MAX).zip(&mut byte_ids) {
        let found = ids.get([byte].as_slice()).copied();
        *id = found.ok_or_else(|| LoadError::new(format!("model.vocab has no entry for byte 0x{byte:02X}")))?;
    }
    Ok(byte_ids)
}

/// The entries that merging does not make of their own bytes. There are none in DeepSeek's own files.
fn out_of_reach(ids: &HashMap<&[u8], u32>, encoder: &Encoder) -> HashMap<Box<[u8]>, u32> {
    let mut merged = Vec::new();
    let mut out_of_reach = |word: &[u8], id: u32| {
        merged.clear();
        encoder.merge(word, &mut merged);
        merged != [id]
    };
    ids.iter().filter(|&(word, &id)| out_of_reach(word, id)).map(|(&word, &id)| (word.into(), id)).collect()
}
