//! The text of a grammar: rules and terminals in llguidance's dialect of Lark.
//!
//! Owns the lines written so far and the names they have. Equal right-hand sides share one name, so a grammar is no larger
//! than what differs in it.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::json::write_string;

/// Most bytes of one grammar.
const SIZE_LIMIT: usize = 2 << 20;
/// What is wrong with a larger one.
pub(super) const TOO_LARGE: &str = "its grammar is larger than 2 MiB";

/// A grammar being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    lines: String,
    names: HashMap<String, String>,
    rules: usize,
    terminals: usize,
}

impl Writer {
    /// The name of the rule with this right-hand side; a name needs no other.
    pub(super) fn rule(&mut self, body: String) -> String {
        let is_name = !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_name { body } else { self.define(body, false) }
    }

    /// The name of the terminal with this right-hand side.
    pub(super) fn terminal(&mut self, body: String) -> String {
        self.define(body, true)
    }

    fn define(&mut self, body: String, is_terminal: bool) -> String {
        if let Some(name) = self.names.get(&body) {
            return name.clone();
        }
        let (kind, count) = if is_terminal { ('T', &mut self.terminals) } else { ('r', &mut self.rules) };
        let name = format!("{kind}{count}");
        *count += 1;
        let _ = writeln!(self.lines, "{name}: {body}");
        self.names.insert(body, name.clone());
        name
    }

    /// Whether the grammar is larger than is supported.
    pub(super) fn is_too_large(&self) -> bool {
        self.lines.len() > SIZE_LIMIT
    }

    /// The whole grammar, which starts with `start`.
    pub(super) fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.lines)
    }
}

/// A literal text.
pub(super) fn literal(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    write_string(text, &mut quoted);
    // The dialect's strings are JSON's, but for U+007F, which they cannot hold as it is.
    quoted.replace('\u{7f}', "\\u007f")
}

/// A regular expression that all of a text must match.
pub(super) fn expression(expression: &str) -> String {
    format!("/{expression}/")
}

/// A control token.
pub(super) fn token(id: u32) -> String {
    format!("<[{id}]>")
}

/// Alternatives; `None` if there are none.
pub(super) fn either(alternatives: Vec<String>) -> Option<String> {
    match alternatives.len() {
        0 => None,
        1 => alternatives.into_iter().next(),
        _ => Some(format!("({})", alternatives.join(" | "))),
    }
}
