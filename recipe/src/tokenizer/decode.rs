//! Bytes of tokens to text, one piece at a time.
//!
//! Owns: the bytes of a character that is not complete yet, and what becomes of bytes that are no text.
//! Must not know: tokens, ids, protocols.
//! Cost: one check of each byte, one copy; at most three bytes of state.

use std::fmt;

/// An id that the vocabulary does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTokenId(
    /// The id.
    pub u32,
);

impl fmt::Display for UnknownTokenId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "token id {} is not in the vocabulary", self.0)
    }
}

impl std::error::Error for UnknownTokenId {}

/// Longest beginning of a character that lacks at least one byte.
const MAXIMUM_HELD: usize = 3;

/// Turns a stream of bytes into text, however the stream is cut. The result of all pushes and one flush is what
/// `String::from_utf8_lossy` makes of the bytes joined: invalid bytes become U+FFFD, one for each maximal beginning of
/// a character. Only an incomplete character at the end is held back.
#[derive(Clone, Debug, Default)]
pub struct Utf8Hold {
    held: [u8; MAXIMUM_HELD],
    held_length: usize,
}

impl Utf8Hold {
    /// Holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of bytes held back.
    pub fn held(&self) -> usize {
        self.held_length
    }

    /// Appends to `out` what `bytes` completes.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut String) {
        // A held character is completed, or found invalid, one byte at a time.
        while self.held_length > 0 {
            let Some((&byte, rest)) = bytes.split_first() else { return };
            let mut joined = [0; MAXIMUM_HELD + 1];
            let length = self.held_length + 1;
            for (target, source) in joined.iter_mut().zip(self.held.iter().take(self.held_length).chain([&byte])) {
                *target = *source;
            }
            self.held_length = 0;
            self.append(joined.get(..length).unwrap_or_default(), out);
            bytes = rest;
        }
        self.append(bytes, out);
    }

    /// Ends the stream: an incomplete character becomes one U+FFFD.
    pub fn flush(&mut self, out: &mut String) {
        if self.held_length > 0 {
            self.held_length = 0;
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Appends `bytes` and holds an incomplete end, with nothing held before.
    fn append(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    return;
                }
                Err(error) => error,
            };
            let (valid, invalid) = rest.split_at(error.valid_up_to().min(rest.len()));
            out.push_str(std::str::from_utf8(valid).unwrap_or_default());
            let Some(length) = error.error_len() else {
                for (target, source) in self.held.iter_mut().zip(invalid) {
                    *target = *source;
                }
                self.held_length = invalid.len().min(MAXIMUM_HELD);
                return;
            };
            out.push(char::REPLACEMENT_CHARACTER);
            rest = invalid.get(length..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Hold;
    use proptest::prelude::*;

    fn in_parts<'parts>(parts: impl IntoIterator<Item = &'parts [u8]>) -> String {
        let (mut hold, mut out) = (Utf8Hold::new(), String::new());
        for part in parts {
            hold.push(part, &mut out);
        }
        hold.flush(&mut out);
        out
    }

    #[test]
    fn holds_only_an_incomplete_character() {
        let (mut hold, mut out) = (Utf8Hold::new(), String::new());
        hold.push(b"ok \xF0\x9F\x98", &mut out);
        assert_eq!((out.as_str(), hold.held()), ("ok ", 3));
        hold.push(b"\x80!", &mut out);
        assert_eq!((out.as_str(), hold.held()), ("ok 😀!", 0));
    }

    #[test]
    fn an_incomplete_end_is_one_replacement() {
        assert_eq!(in_parts([b"a\xF0\x9F\x98".as_slice()]), "a\u{FFFD}");
        assert_eq!(in_parts([b"\xE4".as_slice(), b"\xB8", b"x"]), "\u{FFFD}x");
        assert_eq!(in_parts([b"\xE4".as_slice(), b"\xE4\xB8", b"\xAD"]), "\u{FFFD}中");
    }

    /// Bytes that often form, break or nearly form characters.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let one = prop_oneof![
            any::<u8>(),
            proptest::sample::select(b"\x80\xBF\xC2\xE0\xE4\xED\xEF\xF0\xF4\x9F\xA0\x8F\x90".to_vec()),
            proptest::sample::select("aé中😀".as_bytes().to_vec()),
        ];
        proptest::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn equals_the_lossy_conversion_however_it_is_cut(bytes in bytes(), size in 1_usize..6) {
            let expected = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(&in_parts(bytes.chunks(size)), &expected);
            prop_assert_eq!(&in_parts([bytes.as_slice()]), &expected);
            let text = expected.into_owned();
            prop_assert_eq!(in_parts(text.as_bytes().chunks(size)), text);
        }
    }
}
