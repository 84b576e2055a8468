//! Bytes of ordinary tokens → whole characters.
//!
//! Owns the bytes of one incomplete character, at most three. Invalid bytes become U+FFFD, one for each maximal part of a
//! character, as `String::from_utf8_lossy` does. Constant cost per byte.

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Holds the start of a character until the rest arrives.
#[derive(Debug, Default)]
pub(super) struct Utf8Hold {
    start: Vec<u8>,
}

impl Utf8Hold {
    /// Appends to `out` the characters that are complete with `bytes`.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.start.is_empty() {
            self.take(bytes, out);
        } else {
            let mut joined = std::mem::take(&mut self.start);
            joined.extend_from_slice(bytes);
            self.take(&joined, out);
        }
    }

    /// Appends what is held, as the one broken character it is.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.start.is_empty() {
            self.start.clear();
            out.extend_from_slice(REPLACEMENT);
        }
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, broken) = rest.split_at(error.valid_up_to());
            out.extend_from_slice(valid);
            let Some(length) = error.error_len() else {
                self.start.extend_from_slice(broken);
                return;
            };
            out.extend_from_slice(REPLACEMENT);
            rest = &broken[length..];
        }
        out.extend_from_slice(rest);
    }
}
