//! The inside of JSON strings, a block at a time: where plain text ends, and where text is put that had escapes.
//!
//! Knows no grammar. Cost: a dozen instructions a block; byte after byte, where the machine is not x86-64.

/// Bytes that are looked at together.
pub(super) const BLOCK: usize = 32;

/// Where texts are put that are not written as they read.
pub(super) enum Room<'a> {
    /// In strings of their own; here they are put together.
    Own(Vec<u8>),
    /// Here, if there are any.
    Lent(Option<&'a mut Vec<u8>>),
    /// Here, one after the other.
    Left(&'a mut [u8]),
}

/// The block at `position`; one that begins with the rest and ends in zeros, put into `end`, where the text is too short.
#[inline]
pub(super) fn block_at<'b>(bytes: &'b [u8], position: usize, end: &'b mut [u8; BLOCK]) -> &'b [u8; BLOCK] {
    let rest = &bytes[position..];
    match rest.first_chunk() {
        Some(block) => block,
        None => {
            *end = [0; BLOCK];
            end[..rest.len()].copy_from_slice(rest);
            end
        }
    }
}

/// Number of bytes before the first quote, backslash or control character.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let (mut length, mut end) = (0, [0; BLOCK]);
    loop {
        let marks = marks(block_at(bytes, length, &mut end));
        length += marks.trailing_zeros() as usize;
        if marks != 0 {
            return length;
        }
    }
}

/// The quotes, backslashes and control characters of a block: bit `i` speaks of byte `i`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn marks(block: &[u8; BLOCK]) -> u32 {
    #[expect(unsafe_code, reason = "texts are most of a request, and this reads sixteen bytes of them at a time")]
    // SAFETY: SSE2 is part of every x86-64.
    unsafe {
        marks_of_vectors(block)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn marks_of_vectors(block: &[u8; BLOCK]) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
    let halves: [__m128i; 2] = bytemuck::cast(*block);
    let [low, high] = halves.map(|bytes| {
        let equal = |byte: u8| _mm_cmpeq_epi8(bytes, all(byte));
        let control = _mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, all(0x1F)));
        _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(equal(b'"'), equal(b'\\')))).cast_unsigned()
    });
    low | high << 16
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn marks(block: &[u8; BLOCK]) -> u32 {
    marks_by_byte(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn marks_by_byte(block: &[u8; BLOCK]) -> u32 {
    let is_mark = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    block.iter().rev().fold(0, |marks, &byte| marks << 1 | u32::from(is_mark(byte)))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, marks, marks_by_byte, plain_length};
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_a_mark_or_not_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for at in 0..BLOCK {
                let mut block = [b'~'; BLOCK];
                block[at] = byte;
                assert_eq!(marks(&block), marks_by_byte(&block), "{byte} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn vectors_tell_what_single_bytes_tell(block: [u8; BLOCK]) {
            prop_assert_eq!(marks(&block), marks_by_byte(&block));
        }

        #[test]
        fn plain_text_ends_where_a_byte_by_byte_search_ends_it(text in "[a-zé世\"\\\\\u{0}\u{1f} !\u{7f}]{0,80}") {
            let ends = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let wanted = text.bytes().position(ends).unwrap_or(text.len());
            prop_assert_eq!(plain_length(text.as_bytes()), wanted);
        }
    }
}
