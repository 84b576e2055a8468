//! Ids of tool calls: reproducible from a seed, and shaped as the models' own service shapes them.
//!
//! The ids only have to differ between calls. They are no secret: whoever sees some of them may be able to tell others.

use std::fmt::Write as _;

/// Makes the call ids of one choice.
#[derive(Debug, Clone)]
pub(in crate::protocol) struct CallIds {
    seed: [u64; 2],
}

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LETTERS: usize = 20;
const DIGITS: usize = 4;

impl CallIds {
    /// Ids of choice `choice` of the answer whose seed is `seed`.
    pub(in crate::protocol) fn new(seed: &[u8], choice: usize) -> Self {
        // Two hashes with different starts, so that seeds of 16 random bytes keep their strength against collisions.
        let mut seed = [hash(0xCBF2_9CE4_8422_2325, seed), hash(0x9AE1_6A3B_2F90_404F, seed)];
        seed[0] = mix(seed[0] ^ choice as u64);
        Self { seed }
    }

    /// Id of the call with this index. `early` marks a call that a thinking model made before any reasoning.
    pub(in crate::protocol) fn id(&self, index: usize, early: bool) -> String {
        let mark = if early { "ET_" } else { "" };
        let mut id = format!("call_{index:02}_{mark}");
        let mut streams = self.seed.map(|seed| SplitMix(mix(seed ^ index as u64)));
        let mut draw = |place: usize, choices: u64| streams[place % 2].next() % choices;
        for place in 0..LETTERS {
            let letter = usize::try_from(draw(place, ALPHABET.len() as u64)).unwrap_or_default();
            id.push(char::from(ALPHABET[letter]));
        }
        for place in 0..DIGITS {
            let _ = write!(id, "{}", draw(place, 10));
        }
        id
    }
}

/// FNV-1a.
fn hash(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// `SplitMix64`: a counter whose values are mixed.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape() {
        let ids = CallIds::new(b"seed", 0);
        let id = ids.id(7, false);
        let random = id.strip_prefix("call_07_").unwrap();
        assert_eq!(random.len(), 24);
        assert!(random[..20].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(random[20..].bytes().all(|byte| byte.is_ascii_digit()));
        assert_eq!(ids.id(7, true), format!("call_07_ET_{random}"));
        assert!(ids.id(123, false).starts_with("call_123_"));
    }

    #[test]
    fn the_same_seed_gives_the_same_ids_and_others_differ() {
        let mut seen = std::collections::HashSet::new();
        for seed in [&b""[..], b"a", b"b", b"aa", &[0; 16], &[1; 16]] {
            for choice in 0..3 {
                for index in 0..200 {
                    let id = CallIds::new(seed, choice).id(index, false);
                    assert_eq!(id, CallIds::new(seed, choice).id(index, false));
                    assert!(seen.insert(id));
                }
            }
        }
    }
}
