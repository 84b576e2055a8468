//! The inside of JSON strings with escapes, 64 bytes at a time.
//!
//! Code in JSON has an escape every 27 bytes, and no processor guesses where: so nothing is guessed. Of each block bits tell
//! which bytes are backslashes that begin an escape; the letters behind them are translated all at once, and the bytes
//! move together over the backslashes. Knows no grammar. Cost: half an instruction a byte with AVX-512, three with SSSE3,
//! however many escapes there are; nothing is done where the processor has neither.

/// Bytes that are looked at together.
#[cfg(any(test, target_arch = "x86_64"))]
const BLOCK: usize = 64;

/// Copies the beginning of `text` to `room`, with what its short escapes stand for, and tells how many bytes were read and
/// written. It may end anywhere, but in no escape; at the latest at a quote, a control character, another escape, or less
/// than a block before the end of either.
#[inline]
pub(super) fn unescape_blocks(text: &[u8], room: &mut [u8]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "half of the time of a request's JSON")]
    {
        if is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("popcnt")
        {
            // SAFETY: the processor has what the function asks for.
            return unsafe { vectors::unescape_wide(text, room) };
        }
        if is_x86_feature_detected!("ssse3") {
            // SAFETY: the processor has what the function asks for.
            return unsafe { vectors::unescape(text, room) };
        }
    }
    let _ = (text, room);
    (0, 0)
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    #![allow(clippy::cast_possible_truncation, reason = "of the bits of a block those of a vector are taken")]

    use std::arch::x86_64::{
        __m128i, __m512i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_min_epu8, _mm_movemask_epi8,
        _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi16, _mm_shuffle_epi8, _mm_srli_epi16, _mm_xor_si128,
        _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_cmpeq_epi8_mask, _mm512_cmpgt_epi8_mask,
        _mm512_cmplt_epu8_mask, _mm512_maskz_compress_epi8, _mm512_maskz_shuffle_epi8, _mm512_set1_epi8,
        _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_test_epi8_mask, _mm512_xor_si512,
    };

    use super::BLOCK;

    /// Bytes of a vector.
    const WIDTH: usize = 16;
    /// Bytes that are moved together.
    const HALF: usize = WIDTH / 2;

    /// The letters that may stand behind a backslash, but `u`, by their low four bits and by their high ones: one bit for
    /// each of the four rows of ASCII that they stand in.
    const COLUMNS: [u8; WIDTH] = [0, 0, 1 | 4 | 8, 0, 8, 0, 4, 0, 0, 0, 0, 0, 2, 0, 4, 1];
    const ROWS: [u8; WIDTH] = [0, 0, 1, 0, 0, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    /// What makes of b, f, n, r and t what they stand for, by half of their low five bits; all other letters stand for
    /// themselves, and are not above the backslash.
    const CHANGES: [u8; WIDTH] = {
        let mut changes = [0; WIDTH];
        let letters = [(b'b', 8), (b'f', 12), (b'n', b'\n'), (b'r', b'\r'), (b't', b'\t')];
        let mut number = 0;
        while number < letters.len() {
            let (letter, meant) = letters[number];
            changes[letter as usize / 2 % WIDTH] = letter ^ meant;
            number += 1;
        }
        changes
    };

    /// For each set of bytes of a half: the numbers of the others, in order.
    static OTHERS: [u64; 1 << HALF] = {
        let mut others = [0; 1 << HALF];
        let mut set = 0;
        while set < others.len() {
            let (mut byte, mut count) = (0, 0);
            while byte < HALF {
                if set >> byte & 1 == 0 {
                    others[set] |= (byte as u64) << (8 * count);
                    count += 1;
                }
                byte += 1;
            }
            set += 1;
        }
        others
    };

    /// What the bytes of a block are: bit `i` speaks of byte `i`.
    #[derive(Clone, Copy, Default)]
    struct Bits {
        quotes: u64,
        backslashes: u64,
        controls: u64,
        letters: u64,
    }

    /// What is to be done with a block.
    struct Cut {
        /// Backslashes that begin an escape, and what is behind them.
        removed: u64,
        behind: u64,
        /// The first byte that is neither plain nor part of a short escape, and a backslash at the very end, which is left to
        /// the next block, together with its letter.
        ends: u64,
        last: u64,
    }

    impl Cut {
        /// Adds the bytes that are read and written, and tells whether that was all there is.
        #[inline]
        fn advance(&self, read: &mut usize, written: &mut usize) -> bool {
            if self.ends | self.last == 0 {
                // The next block is known before this one is understood.
                *read += BLOCK;
                *written += self.removed.count_zeros() as usize;
                return false;
            }
            let end = (self.ends | self.last).trailing_zeros();
            *read += end as usize;
            *written += (!self.removed & ((1 << end) - 1)).count_ones() as usize;
            self.ends != 0
        }
    }

    impl Bits {
        /// Of a block that does not begin inside of an escape.
        #[inline]
        fn cut(self) -> Cut {
            const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
            // A run of backslashes begins an escape with every second one. That is what a subtraction leaves of the bits
            // between its beginning and its end, where the beginning is at an even place; with `ODD` also where it is not.
            let followed = self.backslashes << 1 | ODD;
            let removed = (followed.wrapping_sub(self.backslashes) ^ ODD) & self.backslashes;
            let behind = removed << 1;
            let ends = (self.quotes | self.controls) & !behind | (behind & !self.letters) >> 1;
            Cut { removed, behind, ends, last: removed & 1 << (BLOCK - 1) }
        }
    }

    /// A block in one vector.
    #[target_feature(enable = "avx512bw,avx512vbmi2,bmi1,popcnt")]
    pub(super) fn unescape_wide(text: &[u8], room: &mut [u8]) -> (usize, usize) {
        let all = |byte: u8| _mm512_set1_epi8(byte.cast_signed());
        let four_times = |table: [u8; WIDTH]| _mm512_broadcast_i32x4(bytemuck::cast(table));
        let (columns, rows, changes) = (four_times(COLUMNS), four_times(ROWS), four_times(CHANGES));
        let (mut read, mut written) = (0, 0);
        while let Some(block) = text[read..].first_chunk::<BLOCK>()
            && let Some(out) = room[written..].first_chunk_mut::<BLOCK>()
        {
            let bytes: __m512i = bytemuck::cast(*block);
            let row = _mm512_shuffle_epi8(rows, _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), all(0x0F)));
            let bits = Bits {
                quotes: _mm512_cmpeq_epi8_mask(bytes, all(b'"')),
                backslashes: _mm512_cmpeq_epi8_mask(bytes, all(b'\\')),
                controls: _mm512_cmplt_epu8_mask(bytes, all(b' ')),
                letters: _mm512_test_epi8_mask(row, _mm512_shuffle_epi8(columns, bytes)),
            };
            let cut = bits.cut();
            let letters = cut.behind & _mm512_cmpgt_epi8_mask(bytes, all(b'\\'));
            let half = _mm512_and_si512(_mm512_srli_epi16::<1>(bytes), all(0x0F));
            let meant = _mm512_xor_si512(bytes, _mm512_maskz_shuffle_epi8(letters, changes, half));
            *out = bytemuck::cast(_mm512_maskz_compress_epi8(!cut.removed, meant));
            if cut.advance(&mut read, &mut written) {
                break;
            }
        }
        (read, written)
    }

    /// A block in four vectors.
    #[target_feature(enable = "ssse3")]
    pub(super) fn unescape(text: &[u8], room: &mut [u8]) -> (usize, usize) {
        let (mut read, mut written) = (0, 0);
        while let Some(block) = text[read..].first_chunk::<BLOCK>()
            && let Some(out) = room[written..].first_chunk_mut::<BLOCK>()
        {
            let vectors: [__m128i; BLOCK / WIDTH] = bytemuck::cast(*block);
            let mut bits = Bits::default();
            for (number, &vector) in vectors.iter().enumerate() {
                add_bits(vector, number * WIDTH, &mut bits);
            }
            let cut = bits.cut();
            let mut place = 0;
            for (number, &vector) in vectors.iter().enumerate() {
                let [removed, behind] = [cut.removed, cut.behind].map(|bits| (bits >> (number * WIDTH)) as u16);
                let moved: [u64; 2] = bytemuck::cast(together(translated(vector, behind), removed));
                for (half, removed) in moved.iter().zip(removed.to_le_bytes()) {
                    out[place..place + HALF].copy_from_slice(&half.to_le_bytes());
                    place += HALF - removed.count_ones() as usize;
                }
            }
            if cut.advance(&mut read, &mut written) {
                break;
            }
        }
        (read, written)
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn all(byte: u8) -> __m128i {
        _mm_set1_epi8(byte.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn add_bits(bytes: __m128i, shift: usize, bits: &mut Bits) {
        let set = |mask: __m128i| u64::from(_mm_movemask_epi8(mask).cast_unsigned()) << shift;
        let column = _mm_shuffle_epi8(bytemuck::cast(COLUMNS), bytes);
        let row = _mm_shuffle_epi8(bytemuck::cast(ROWS), _mm_and_si128(_mm_srli_epi16::<4>(bytes), all(0x0F)));
        bits.quotes |= set(_mm_cmpeq_epi8(bytes, all(b'"')));
        bits.backslashes |= set(_mm_cmpeq_epi8(bytes, all(b'\\')));
        bits.controls |= set(_mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, all(0x1F))));
        bits.letters |= set(_mm_cmpeq_epi8(_mm_and_si128(row, column), all(0))) ^ 0xFFFF << shift;
    }

    /// `bytes`, but for those at the bits of `behind` what they stand for behind a backslash.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn translated(bytes: __m128i, behind: u16) -> __m128i {
        let bit = bytemuck::cast([[1_u8, 2, 4, 8, 16, 32, 64, 128]; 2]);
        let spread = _mm_shuffle_epi8(_mm_set1_epi16(behind.cast_signed()), bytemuck::cast([[0_u8; HALF], [1; HALF]]));
        let is_escaped = _mm_cmpeq_epi8(_mm_and_si128(spread, bit), bit);
        let half = _mm_and_si128(_mm_srli_epi16::<1>(bytes), all(0x0F));
        let is_changed = _mm_and_si128(_mm_cmpgt_epi8(bytes, all(b'\\')), is_escaped);
        _mm_xor_si128(bytes, _mm_and_si128(_mm_shuffle_epi8(bytemuck::cast(CHANGES), half), is_changed))
    }

    /// Each half without the bytes at the bits of `removed`, with anything at its end.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn together(bytes: __m128i, removed: u16) -> __m128i {
        let [low, high] = removed.to_le_bytes().map(|removed| OTHERS[usize::from(removed)].cast_signed());
        let second = bytemuck::cast([[0_u8; HALF], [8; HALF]]);
        _mm_shuffle_epi8(bytes, _mm_add_epi8(_mm_set_epi64x(high, low), second))
    }
}

