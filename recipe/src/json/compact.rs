//! [`Value`] → compact JSON text, with the client's own digits.

use super::Value;
use super::escape::escape_into;

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

/// Appends `text` as a JSON string, with no escape that JSON does not demand.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    escape_into(text, out);
    out.push('"');
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
