//! Grammars that a request brings along, in Lark: embedded as they are, once they are seen to hold no way out.
//!
//! Only strings, expressions, comments and brackets are told apart here; whether the rest is a grammar, the engine finds.

use super::lark::expression;
use super::lengths::any_between;
use super::pattern;

/// Most bytes of a grammar.
const LENGTH_LIMIT: usize = 1 << 16;

/// A regular expression that a whole text must match, as the body of a terminal.
pub(super) fn regex(pattern: &str) -> Result<String, String> {
    let text = pattern::whole(pattern)?;
    match any_between(&text, 0, None) {
        Some(false) => Err("nothing matches it".to_owned()),
        _ => Ok(expression(&text)),
    }
}

/// A Lark grammar as a nested grammar.
pub(super) fn grammar(text: &str) -> Result<String, String> {
    if text.len() > LENGTH_LIMIT {
        return Err(format!("it has {} bytes, and at most {LENGTH_LIMIT} are supported", text.len()));
    }
    check(text)?;
    Ok(format!("%lark {{\n{text}\n}}"))
}

/// Refuses what would leave the nested grammar or name control tokens.
fn check(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'"' => at = quoted(bytes, at, b'"')?,
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = line_end(bytes, at),
            b'/' => at = quoted(bytes, at, b'/')?,
            b'#' => at = line_end(bytes, at),
            b'<' => return Err(format!("control tokens (<…>) are not supported, as at byte {at}")),
            b'@' => return Err(format!("references to other grammars (@…) are not supported, as at byte {at}")),
            b'%' => {
                let rest = &text[at..];
                let known = ["%import", "%ignore", "%json", "%regex", "%llguidance"];
                if !known.iter().any(|word| rest.starts_with(word)) {
                    return Err(format!("the directives are {}; byte {at} has another", known.join(", ")));
                }
            }
            b'{' => depth += 1,
            b'}' if depth == 0 => return Err(format!("byte {at} closes a brace that was not opened")),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    if depth > 0 { Err("a brace is not closed".to_owned()) } else { Ok(()) }
}

/// The place of the quotation mark that ends the text that begins at `start`.
fn quoted(bytes: &[u8], start: usize, quote: u8) -> Result<usize, String> {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' => break,
            byte if byte == quote => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    Err(format!("what begins at byte {start} does not end on its line"))
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| start + length)
}
