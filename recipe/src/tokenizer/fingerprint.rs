//! Fingerprints that stand for texts: equal texts have equal ones, and others do not.
//!
//! Owns: the keys and the hash. Must not know: what is looked up by it.
//! Cost: a pass over the text at about 13 GB/s, no memory.
//!
//! Each block is hashed by NH ("UMAC: Fast and Secure Message Authentication", CRYPTO 1999): the sum of products of its words
//! and random keys. Sums, and the length as the first of them, are the coefficients of a polynomial modulo 2^127 - 1, whose
//! value at a random point is the hash of the text. All is done twice, the second time with keys moved by a pair, and with
//! another point. Two blocks have sums of a given difference with a probability of 2^-64 each time, 2^-62 once they are
//! reduced, and two polynomials of degree n agree at no more than n points; so two texts of up to 4 GiB, whoever chose them
//! without knowing the keys, are taken for each other with a probability below 2^-120.

use std::hash::{BuildHasher, RandomState};

use super::woven::Woven;

/// Bytes that are added at once, and words of eight bytes of them.
const CHUNK: usize = 64;
const CHUNK_WORDS: usize = CHUNK / 8;
/// Words of a block, for each of which there is a key.
const BLOCK_WORDS: usize = 128;
/// Keys that the second hash is ahead.
const MOVED: usize = 2;

/// What stands for a text.
pub(super) type Fingerprint = [u128; 2];

/// The keys of fingerprints that are compared with each other. Not known outside.
pub(super) struct Keys {
    words: [u64; BLOCK_WORDS + MOVED],
    points: [u128; 2],
}

impl Keys {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        let mut keys = (0_u64..).map(|number| random.hash_one(number));
        let mut key = || keys.next().unwrap_or_default();
        let words = std::array::from_fn(|_| key());
        Self { words, points: std::array::from_fn(|_| reduced(u128::from(key()) << 64 | u128::from(key()))) }
    }

    /// The fingerprint of `text`.
    pub(super) fn fingerprint(&self, text: Woven<'_>) -> Fingerprint {
        let mut hash = Hash { keys: self, place: 0, sums: [0; 2], values: [text.len() as u128; 2] };
        // What is left of the pieces so far.
        let (mut begun, mut filled) = ([0; CHUNK], 0);
        for piece in text.pieces() {
            let free = begun.get_mut(filled..).unwrap_or_default();
            let (head, piece) = piece.as_bytes().split_at(if filled == 0 { 0 } else { free.len().min(piece.len()) });
            free.iter_mut().zip(head).for_each(|(byte, head)| *byte = *head);
            filled += head.len();
            if filled == begun.len() {
                hash.add(&begun);
                filled = 0;
            }
            let (chunks, rest) = piece.as_chunks();
            for chunk in chunks {
                hash.add(chunk);
            }
            if !rest.is_empty() {
                begun.iter_mut().zip(rest).for_each(|(byte, rest)| *byte = *rest);
                filled = rest.len();
            }
        }
        if filled > 0 {
            begun.iter_mut().skip(filled).for_each(|byte| *byte = 0);
            hash.add(&begun);
        }
        hash.finish()
    }
}

/// A fingerprint in the making.
struct Hash<'keys> {
    keys: &'keys Keys,
    /// Words of the block so far.
    place: usize,
    /// NH of the block so far.
    sums: [u128; 2],
    values: Fingerprint,
}

impl Hash<'_> {
    #[inline]
    fn add(&mut self, chunk: &[u8; CHUNK]) {
        let words: [u64; CHUNK_WORDS] = bytemuck::cast(*chunk);
        let keys = self.keys.words.get(self.place..).and_then(<[u64]>::first_chunk::<{ CHUNK_WORDS + MOVED }>);
        let Some(keys) = keys else { return };
        for (number, sum) in self.sums.iter_mut().enumerate() {
            let (own, _) = keys.get(number * MOVED..).unwrap_or_default().as_chunks();
            for (&[left, right], [left_key, right_key]) in words.as_chunks().0.iter().zip(own) {
                let pair = [left.wrapping_add(*left_key), right.wrapping_add(*right_key)].map(u128::from);
                *sum = sum.wrapping_add(pair[0] * pair[1]);
            }
        }
        self.place += CHUNK_WORDS;
        if self.place == BLOCK_WORDS {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        for ((value, point), sum) in self.values.iter_mut().zip(self.keys.points).zip(&mut self.sums) {
            *value = reduced(times(*value, point) + reduced(std::mem::take(sum)));
        }
        self.place = 0;
    }

    fn finish(mut self) -> Fingerprint {
        if self.place > 0 {
            self.end_block();
        }
        self.values
    }
}

