//! Bytes of tokens, and the way back from a whole word to its token.
//!
//! Owns: the token bytes and the word table. Must not know: merges, where pre-tokens come from, added tokens.
//! Cost: one hash probe a word. The table is fixed once built and its probe chains depend on the vocabulary only, so
//! no text can make it slow.

/// Bytes of every token that stands for text, by id. An empty entry is an id that has none.
#[derive(Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl TokenBytes {
    /// Adds the entry of the next id. `None` when all entries together pass 4 GiB.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.bytes.len()).ok()?);
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

    /// Number of ids, those without bytes included.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Hash table from whole words to token ids: open addressing, half full at most.
pub(super) struct WordTable {
    slots: Vec<WordSlot>,
    /// Number of slots, a power of two, less one.
    mask: usize,
}

#[derive(Clone, Copy)]
struct WordSlot {
    key: u64,
    length: u32,
    /// `u32::MAX` in an empty slot.
    id: u32,
}

impl WordTable {
    /// Table of the given ids, which all have bytes.
    pub(super) fn new(tokens: &TokenBytes, ids: impl Iterator<Item = u32>) -> Self {
        let size = (tokens.len() * 2).next_power_of_two();
        let empty = WordSlot { key: 0, length: 0, id: u32::MAX };
        let mut table = Self { slots: vec![empty; size], mask: size - 1 };
        for id in ids {
            if let Some(word) = tokens.get(id) {
                let key = word_key(word);
                table.insert(WordSlot { key, length: u32::try_from(word.len()).unwrap_or(u32::MAX), id });
            }
        }
        table
    }

    #[inline]
    fn start(&self, key: u64, length: u32) -> usize {
        usize::try_from(mix(key, u64::from(length)) & self.mask as u64).unwrap_or(0)
    }

    fn insert(&mut self, new: WordSlot) {
        let mut position = self.start(new.key, new.length);
        while let Some(slot) = self.slots.get_mut(position) {
            if slot.id == u32::MAX {
                *slot = new;
                return;
            }
            position = (position + 1) & self.mask;
        }
    }

    /// Id of `word`.
    #[inline]
    pub(super) fn find(&self, tokens: &TokenBytes, word: &[u8]) -> Option<u32> {
        let key = word_key(word);
        let length = u32::try_from(word.len()).ok()?;
        let mut position = self.start(key, length);
        loop {
            let slot = self.slots.get(position)?;
            if slot.id == u32::MAX {
                return None;
            }
            let same = slot.key == key && slot.length == length;
            if same && (word.len() <= EXACT_KEY || tokens.get(slot.id) == Some(word)) {
                return Some(slot.id);
            }
            position = (position + 1) & self.mask;
        }
    }
}

/// Longest word whose key and length say all of it.
const EXACT_KEY: usize = 8;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn mix(state: u64, value: u64) -> u64 {
    let product = (state ^ value.rotate_left(32)).wrapping_mul(MULTIPLIER);
    product ^ product >> 32
}

/// The bytes of a short word, a hash of a longer one. Reads that overlap spare a loop over single bytes.
#[inline]
fn word_key(word: &[u8]) -> u64 {
    if word.len() > EXACT_KEY {
        return long_word_key(word);
    }
    if let (Some(head), Some(tail)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail));
    }
    word.iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
}

#[inline]
fn long_word_key(word: &[u8]) -> u64 {
    let (chunks, _) = word.as_chunks::<8>();
    let tail = word.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
    chunks.iter().fold(mix(MULTIPLIER, tail), |state, chunk| mix(state, u64::from_le_bytes(*chunk)))
}
