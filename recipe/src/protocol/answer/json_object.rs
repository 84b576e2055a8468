//! JSON objects written straight into the output: no tree is built per event.
//!
//! Owns how bodies are spelled: compact, members in the order given. Costs one pass over what is written.

use crate::json::{Value, escape_line_ends_into, write_compact};

/// An object under construction: one call per member, in wire order.
pub(in crate::protocol) struct ObjectWriter<'out> {
    out: &'out mut String,
    empty: bool,
}

/// Appends an object with the members that `members` writes.
pub(in crate::protocol) fn write_object(out: &mut String, members: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.push('{');
    members(&mut ObjectWriter { out, empty: true });
    out.push('}');
}

/// Appends an object whose first members are `head`: `{` and at least one member, without the closing brace.
pub(in crate::protocol) fn continue_object(out: &mut String, head: &str, members: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.push_str(head);
    members(&mut ObjectWriter { out, empty: false });
    out.push('}');
}

impl ObjectWriter<'_> {
    fn key(&mut self, key: &str) {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    /// A member whose value `write` appends as JSON. `key` needs no escaping.
    pub(in crate::protocol) fn value(&mut self, key: &str, write: impl FnOnce(&mut String)) {
        self.key(key);
        write(self.out);
    }

    /// A member that is JSON text already.
    pub(in crate::protocol) fn json(&mut self, key: &str, json: &str) {
        self.value(key, |out| out.push_str(json));
    }

    /// A member that is `null`.
    pub(in crate::protocol) fn null(&mut self, key: &str) {
        self.json(key, "null");
    }

    /// A member that is a string.
    pub(in crate::protocol) fn string(&mut self, key: &str, text: &str) {
        self.value(key, |out| write_text(text, out));
    }

    /// A member that is a string, escaped already.
    pub(in crate::protocol) fn escaped<'a>(&mut self, key: &str, pieces: impl IntoIterator<Item = &'a str>) {
        self.value(key, |out| {
            out.push('"');
            for piece in pieces {
                out.push_str(piece);
            }
            out.push('"');
        });
    }

    /// A member that is a string, or `null`.
    pub(in crate::protocol) fn optional_string(&mut self, key: &str, text: Option<&str>) {
        match text {
            Some(text) => self.string(key, text),
            None => self.null(key),
        }
    }

    /// A member that is a whole number.
    pub(in crate::protocol) fn number(&mut self, key: &str, number: u64) {
        self.value(key, |out| write_number(number, out));
    }

    /// A member that is an object.
    pub(in crate::protocol) fn object(&mut self, key: &str, members: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.value(key, |out| write_object(out, members));
    }

    /// A member that is an array, one element for each of `items`.
    pub(in crate::protocol) fn array<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(T, &mut String),
    ) {
        self.value(key, |out| write_array(out, items, write));
    }
}

/// Appends an array, one element for each of `items`.
pub(in crate::protocol) fn write_array<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push('[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

/// Appends a value compactly, with the client's own digits; Unicode's line ends are escaped as in [`write_text`].
pub(in crate::protocol) fn write_json(value: &Value<'_>, out: &mut String) {
    let mut json = String::new();
    write_compact(value, &mut json);
    let mut rest = json.as_str();
    while let Some(place) = rest.find(['\u{85}', '\u{2028}', '\u{2029}']) {
        let (plain, tail) = rest.split_at(place);
        out.push_str(plain);
        let length = tail.chars().next().map_or(0, char::len_utf8);
        escape_line_ends_into(&tail[..length], out);
        rest = &tail[length..];
    }
    out.push_str(rest);
}

/// Appends `text` as a JSON string.
///
/// Besides what JSON demands, the line ends that only Unicode knows (U+0085, U+2028, U+2029) are escaped: clients that
/// read server-sent events with a text line splitter would break the frame there.
pub(in crate::protocol) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    escape_line_ends_into(text, out);
    out.push('"');
}

/// Appends a whole number.
pub(in crate::protocol) fn write_number(mut number: u64, out: &mut String) {
    // As many digits as the largest has.
    let mut digits = [b'0'; 20];
    let mut first = digits.len() - 1;
    loop {
        digits[first] += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
        first -= 1;
    }
    out.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_ends_of_unicode_are_escaped() {
        let mut out = String::new();
        write_text("a\u{85}\u{2028}\u{2029}\u{2027}“é\u{1}\n\"\\", &mut out);
        assert_eq!(out, "\"a\\u0085\\u2028\\u2029\u{2027}“é\\u0001\\n\\\"\\\\\"");
    }

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 7, 10, 109, u64::MAX] {
            let mut out = String::new();
            write_number(number, &mut out);
            assert_eq!(out, number.to_string());
        }
    }

    #[test]
    fn values_keep_their_digits_and_escape_line_ends() {
        let mut out = String::new();
        write_json(&crate::json::parse("{\"a\u{2028}\":[1.50,\"\u{85}\"]}".as_bytes()).unwrap(), &mut out);
        assert_eq!(out, "{\"a\\u2028\":[1.50,\"\\u0085\"]}");
    }

    proptest! {
        #[test]
        fn text_reads_back(text in any::<String>()) {
            let mut out = String::new();
            write_text(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
