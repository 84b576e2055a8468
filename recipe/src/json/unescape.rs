//! The inside of JSON strings with escapes, 64 bytes at a time.
//!
//! Code in JSON has an escape every 27 bytes, and no processor guesses where: so nothing is guessed. Of each block bits tell
//! which bytes are backslashes that begin an escape; the letters behind them are translated all at once, and the bytes
//! move together over the backslashes by a table. Knows no grammar. Cost: some two instructions a byte, however many escapes
//! there are; nothing is done where the processor has no SSSE3.

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// Copies the beginning of `text` to `room`, with what its short escapes stand for, and tells how many bytes were read and
/// written. It may end anywhere, but in no escape; at the latest at a quote, a control character, another escape, or less
/// than a block before the end of either.
#[inline]
pub(super) fn unescape_blocks(text: &[u8], room: &mut [u8]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("popcnt") {
        #[expect(unsafe_code, reason = "halves the time of a request's JSON")]
        // SAFETY: the processor has what the function asks for.
        return unsafe { vectors::unescape(text, room) };
    }
    let _ = (text, room);
    (0, 0)
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_min_epu8, _mm_movemask_epi8,
        _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi16, _mm_setr_epi8, _mm_shuffle_epi8, _mm_srli_epi16, _mm_xor_si128,
    };

    use super::BLOCK;

    /// Bytes of a vector.
    const WIDTH: usize = 16;
    /// Bytes that are moved together.
    const HALF: usize = WIDTH / 2;

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

    /// Bits of a block: bit `i` speaks of byte `i`.
    #[derive(Clone, Copy, Default)]
    struct Bits {
        quotes: u64,
        backslashes: u64,
        controls: u64,
        /// What may stand behind a backslash, but `u`.
        letters: u64,
    }

    impl Bits {
        /// Which backslashes begin an escape, of a block that does not begin inside of one.
        #[inline]
        fn escapes(self) -> u64 {
            const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
            // A run of backslashes begins an escape with every second one. That is what a subtraction leaves of the bits
            // between its beginning and its end, where the beginning is at an even place; with `ODD` also where it is not.
            let followed = self.backslashes << 1 | ODD;
            (followed.wrapping_sub(self.backslashes) ^ ODD) & self.backslashes
        }
    }

    #[target_feature(enable = "ssse3,popcnt")]
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
            let escapes = bits.escapes();
            let escaped = escapes << 1;
            let ends = (bits.quotes | bits.controls) & !escaped | (escaped & !bits.letters) >> 1;
            // A backslash at the very end is left to the next block, together with its letter.
            let plain = (ends | escapes & 1 << (BLOCK - 1)).trailing_zeros();
            let kept = !escapes & 1_u64.checked_shl(plain).map_or(u64::MAX, |end| end - 1);
            let mut place = 0;
            for (number, &vector) in vectors.iter().enumerate() {
                let shift = number * WIDTH;
                let removed = (escapes >> shift) as u16;
                let moved: [u64; 2] = bytemuck::cast(together(translated(vector, (escaped >> shift) as u16), removed));
                for (half, removed) in moved.iter().zip(removed.to_le_bytes()) {
                    out[place..place + HALF].copy_from_slice(&half.to_le_bytes());
                    place += HALF - removed.count_ones() as usize;
                }
            }
            read += plain as usize;
            written += kept.count_ones() as usize;
            if ends != 0 {
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
        // The letters by their low four bits, and by their high ones: one bit for each of the four rows that they stand in.
        let rows = _mm_setr_epi8(0, 0, 1, 0, 0, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0);
        let columns = _mm_setr_epi8(0, 0, 1 | 4 | 8, 0, 8, 0, 4, 0, 0, 0, 0, 0, 2, 0, 4, 1);
        let row = _mm_shuffle_epi8(rows, _mm_and_si128(_mm_srli_epi16::<4>(bytes), all(0x0F)));
        let no_letter = _mm_cmpeq_epi8(_mm_and_si128(row, _mm_shuffle_epi8(columns, bytes)), all(0));
        bits.quotes |= set(_mm_cmpeq_epi8(bytes, all(b'"')));
        bits.backslashes |= set(_mm_cmpeq_epi8(bytes, all(b'\\')));
        bits.controls |= set(_mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, all(0x1F))));
        bits.letters |= set(no_letter) ^ 0xFFFF << shift;
    }

    /// `bytes`, but for those at the bits of `escaped` what they stand for behind a backslash.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn translated(bytes: __m128i, escaped: u16) -> __m128i {
        let bit = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
        let spread = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
        let spread = _mm_shuffle_epi8(_mm_set1_epi16(escaped.cast_signed()), spread);
        let is_escaped = _mm_cmpeq_epi8(_mm_and_si128(spread, bit), bit);
        // What makes of b, f, n, r and t what they stand for; half of each is another number below 16.
        let change = |letter: u8, meant: u8| (letter ^ meant).cast_signed();
        let (b, f, n) = (change(b'b', 8), change(b'f', 12), change(b'n', b'\n'));
        let (r, t) = (change(b'r', b'\r'), change(b't', b'\t'));
        let changes = _mm_setr_epi8(0, b, 0, f, 0, 0, 0, n, 0, r, t, 0, 0, 0, 0, 0);
        let half = _mm_and_si128(_mm_srli_epi16::<1>(bytes), all(0x0F));
        let is_letter = _mm_and_si128(_mm_cmpgt_epi8(bytes, all(b'\\')), is_escaped);
        _mm_xor_si128(bytes, _mm_and_si128(_mm_shuffle_epi8(changes, half), is_letter))
    }

    /// Each half without the bytes at the bits of `removed`, with anything at its end.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn together(bytes: __m128i, removed: u16) -> __m128i {
        let [low, high] = removed.to_le_bytes().map(|removed| OTHERS[usize::from(removed)].cast_signed());
        let second = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8);
        _mm_shuffle_epi8(bytes, _mm_add_epi8(_mm_set_epi64x(high, low), second))
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, unescape_blocks};
    use proptest::prelude::*;

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
        let mut room = vec![0; text.len()];
        let (read, written) = unescape_blocks(text, &mut room);
        let (all, wanted) = unescaped(text);
        assert_eq!(room[..written], unescaped(&text[..read]).1, "{}", text.escape_ascii());
        assert_eq!(wanted[..written], room[..written], "{}", text.escape_ascii());
        if cfg!(target_arch = "x86_64") && is_x86_feature_detected!("ssse3") {
            assert!(read == all || text.len() - read < BLOCK, "{read} of {all}: {}", text.escape_ascii());
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
