//! Where runs of Han and kana may be cut before they are merged.
//!
//! A run is one pre-token and nearly always new, while most pairs of its characters never stand in one token. Where no
//! token can hold the end of one character and the beginning of the next, no merge crosses their border, so that both
//! sides merge as they do alone.
//!
//! Owns: the pairs of characters that some token may join. Must not know: merges, where runs begin and end.
//! Cost: one bit of a table of 64 KiB for each pair; every twentieth that no token joins is taken for one that is.

use super::character_classes::{HAN_OR_KANA, LETTER, MARK, class_of};
use super::tables::{ImageReader, ImageWriter, Table};
use super::words::TokenBytes;

/// Bits of the filter, as a power of two.
const BITS: u32 = 19;
/// Bytes of every such character.
const LENGTH: usize = 3;
const FIRST: u32 = 0x3040;
const LAST: u32 = 0x9FFF;

/// A filter of pairs of characters.
pub(super) struct Cuts {
    joined: Table<u64>,
}

impl Cuts {
    pub(super) fn new(tokens: &TokenBytes) -> Self {
        let characters: Vec<char> = (FIRST..=LAST).filter(|&code| runs(code)).filter_map(char::from_u32).collect();
        let ending = |end: &[u8]| -> Vec<u32> { matching(&characters, end, <[u8]>::ends_with) };
        let beginning = |start: &[u8]| -> Vec<u32> { matching(&characters, start, <[u8]>::starts_with) };
        let mut joined = vec![0_u64; 1 << (BITS - 6)];
        for token in (0..).take(tokens.len()).filter_map(|id| tokens.get(id)) {
            for at in 1..token.len() {
                let (left, right) = token.split_at(at);
                let (left, right) = (
                    left.last_chunk::<LENGTH>().map_or(left, |end| end),
                    right.first_chunk::<LENGTH>().map_or(right, |start| start),
                );
                // Characters of these runs begin with these bytes.
                if !right.first().is_some_and(|lead| (0xE3..=0xE9).contains(lead)) {
                    continue;
                }
                let rights = beginning(right);
                for left in ending(left) {
                    for &right in &rights {
                        let (word, bit) = place(left, right);
                        if let Some(word) = joined.get_mut(word) {
                            *word |= 1 << bit;
                        }
                    }
                }
            }
        }
        Self { joined: joined.into() }
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.joined);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { joined: image.read()? })
    }

    /// Whether a token may hold the end of one character and the beginning of the next.
    #[inline]
    pub(super) fn joins(&self, left: u32, right: u32) -> bool {
        let (word, bit) = place(left, right);
        self.joined.get(word).is_none_or(|word| word >> bit & 1 == 1)
    }
}

/// The code points of characters of which a part of a token may be the rest.
fn matching(characters: &[char], part: &[u8], matches: impl Fn(&[u8], &[u8]) -> bool) -> Vec<u32> {
    if part.len() == LENGTH {
        let character = std::str::from_utf8(part).ok().and_then(|text| text.chars().next());
        return character.map(u32::from).filter(|&code| runs(code)).into_iter().collect();
    }
    let bytes = |character: char| -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        character.encode_utf8(&mut bytes);
        bytes
    };
    characters
        .iter()
        .filter(|&&character| matches(&bytes(character), part))
        .map(|&character| u32::from(character))
        .collect()
}

/// Whether a character continues a run.
#[inline]
pub(super) fn runs(code: u32) -> bool {
    matches!(code, 0x4E00..=0x9FA5) || {
        let class = class_of(code);
        class & HAN_OR_KANA != 0 && class & (LETTER | MARK) != 0
    }
}

#[inline]
fn place(left: u32, right: u32) -> (usize, u32) {
    let hash = (left << 16 | right & 0xFFFF).wrapping_mul(0x9E37_79B1) >> (32 - BITS);
    ((hash / 64) as usize, hash % 64)
}

#[cfg(test)]
mod tests {
    use super::Cuts;
    use crate::tokenizer::words::TokenBytes;

    #[test]
    fn characters_join_where_a_token_holds_parts_of_both() {
        let mut tokens = TokenBytes::default();
        let (han, kana) = ("中文字".as_bytes(), "かな".as_bytes());
        for token in [han, &kana[2..4], b"", b"ab", "é中".as_bytes()] {
            tokens.push(token).unwrap();
        }
        let cuts = Cuts::new(&tokens);
        let joins = |left: char, right: char| cuts.joins(u32::from(left), u32::from(right));
        assert!(joins('中', '文') && joins('文', '字'));
        // The token is the end of one character and the beginning of the next: of all such characters.
        assert!(joins('か', 'な') && joins('か', 'ア') && joins('苋', 'な'));
        assert!(!joins('文', '中') && !joins('な', 'か') && !joins('か', '中') && !joins('字', '中'));
    }
}
