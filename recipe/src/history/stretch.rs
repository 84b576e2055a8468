//! Differences between the ids that the model wrote and those of the text, within one stretch between control tokens.
//!
//! Owns how differences are found, written and applied. Only ids of ordinary tokens are ever applied, and only where they
//! spell the very bytes of the ids that they replace, newlines apart. Cost: the stretch is tokenised once to find differences.

use super::chain::CHECK;
use crate::tokenizer::{Piece, Tokenizer};

/// Where the ids of one stretch differ from those of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Number of the stretch: how many control tokens the answer holds before it.
    pub(super) index: u32,
    /// Hash of what its part of the turn says up to its end.
    pub(super) check: [u8; CHECK],
    edits: Vec<Edit>,
}

/// Some ids of the text, and what stands in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    /// Ids of the text since the last edit, which stay.
    kept: usize,
    /// Ids of the text that are replaced.
    replaced: usize,
    /// What they are replaced with.
    ids: Vec<u32>,
}

impl Stretch {
    /// The differences between the model's `ids` and those of `text`, which they spell but for newlines; `None` if there
    /// are none.
    pub(super) fn of(index: u32, ids: &[u32], text: &str, check: [u8; CHECK], tokenizer: &Tokenizer) -> Option<Self> {
        let mut text_ids = Vec::new();
        tokenizer.encode_plain(text, &mut text_ids);
        let differs = text_ids != ids;
        differs.then(|| Self { index, check, edits: differences(&text_ids, ids, tokenizer) })
    }

    /// The model's ids of a text whose own ids are `text_ids`; `None` if they would spell it otherwise than in newlines.
    pub(super) fn apply(&self, text_ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<u32>> {
        let mut ids = Vec::with_capacity(text_ids.len());
        let mut rest = text_ids;
        for edit in &self.edits {
            let (kept, later) = rest.split_at_checked(edit.kept)?;
            let (replaced, later) = later.split_at_checked(edit.replaced)?;
            if letters(replaced, tokenizer)? != letters(&edit.ids, tokenizer)? {
                return None;
            }
            ids.extend_from_slice(kept);
            ids.extend_from_slice(&edit.ids);
            rest = later;
        }
        ids.extend_from_slice(rest);
        Some(ids)
    }

    /// Appends the stretch to the body of a record.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_number(self.index, out);
        out.extend_from_slice(&self.check);
        write_length(self.edits.len(), out);
        for edit in &self.edits {
            write_length(edit.kept, out);
            write_length(edit.replaced, out);
            write_length(edit.ids.len(), out);
            edit.ids.iter().for_each(|&id| write_number(id, out));
        }
    }

    /// Takes a stretch from the body of a record.
    pub(super) fn read(body: &mut &[u8]) -> Option<Self> {
        let index = read_number(body)?;
        let (check, rest) = body.split_first_chunk()?;
        *body = rest;
        let check = *check;
        let edits = (0..read_length(body)?).map(|_| Edit::read(body)).collect::<Option<_>>()?;
        Some(Self { index, check, edits })
    }
}

impl Edit {
    fn read(body: &mut &[u8]) -> Option<Self> {
        let (kept, replaced, length) = (read_length(body)?, read_length(body)?, read_length(body)?);
        let ids = (0..length).map(|_| read_number(body)).collect::<Option<_>>()?;
        Some(Self { kept, replaced, ids })
    }
}

fn ordinary(tokenizer: &Tokenizer, id: u32) -> Option<&[u8]> {
    match tokenizer.piece(id) {
        Some(Piece::Text(bytes)) => Some(bytes),
        Some(Piece::Special(..)) | None => None,
    }
}

/// Bytes of ordinary tokens; `None` if there are others among them.
pub(super) fn bytes(ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for &id in ids {
        bytes.extend_from_slice(ordinary(tokenizer, id)?);
    }
    Some(bytes)
}

/// Bytes of ordinary tokens without the newlines; `None` if there are others among them.
fn letters(ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<u8>> {
    let mut bytes = bytes(ids, tokenizer)?;
    bytes.retain(|byte| *byte != b'\n');
    Some(bytes)
}

/// Walks through two ways to cut the same bytes, newlines apart. After a difference they meet again, at the end at the
/// latest.
fn differences(text_ids: &[u32], own: &[u32], tokenizer: &Tokenizer) -> Vec<Edit> {
    let length =
        |id: u32| ordinary(tokenizer, id).map_or(0, |bytes| bytes.iter().filter(|byte| **byte != b'\n').count());
    let mut edits = Vec::new();
    let (mut text_at, mut own_at, mut kept) = (0, 0, 0);
    while text_at < text_ids.len() || own_at < own.len() {
        if text_ids.get(text_at) == own.get(own_at) {
            (text_at, own_at, kept) = (text_at + 1, own_at + 1, kept + 1);
            continue;
        }
        let (text_start, own_start) = (text_at, own_at);
        let (mut text_bytes, mut own_bytes) = (0, 0);
        loop {
            match (text_ids.get(text_at), own.get(own_at)) {
                (Some(&id), _) if text_bytes <= own_bytes => {
                    text_bytes += length(id);
                    text_at += 1;
                }
                (_, Some(&id)) => {
                    own_bytes += length(id);
                    own_at += 1;
                }
                (_, None) => break,
            }
            if text_bytes == own_bytes {
                break;
            }
        }
        edits.push(Edit { kept, replaced: text_at - text_start, ids: own[own_start..own_at].to_vec() });
        kept = 0;
    }
    edits
}

/// Appends a number, seven bits a byte.
pub(super) fn write_number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    // A stretch is bounded far below this.
    write_number(u32::try_from(length).unwrap_or(u32::MAX), out);
}

/// Takes a number.
pub(super) fn read_number(body: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = body.split_first()?;
        *body = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn read_length(body: &mut &[u8]) -> Option<usize> {
    usize::try_from(read_number(body)?).ok()
}

#[cfg(test)]
#[path = "stretch_tests.rs"]
mod tests;
