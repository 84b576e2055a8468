//! Bytes of tokens, and the way back from a whole word to its token.
//!
//! Owns: the token bytes and the word table. Must not know: merges, where pre-tokens come from, added tokens.
//! Cost: one load a word of up to [`SHORT`] bytes, four of them in a cache line; longer words are compared with the bytes
//! of the token. The tables are fixed once built and their probe chains depend on the vocabulary only, so no text can
//! make them slow.

#![allow(clippy::cast_possible_truncation, reason = "a key is taken apart in halves, and hashes are cut to places")]

use super::pairs::ID_BITS;
use super::prefetch::prefetch;
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
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize).filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.bytes);
        image.write(&self.ends);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { bytes: image.read()?, ends: image.read()? })
    }

    /// Number of ids, those without bytes included.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Longest word that a key holds whole.
pub(super) const KEYED: usize = 15;
/// Longest word whose bytes and id share one slot of the table.
const SHORT: usize = 12;
/// Slots that are looked at together; they are filled from the first on.
const BUCKET: usize = 4;
const LENGTH_SHIFT: u32 = 120;
const ID_SHIFT: u32 = 8 * SHORT as u32;
const ID_MASK: u128 = ((1 << ID_BITS) - 1) << ID_SHIFT;

/// A word of up to [`KEYED`] bytes as one number, no two words the same and none 0: its length and its bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Key(pub(super) u128);

impl Key {
    /// Key of the first `length` bytes of `text`, from 1 to [`KEYED`].
    #[inline]
    pub(super) fn new(text: &[u8], length: usize) -> Self {
        let bytes = text.first_chunk::<16>().map_or_else(|| Self::padded(text), |bytes| u128::from_le_bytes(*bytes));
        let mask = MASKS.get(length).copied().unwrap_or(0);
        Self(bytes & mask | (length as u128) << LENGTH_SHIFT)
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

    #[inline]
    fn length(self) -> usize {
        (self.0 >> LENGTH_SHIFT) as usize
    }

    /// A hash whose high bits are the best.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        let (low, high) = (self.0 as u64, (self.0 >> 64) as u64);
        let product = (low ^ MULTIPLIER).wrapping_mul(MULTIPLIER) ^ high.rotate_left(23);
        (product ^ product >> 32).wrapping_mul(MULTIPLIER)
    }
}

/// The low bytes of a key, by their number.
const MASKS: [u128; KEYED + 1] = {
    let mut masks = [0; KEYED + 1];
    let mut length = 1;
    while length <= KEYED {
        masks[length] = masks[length - 1] << 8 | 0xFF;
        length += 1;
    }
    masks
};

/// Hash tables from whole words to token ids: open addressing, half full at most.
#[derive(Clone, Default)]
pub(super) struct WordTable {
    /// Keys of words of up to [`SHORT`] bytes, their ids in the bytes that are left; 0 is an empty slot.
    short: Table<u128>,
    /// Hashes of longer words in the high half, their ids in the low half; `u64::MAX` is an empty slot.
    long: Table<u64>,
}

impl WordTable {
    /// Table of the given ids, which all have bytes.
    pub(super) fn new(tokens: &TokenBytes, ids: impl Iterator<Item = u32>) -> Self {
        let (short, long): (Vec<u32>, Vec<u32>) =
            ids.partition(|&id| tokens.get(id).is_some_and(|word| word.len() <= SHORT));
        let size = |words: &[u32]| (words.len() * 2).next_power_of_two().max(BUCKET);
        let mut table = Self { short: vec![0; size(&short)].into(), long: vec![u64::MAX; size(&long)].into() };
        for id in short {
            let key = tokens.get(id).map(|word| Key::new(word, word.len())).unwrap_or_default();
            let (buckets, _) = table.short.to_mut().as_chunks_mut::<BUCKET>();
            let full = |&position: &usize| buckets.get(position).is_some_and(|bucket| bucket.last() != Some(&0));
            let position = probe(key.hash(), buckets.len()).find(|position| !full(position));
            let slot = position.and_then(|position| buckets.get_mut(position)?.iter_mut().find(|slot| **slot == 0));
            if let Some(slot) = slot {
                *slot = key.0 | u128::from(id) << ID_SHIFT;
            }
        }
        for id in long {
            let hash = tokens.get(id).map_or(0, long_hash);
            let slots = table.long.to_mut();
            let position = probe(hash, slots.len()).find(|&position| slots.get(position) == Some(&u64::MAX));
            if let Some(slot) = position.and_then(|position| slots.get_mut(position)) {
                *slot = hash >> 32 << 32 | u64::from(id);
            }
        }
        table
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.short);
        image.write(&self.long);
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { short: image.read()?, long: image.read()? })
    }

    /// Id of `word`.
    pub(super) fn find(&self, tokens: &TokenBytes, word: &[u8]) -> Option<u32> {
        if word.is_empty() {
            None
        } else if word.len() <= SHORT {
            self.find_short(Key::new(word, word.len()))
        } else {
            self.find_long(tokens, word)
        }
    }

    /// Id of the word with this key, if it has up to [`SHORT`] bytes. Looks at a whole bucket without a branch.
    #[inline]
    pub(super) fn find_short(&self, key: Key) -> Option<u32> {
        let (buckets, _) = self.short.as_chunks::<BUCKET>();
        for position in probe(key.hash(), buckets.len()) {
            let bucket = buckets.get(position)?;
            let differs = |slot: u128| {
                let difference = (slot ^ key.0) & !ID_MASK;
                u32::from(difference as u64 | (difference >> 64) as u64 != 0)
            };
            let [first, second, third, last] = *bucket;
            let differing = differs(first) | differs(second) << 1 | differs(third) << 2 | differs(last) << 3;
            if let Some(slot) = bucket.get(differing.trailing_ones() as usize) {
                return Some((slot >> ID_SHIFT) as u32 & ((1 << ID_BITS) - 1));
            }
            if bucket.last() == Some(&0) {
                break;
            }
        }
        None
    }

    /// Begins to load the bucket of a short word.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        let buckets = self.short.len() / BUCKET;
        prefetch(&self.short, ((key.hash() >> 32) as usize & buckets.wrapping_sub(1)) * BUCKET);
    }

    /// Id of a word of more than [`SHORT`] bytes.
    pub(super) fn find_long(&self, tokens: &TokenBytes, word: &[u8]) -> Option<u32> {
        let (hash, slots) = (long_hash(word), &*self.long);
        for position in probe(hash, slots.len()) {
            let slot = *slots.get(position)?;
            if slot == u64::MAX {
                break;
            }
            if slot >> 32 == hash >> 32 && tokens.get(slot as u32) == Some(word) {
                return Some(slot as u32);
            }
        }
        None
    }

    /// Whether words of this key are in the table of short words, if anywhere.
    #[inline]
    pub(super) fn is_short(key: Key) -> bool {
        key.length() <= SHORT
    }
}

/// The positions to look at, from the one that the high bits of a hash name on, in a table of a power of two of slots.
#[inline]
fn probe(hash: u64, size: usize) -> impl Iterator<Item = usize> {
    let mask = size.wrapping_sub(1);
    let first = (hash >> 32) as usize;
    (0..size).map(move |step| (first + step) & mask)
}

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
