//! [`Value`] → compact JSON text, with the client's own digits.

use std::fmt::Write as _;

use super::Value;

/// Appends `value` without white space, key order and number spelling kept.
pub fn write_compact(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(number.literal()),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_compact(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (key, member)) in object.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_compact(member, out);
            }
            out.push('}');
        }
    }
}

/// Appends `text` as a JSON string. Escaped are `"`, `\` and everything below U+0020 (short forms where there are some,
/// else `\u00xx` in lower case); all other characters stay as they are.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    escape_into(text, out);
    out.push('"');
}

/// Appends `text` escaped as inside a JSON string, without the quotes.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(place) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (plain, tail) = rest.split_at(place);
        out.push_str(plain);
        match tail.as_bytes()[0] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            byte => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
        rest = &tail[1..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn digits_and_order_stay() {
        let text = r#"{"b":1.50,"a":[-0,1E5,{}],"c":"\"\\\n\u0001/é"}"#;
        let mut out = String::new();
        write_compact(&parse(text.as_bytes()).unwrap(), &mut out);
        assert_eq!(out, text);
    }
}
