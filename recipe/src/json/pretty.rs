//! [`Value`] → indented JSON text, for files that people read.

use super::{Value, write_compact, write_string};

/// Appends `value` over several lines, two spaces a level.
pub fn write_pretty(value: &Value<'_>, out: &mut String) {
    write_level(value, 0, out);
}

fn write_level(value: &Value<'_>, level: usize, out: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                start_line(index, level + 1, out);
                write_level(item, level + 1, out);
            }
            end_line(level, out);
            out.push(']');
        }
        Value::Object(object) if !object.is_empty() => {
            out.push('{');
            for (index, (key, member)) in object.iter().enumerate() {
                start_line(index, level + 1, out);
                write_string(key, out);
                out.push_str(": ");
                write_level(member, level + 1, out);
            }
            end_line(level, out);
            out.push('}');
        }
        scalar => write_compact(scalar, out),
    }
}

fn start_line(index: usize, level: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
    end_line(level, out);
}

fn end_line(level: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", level));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn each_member_has_its_line() {
        let mut out = String::new();
        write_pretty(&parse(br#"{"a":[1,{}],"b":[]}"#).unwrap(), &mut out);
        assert_eq!(out, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    }
}
