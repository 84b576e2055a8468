//! Bytes of tokens, and words as numbers.
//!
//! Owns: the token bytes, and what makes a word a key. Must not know: merges, where pre-tokens come from, added tokens.
//! Cost: two loads for the bytes of a token, one multiplication for the hash of a short word.

#![allow(clippy::cast_possible_truncation, reason = "keys and hashes are taken apart in halves")]

use super::tables::{ImageReader, ImageWriter, Table};

/// Bytes of every token that stands for text, by id. An empty entry is an id that has none.
#[derive(Clone, Default)]
pub(super) struct TokenBytes {
    bytes: Table<u8>,
    ends: Table<u32>,
}

impl TokenBytes {
    /// Adds the entry of the next id. `None` when all entries together pass 4 GiB.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.to_mut().extend_from_slice(bytes);
        self.ends.to_mut().push(u32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// Bytes of `id`, or `None` when it stands for no text.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let (text, length) = self.beginning(id)?;
        text.get(..length)
    }

    /// A text that begins with the bytes of `id`, and how many those are.
    #[inline]
    pub(super) fn beginning(&self, id: u32) -> Option<(&[u8], usize)> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start as usize..).map(|text| (text, (end - start) as usize)).filter(|&(_, length)| length > 0)
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.bytes);
        image.write(&self.ends);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { bytes: image.read()?, ends: image.read()? })
    }

    /// All ids, those without bytes included.
    pub(super) fn ids(&self) -> std::ops::Range<u32> {
        0..self.ends.len() as u32
    }

    /// Number of ids, those without bytes included.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Longest word that a key holds whole.
pub(super) const KEYED: usize = 15;

/// A word as two numbers. Of one of up to [`KEYED`] bytes they are its bytes and in the highest byte its length, so that no
/// two have the same; of a longer one a hash, and 0.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Key {
    /// Key of the first `length` bytes of `text`, at least one.
    #[inline]
    pub(super) fn new(text: &[u8], length: usize) -> Self {
        let Some(&[low_mask, high_mask]) = MASKS.get(length) else { return Self::of_long(text, length) };
        let bytes = text.first_chunk::<16>().map_or_else(|| Self::padded(text), |bytes| u128::from_le_bytes(*bytes));
        Self { low: bytes as u64 & low_mask, high: (bytes >> 64) as u64 & high_mask | (length as u64) << 56 }
    }

    #[cold]
    fn of_long(text: &[u8], length: usize) -> Self {
        Self { low: long_hash(text.get(..length).unwrap_or_default()), high: 0 }
    }

    /// Whether it holds the whole word.
    #[inline]
    pub(super) fn is_whole(self) -> bool {
        self.high != 0
    }

    /// The last bytes of a text, which cannot be read sixteen at a time.
    #[cold]
    fn padded(text: &[u8]) -> u128 {
        let mut bytes = [0; 16];
        for (target, &source) in bytes.iter_mut().zip(text) {
            *target = source;
        }
        u128::from_le_bytes(bytes)
    }

    /// A hash of which all bits are good.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        // Neither factor is ever 0: no text has a byte 0xFF, and no length is 0xFF.
        let product = u128::from(self.low ^ !MULTIPLIER) * u128::from(self.high ^ !MULTIPLIER.rotate_left(32));
        product as u64 ^ (product >> 64) as u64
    }
}

/// Which bytes belong to a word, by length.
const MASKS: [[u64; 2]; KEYED + 1] = {
    let mut masks = [[0; 2]; KEYED + 1];
    let mut length = 1;
    while length <= KEYED {
        let mask = u128::MAX >> (128 - 8 * length);
        masks[length] = [mask as u64, (mask >> 64) as u64];
        length += 1;
    }
    masks
};

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

fn long_hash(word: &[u8]) -> u64 {
    let mix = |state: u64, value: u64| {
        let product = (state ^ value.rotate_left(32)).wrapping_mul(MULTIPLIER);
        product ^ product >> 32
    };
    let (chunks, _) = word.as_chunks::<8>();
    let tail = word.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
    let state = chunks.iter().fold(mix(MULTIPLIER, tail), |state, chunk| mix(state, u64::from_le_bytes(*chunk)));
    mix(state, word.len() as u64)
}
