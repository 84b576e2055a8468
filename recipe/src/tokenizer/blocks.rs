//! Where tokens of ASCII text begin, 64 bytes at a time.
//!
//! Owns: the rules of `pretokenize` for ASCII, as algebra on bit maps in which bit `i` speaks of byte `i`. Must not know:
//! vocabularies, text beyond the block. Cost: some 200 instructions a block and hardly a branch; byte after byte, where
//! the machine is not x86-64, a few times that.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bit maps are put together of parts")]

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;

/// What the bytes of a block are; each is one of these, or of none: a control character, or part of a wide character.
#[derive(Debug, Default, PartialEq, Eq)]
struct Classes {
    letters: u64,
    digits: u64,
    /// Carriage returns and line feeds.
    newlines: u64,
    blanks: u64,
    /// Other white space: tabulators, form feeds.
    tabs: u64,
    punctuation: u64,
}

/// The places in `block`, which itself begins where a pre-token does, at which another one surely begins: none behind the
/// first byte that is of no class, and none whose rule would have to look beyond it or beyond the block.
#[inline]
pub(super) fn starts(block: &[u8; BLOCK]) -> u64 {
    starts_of(&classes(block))
}

#[inline]
fn starts_of(classes: &Classes) -> u64 {
    let &Classes { letters, digits, newlines, blanks, tabs, punctuation } = classes;
    let any = letters | digits | newlines | blanks | tabs | punctuation;
    // Nothing behind the first byte of no class counts.
    let valid = any & !any.wrapping_add(1);
    let [letters, digits, newlines, blanks, punctuation] =
        [letters, digits, newlines, blanks, punctuation].map(|class| class & valid);
    let spaces = blanks | tabs & valid;
    // Signs that begin a pre-token; they take letters with them when they stand alone before these.
    let first_signs = punctuation & !((punctuation | blanks) << 1);
    let before_letters = digits | newlines | punctuation & !first_signs;
    let mut starts = first_signs | letters & (before_letters << 1) | digits & !(digits << 1) | thirds(digits);
    starts |= newlines & !((punctuation | newlines | spaces) << 1);
    // Line ends behind signs belong to these.
    let taken = newlines & !newlines.wrapping_add(newlines & punctuation << 1);
    let mut first_spaces = spaces & !(spaces << 1);
    // A line end takes the spaces before it along, and with them the line ends before those.
    let behind_newline = first_spaces & (newlines & !taken) << 1;
    let mut ends = spaces.wrapping_add(behind_newline) & !spaces & newlines;
    while ends != 0 {
        let before = behind_newline & (ends & ends.wrapping_neg()).wrapping_sub(1);
        first_spaces &= !(1 << before.ilog2());
        ends &= ends - 1;
    }
    // The last of several spaces goes with the word or the signs behind it.
    let last_spaces = spaces & spaces << 1 & (letters | punctuation) >> 1;
    starts |= first_spaces | last_spaces;
    // What follows white space at the end is unknown, so only its beginning is sure.
    let words = valid & !(spaces | newlines);
    let known = u64::MAX >> words.leading_zeros().saturating_sub(1);
    starts & known & !1
}

/// Where numbers are cut in threes, their beginnings left out.
#[inline]
fn thirds(digits: u64) -> u64 {
    let fourth = digits & digits << 1 & digits << 2 & digits << 3;
    let mut begun = digits & !(digits << 1);
    let mut thirds = 0;
    while begun << 3 & fourth != 0 {
        begun = begun << 3 & fourth;
        thirds |= begun;
    }
    thirds
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn classes(block: &[u8; BLOCK]) -> Classes {
    #[expect(unsafe_code, reason = "sixteen bytes at a time, this is a tenth of the time of byte after byte")]
    // SAFETY: SSE2 is part of every x86-64.
    unsafe {
        classes_of_vectors(block)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn classes_of_vectors(block: &[u8; BLOCK]) -> Classes {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut classes = Classes::default();
    let (quarters, _) = block.as_chunks::<16>();
    for (number, quarter) in quarters.iter().enumerate() {
        let bytes: __m128i = bytemuck::cast(*quarter);
        let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
        let bits = |found: __m128i| u64::from(_mm_movemask_epi8(found) as u16) << (16 * number);
        let equal = |byte: u8| _mm_cmpeq_epi8(bytes, all(byte));
        let between = |bytes: __m128i, first: u8, last: u8| {
            let distance = _mm_add_epi8(bytes, all(first.wrapping_neg()));
            _mm_cmpeq_epi8(distance, _mm_min_epu8(distance, all(last - first)))
        };
        let letters = bits(between(_mm_or_si128(bytes, all(0x20)), b'a', b'z'));
        let digits = bits(between(bytes, b'0', b'9'));
        let blanks = bits(equal(b' '));
        let newlines = bits(_mm_or_si128(equal(b'\n'), equal(b'\r')));
        classes.letters |= letters;
        classes.digits |= digits;
        classes.blanks |= blanks;
        classes.newlines |= newlines;
        classes.tabs |= bits(between(bytes, b'\t', b'\r')) & !newlines;
        classes.punctuation |= bits(between(bytes, b'!', b'~')) & !letters & !digits;
    }
    classes
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn classes(block: &[u8; BLOCK]) -> Classes {
    classes_by_byte(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn classes_by_byte(block: &[u8; BLOCK]) -> Classes {
    let mut classes = Classes::default();
    for (at, &byte) in block.iter().enumerate() {
        let class = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => &mut classes.letters,
            b'0'..=b'9' => &mut classes.digits,
            b'\n' | b'\r' => &mut classes.newlines,
            b' ' => &mut classes.blanks,
            b'\t' | 0x0B | 0x0C => &mut classes.tabs,
            b'!'..=b'~' => &mut classes.punctuation,
            _ => continue,
        };
        *class |= 1 << at;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, classes, classes_by_byte};
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_of_the_same_class_everywhere() {
        for byte in 0..=u8::MAX {
            for at in 0..BLOCK {
                let mut block = [b'~'; BLOCK];
                block[at] = byte;
                assert_eq!(classes(&block), classes_by_byte(&block), "{byte} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn vectors_tell_what_single_bytes_tell(bytes: [u8; 32], more: [u8; 32]) {
            let block: [u8; BLOCK] = bytemuck::cast([bytes, more]);
            prop_assert_eq!(classes(&block), classes_by_byte(&block));
        }
    }
}
