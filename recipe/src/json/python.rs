//! [`Value`] → JSON as the prompts print it: `, ` and `: ` between members, numbers by value rather than by spelling.

use std::fmt::Write as _;

use super::{Number, NumberValue, Value, write_string};

/// How a prompt version spells floating point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatStyle {
    /// V4: decimal form from 1e-5 on, exponents unpadded (`1e-7`).
    V4,
    /// V4.1: decimal form from 1e-4 on, exponents of at least two digits (`1e-07`).
    V41,
}

/// What stands between members, and how numbers look.
#[derive(Clone, Copy)]
struct Layout {
    style: FloatStyle,
    comma: &'static str,
    colon: &'static str,
}

/// Appends `value` as the prompts print JSON.
pub fn write_python(value: &Value<'_>, style: FloatStyle, out: &mut String) {
    write_python_watched(value, style, out, &mut |_, _| {});
}

/// Appends `value` as the prompts print JSON, and tells `watch` after each piece how long the text is now and what the
/// piece was printed from. What has no text of its own (`true`, a bracket, a comma) counts to the key of the value that it
/// is part of.
pub(crate) fn write_python_watched(
    value: &Value<'_>,
    style: FloatStyle,
    out: &mut String,
    watch: &mut impl FnMut(usize, &str),
) {
    write(value, "", Layout { style, comma: ", ", colon: ": " }, out, watch);
}

/// Appends `value` without white space, but with numbers by value: JSON that was read and written again.
pub fn write_rewritten(value: &Value<'_>, out: &mut String) {
    write(value, "", Layout { style: FloatStyle::V4, comma: ",", colon: ":" }, out, &mut |_, _| {});
}

fn write(value: &Value<'_>, key: &str, layout: Layout, out: &mut String, watch: &mut impl FnMut(usize, &str)) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, layout.style, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(layout.comma);
                }
                watch(out.len(), key);
                write(item, key, layout, out, watch);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (name, member)) in object.iter().enumerate() {
                if index > 0 {
                    out.push_str(layout.comma);
                }
                watch(out.len(), key);
                write_string(name, out);
                watch(out.len(), name);
                out.push_str(layout.colon);
                write(member, name, layout, out, watch);
            }
            out.push('}');
        }
    }
    let source = match value {
        Value::String(text) => text,
        Value::Number(number) => number.literal(),
        _ => key,
    };
    watch(out.len(), source);
}

fn write_number(number: &Number<'_>, style: FloatStyle, out: &mut String) {
    let _ = match number.value() {
        NumberValue::Unsigned(value) => write!(out, "{value}"),
        NumberValue::Negative(value) => write!(out, "{value}"),
        NumberValue::Float(value) => {
            write_float(value, style, out);
            Ok(())
        }
    };
}

/// Shortest digits that read back, laid out as Python's `repr` does but for the limits of `style`.
fn write_float(value: f64, style: FloatStyle, out: &mut String) {
    let smallest_decimal = match style {
        FloatStyle::V4 => 1e-5,
        FloatStyle::V41 => 1e-4,
    };
    let magnitude = value.abs();
    if magnitude == 0.0 || (smallest_decimal..1e16).contains(&magnitude) {
        // `Display` never uses an exponent; whole numbers need their `.0`.
        let start = out.len();
        let _ = write!(out, "{value}");
        if !out[start..].contains('.') {
            out.push_str(".0");
        }
        return;
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    let padding = if style == FloatStyle::V41 && exponent.len() < 2 { "0" } else { "" };
    let _ = write!(out, "{digits}e{sign}{padding}{exponent}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn printed(text: &str, style: FloatStyle) -> String {
        let mut out = String::new();
        write_python(&parse(text.as_bytes()).unwrap(), style, &mut out);
        out
    }

    #[test]
    fn floats_differ_between_versions_only_in_exponents() {
        for (text, v4, v41) in [
            ("1.50", "1.5", "1.5"),
            ("-0", "-0.0", "-0.0"),
            ("1e2", "100.0", "100.0"),
            ("0.00001", "0.00001", "1e-05"),
            ("1e-7", "1e-7", "1e-07"),
            ("1.5e-12", "1.5e-12", "1.5e-12"),
            ("1e16", "1e+16", "1e+16"),
            ("123456789012345680", "123456789012345680", "123456789012345680"),
            ("1e15", "1000000000000000.0", "1000000000000000.0"),
            ("18446744073709551616", "1.8446744073709552e+19", "1.8446744073709552e+19"),
        ] {
            assert_eq!(printed(text, FloatStyle::V4), v4, "{text}");
            assert_eq!(printed(text, FloatStyle::V41), v41, "{text}");
        }
    }

    #[test]
    fn separators_have_spaces() {
        assert_eq!(printed(r#"{"a":[1,{}],"b":[]}"#, FloatStyle::V4), r#"{"a": [1, {}], "b": []}"#);
        let mut out = String::new();
        write_rewritten(&parse(br#"{"a": [1.50, {}], "b": []}"#).unwrap(), &mut out);
        assert_eq!(out, r#"{"a":[1.5,{}],"b":[]}"#);
    }
}