const PRIME: u128 = (1 << 127) - 1;

/// The same modulo 2^127 - 1, and no more than 2^127.
fn reduced(value: u128) -> u128 {
    (value & PRIME) + (value >> 127)
}

/// The product modulo 2^127 - 1, and less than 2^127. The factors are no more than 2^127.
fn times(left: u128, right: u128) -> u128 {
    const LOWER: u128 = u64::MAX as u128;
    let ((left_high, left_low), (right_high, right_low)) = ((left >> 64, left & LOWER), (right >> 64, right & LOWER));
    let (high, low) = (left_high * right_high, left_low * right_low);
    let middle = left_high * right_low + left_low * right_high;
    // 2^128 is 2, and 2^127 is 1.
    let upper = 2 * high + (middle >> 63);
    let lower = ((middle & (LOWER >> 1)) << 64) + reduced(low);
    reduced(reduced(upper) + reduced(lower))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Keys, PRIME, times};
    use crate::tokenizer::{Insert, Woven};

    fn text(length: usize) -> String {
        (b' '..b'y').cycle().step_by(7).map(char::from).take(length).collect()
    }

    #[test]
    fn every_byte_counts() {
        let keys = Keys::new();
        // For each of both hashes on its own.
        let mut seen = [(); 2].map(|()| HashSet::new());
        let mut is_new = |text: &str| {
            let hashes = keys.fingerprint(text.into());
            seen.iter_mut().zip(hashes).all(|(seen, hash)| seen.insert(hash))
        };
        // More than two blocks.
        let text = text(2500);
        assert!((0..=text.len()).all(|length| is_new(&text[..length])));
        for place in 0..text.len() {
            let mut other = text.clone();
            other.replace_range(place..=place, "~");
            assert!(is_new(&other), "{place}");
        }
        // Zeros at the end are not what a chunk is filled up with.
        assert!((1..200).all(|length| is_new(&"\0".repeat(length))));
        // It matters where a block stands.
        let blocks = [&text[..1024], &text[1024..2048]];
        assert!(is_new(&blocks.map(str::to_owned).into_iter().rev().collect::<String>()));
    }

    #[test]
    fn keys_differ() {
        let [first, second] = [Keys::new(), Keys::new()].map(|keys| keys.fingerprint("text".into()));
        assert_ne!(first, second);
    }

    #[test]
    fn pieces_do_not_count() {
        let (keys, text) = (Keys::new(), text(2500));
        let lengths = [0, 1, 40, 64, 130, 200, 1024, 2100];
        for (start, end) in (0..200).flat_map(|start| lengths.map(|length| (start, start + length))) {
            let own = [&text[..start], &text[end..]].concat();
            let inserts = [(start, start), (0, end)].map(|(after, until)| (after, &text[start..until]));
            let inserts = inserts.map(|(after, text)| Insert { after, text });
            let woven = Woven::new(&own, &inserts);
            assert_eq!((woven.len(), woven.pieces().collect::<String>()), (text.len(), text.clone()));
            assert_eq!(keys.fingerprint(woven), keys.fingerprint((&*text).into()), "{start}..{end}");
        }
    }

    #[test]
    fn products_are_those_modulo_the_prime() {
        // By doubling and adding.
        let slow = |left: u128, right: u128| {
            (0..128).rev().fold(0, |sum, bit| {
                let twice = sum * 2 % PRIME;
                if right >> bit & 1 == 1 { (twice + left % PRIME) % PRIME } else { twice }
            })
        };
        let edges = [0, 1, 2, 3, u128::from(u64::MAX), 1 << 64, 1 << 126, PRIME - 1, PRIME, PRIME + 1];
        let others = (1..60_u128).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) & PRIME);
        let factors: Vec<_> = edges.into_iter().chain(others).collect();
        for (left, right) in factors.iter().flat_map(|left| factors.iter().map(move |right| (*left, *right))) {
            let product = times(left, right);
            assert!(product < 1 << 127);
            assert_eq!(product % PRIME, slow(left, right), "{left} {right}");
        }
    }
}