#[cfg(test)]
mod tests {
    use super::BLOCK;
    use proptest::prelude::*;

    type Unescape = fn(&[u8], &mut [u8]) -> (usize, usize);

    /// All ways that this machine has.
    fn ways() -> Vec<Unescape> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("ssse3") {
            #[expect(unsafe_code, reason = "the way that is not taken where there is a better one")]
            // SAFETY: the processor has what the function asks for.
            return vec![super::unescape_blocks, |text, room| unsafe { super::vectors::unescape(text, room) }];
        }
        vec![super::unescape_blocks]
    }

    /// What short escapes stand for, byte by byte, up to the first byte that is neither one of theirs nor plain.
    fn unescaped(text: &[u8]) -> (usize, Vec<u8>) {
        let (mut read, mut out) = (0, Vec::new());
        loop {
            let (length, byte) = match &text[read..] {
                [b'\\', letter, ..] => match letter {
                    b'"' | b'\\' | b'/' => (2, *letter),
                    b'b' => (2, 8),
                    b'f' => (2, 12),
                    b'n' => (2, b'\n'),
                    b'r' => (2, b'\r'),
                    b't' => (2, b'\t'),
                    _ => return (read, out),
                },
                [b'\\' | b'"' | 0..0x20, ..] | [] => return (read, out),
                [byte, ..] => (1, *byte),
            };
            read += length;
            out.push(byte);
        }
    }

    fn check(text: &[u8]) {
        let (all, wanted) = unescaped(text);
        for unescape in ways() {
            let mut room = vec![0; text.len()];
            let (read, written) = unescape(text, &mut room);
            assert_eq!(room[..written], unescaped(&text[..read]).1, "{}", text.escape_ascii());
            assert_eq!(wanted[..written], room[..written], "{}", text.escape_ascii());
            let is_far = read == all || text.len() - read < BLOCK || ways().len() == 1;
            assert!(is_far, "{read} of {all}: {}", text.escape_ascii());
        }
    }

    #[test]
    fn every_byte_behind_a_backslash_and_alone_wherever_it_stands() {
        for (byte, at) in (0..=u8::MAX).flat_map(|byte| (0..2 * BLOCK).map(move |at| (byte, at))) {
            let mut text = [b'~'; 4 * BLOCK];
            text[at] = byte;
            check(&text);
            text[at] = b'\\';
            text[at + 1] = byte;
            check(&text);
        }
    }

    proptest! {
        #[test]
        fn blocks_give_what_single_bytes_give(
            parts in prop::collection::vec(prop_oneof![
                40 => Just(&b"\\n"[..]), 40 => Just(&b"\\\\"[..]), 10 => Just(&b"\\\""[..]), 10 => Just(&b"\\t"[..]),
                50 => Just(&b"~"[..]), 10 => Just("世".as_bytes()), 10 => Just(&b"plain text without any escape"[..]),
                1 => Just(&b"\\u00e9"[..]), 1 => Just(&b"\""[..]), 1 => Just(&b"\\"[..]),
            ], 0..400),
        ) {
            check(&parts.concat());
        }
    }
}
