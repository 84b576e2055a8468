//! Text → the inside of a JSON string.
//!
//! Owns what is escaped and how. Eight bytes are looked at together: most text needs no escape, and long texts are written
//! several times at the end of an answer. Costs one pass.

use std::fmt::Write as _;

/// Appends `text` escaped as inside a JSON string, without the quotes. Escaped are `"`, `\` and everything below U+0020
/// (short forms where there are some, else `\u00xx` in lower case); all other characters stay as they are.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    escape::<false>(text, out);
}

/// As [`escape_into`], and escapes the line ends that only Unicode knows (U+0085, U+2028, U+2029).
pub(crate) fn escape_line_ends_into(text: &str, out: &mut String) {
    escape::<true>(text, out);
}

fn escape<const LINE_ENDS: bool>(text: &str, out: &mut String) {
    out.reserve(text.len());
    let bytes = text.as_bytes();
    let (mut written, mut place) = (0, 0);
    while let Some(plain) = plain_length::<LINE_ENDS>(&bytes[place..]) {
        place += plain;
        let length = match bytes[place] {
            0xC2 if bytes[place + 1] == 0x85 => 2,
            0xE2 if bytes[place + 1] == 0x80 && matches!(bytes[place + 2], 0xA8 | 0xA9) => 3,
            0x80.. => {
                place += 1;
                continue;
            }
            _ => 1,
        };
        out.push_str(&text[written..place]);
        written = place + length;
        match short(bytes[place]) {
            Some(letter) => {
                out.push('\\');
                out.push(letter);
            }
            None => {
                for character in text[place..written].chars() {
                    let _ = write!(out, "\\u{:04x}", u32::from(character));
                }
            }
        }
        place = written;
    }
    out.push_str(&text[written..]);
}

/// The letter of an escape that has one.
fn short(byte: u8) -> Option<char> {
    Some(match byte {
        b'"' | b'\\' => char::from(byte),
        b'\n' => 'n',
        b'\r' => 'r',
        b'\t' => 't',
        0x08 => 'b',
        0x0c => 'f',
        _ => return None,
    })
}

/// Number of bytes before the first that may have to be escaped; `None` if there is none.
fn plain_length<const LINE_ENDS: bool>(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut marked = below(word, b' ') | equal(word, b'"') | equal(word, b'\\');
        if LINE_ENDS && word & HIGH != 0 {
            marked |= equal(word, 0xC2) | equal(word, 0xE2);
        }
        if marked != 0 {
            return Some(index * 8 + (marked.trailing_zeros() / 8) as usize);
        }
    }
    let is_marked = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\') || LINE_ENDS && matches!(byte, 0xC2 | 0xE2);
    rest.iter().position(is_marked).map(|place| words.len() * 8 + place)
}

const ONES: u64 = u64::MAX / 0xFF;
const HIGH: u64 = ONES << 7;

/// Sets the high bit of the bytes below `limit`, which is at most 0x80. Above the first of them, others may be set too.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH
}

/// Sets the high bit of the bytes that are `byte`, as [`below`] does.
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> [String; 2] {
        let mut outs = [String::new(), String::new()];
        escape_into(text, &mut outs[0]);
        escape_line_ends_into(text, &mut outs[1]);
        outs
    }

    #[test]
    fn line_ends_of_unicode() {
        let text = "a\u{85}\u{2028}\u{2029}\u{2027}“é\u{1}\n\"\\";
        let [plain, lines] = escaped(text);
        assert_eq!(plain, "a\u{85}\u{2028}\u{2029}\u{2027}“é\\u0001\\n\\\"\\\\");
        assert_eq!(lines, "a\\u0085\\u2028\\u2029\u{2027}“é\\u0001\\n\\\"\\\\");
    }

    proptest! {
        #[test]
        fn text_reads_back(
            parts in prop::collection::vec(prop_oneof![any::<String>(), "[a-z\\x00-\\x22\\\\\u{7f}-\u{c3}\u{2000}-\u{2030}]{0,12}"], 0..4),
        ) {
            let text = parts.concat();
            for escaped in escaped(&text) {
                prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{escaped}\"")).unwrap(), &*text);
                prop_assert!(!escaped.contains(|character| character < ' '));
            }
            let has_line_end = escaped(&text)[1].contains(['\u{85}', '\u{2028}', '\u{2029}']);
            prop_assert!(!has_line_end);
        }
    }
}
