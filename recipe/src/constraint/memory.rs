//! Grammars that were made before, and what each was made of: agents send the same tools with every request.
//!
//! Owns: the last grammars, within a bound. Must not know: how a grammar is made.
//! Cost: a comparison of the tools with those of each grammar of the same length, and a copy of the grammar; some
//! microseconds, where making it takes hundreds.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use super::{Asked, Grammar};
use crate::encoded::Constraint;
use crate::fork::Lock;
use crate::model::Version;

/// Most grammars that are kept.
const MOST: usize = 32;
/// Most bytes of a grammar and of what it was made of.
const LARGEST: usize = 256 << 10;

/// All that a grammar is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cause<'e> {
    pub(super) constraint: Cow<'e, Constraint>,
    pub(super) asked: Cow<'e, Asked>,
    pub(super) version: Version,
    /// The id of the mark of calls.
    pub(super) dsml: Option<u32>,
    /// The id of the end mark of thinking.
    pub(super) thinking_end: Option<u32>,
    pub(super) after_thinking: bool,
    pub(super) starts_in_tool_calls: bool,
}

impl Cause<'_> {
    fn into_owned(self) -> Cause<'static> {
        Cause {
            constraint: Cow::Owned(self.constraint.into_owned()),
            asked: Cow::Owned(self.asked.into_owned()),
            ..self
        }
    }
}

/// A bounded memory of grammars, at most 8 MiB, shared by all requests with the same options.
#[derive(Default)]
pub struct Grammars(Lock<VecDeque<(Cause<'static>, Grammar)>>);

impl Grammars {
    /// The grammar that was made of the same.
    pub(super) fn find(&self, cause: &Cause<'_>) -> Option<Grammar> {
        let mut kept = self.0.hold()?;
        let place = kept.iter().rposition(|(known, _)| known == cause)?;
        let found = kept.remove(place)?;
        let grammar = found.1.clone();
        kept.push_back(found);
        Some(grammar)
    }

    /// Keeps a grammar; the one that was not asked for the longest may go for it.
    pub(super) fn keep(&self, cause: Cause<'_>, grammar: &Grammar) {
        let beside_calls = cause.asked.beside_calls.as_ref().map_or(0, size);
        if size(&cause.constraint) + beside_calls + grammar.text.len() > LARGEST {
            return;
        }
        let new = (cause.into_owned(), grammar.clone());
        if let Some(mut kept) = self.0.hold()
            // It may have been made by several at once.
            && kept.iter().all(|(known, _)| *known != new.0)
        {
            if kept.len() >= MOST {
                kept.pop_front();
            }
            kept.push_back(new);
        }
    }
}

/// Bytes of the texts of a constraint.
fn size(constraint: &Constraint) -> usize {
    let sum = |texts: &[String]| texts.iter().map(String::len).sum();
    match constraint {
        Constraint::ToolCall { tools, rules } => tools.len() + rules.allowed.as_deref().map_or(0, sum),
        Constraint::Json { schema } => schema.as_ref().map_or(0, String::len),
        Constraint::Regex { pattern: text } | Constraint::Lark { grammar: text } => text.len(),
        Constraint::Choice { texts } => sum(texts),
    }
}

impl fmt::Debug for Grammars {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Grammars").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Options, encode};
    use crate::protocol::Protocol;

    fn made(options: &Options, fields: &str) -> Grammar {
        let start = r#"{"model":"DeepSeek-V4-Pro","messages":[{"role":"user","content":"json"}],"#;
        let body = format!("{start}{fields}}}");
        let encoded = encode(body.as_bytes(), Protocol::ChatCompletions, options).unwrap();
        encoded.grammar().unwrap().unwrap()
    }

    fn tool(name: &str, more: &str) -> String {
        let function = format!(r#"{{"name":"{name}","parameters":{{"type":"object"}}{more}}}"#);
        format!(r#""tools":[{{"type":"function","function":{function}}}]"#)
    }

    fn expression(number: usize) -> String {
        format!(r#""structured_outputs":{{"regex":"{number}"}}"#)
    }

    fn kept(options: &Options) -> usize {
        options.grammars.0.hold().unwrap().len()
    }

    #[test]
    fn a_grammar_is_made_once_of_the_same_and_anew_of_anything_else() {
        let options = Options::default();
        let same = tool("f", "");
        let different = [
            tool("g", ""),
            tool("f", r#","strict":true"#),
            format!(r#"{same},"parallel_tool_calls":false"#),
            format!(r#"{same},"tool_choice":"required""#),
            format!(r#"{same},"thinking":{{"type":"disabled"}}"#),
            format!(r#"{same},"response_format":{{"type":"json_object"}}"#),
        ];
        for (before, fields) in std::iter::once(&same).chain(&different).enumerate() {
            for _ in 0..3 {
                assert!(made(&options, fields) == made(&Options::default(), fields), "{fields}");
                assert_eq!(kept(&options), before + 1, "{fields}");
            }
        }
    }

    #[test]
    fn the_bounds_hold_and_what_is_asked_for_stays() {
        let options = Options::default();
        for number in 0..2 * MOST {
            made(&options, &expression(0));
            made(&options, &expression(number));
            assert!(kept(&options) <= MOST);
        }
        let used = made(&Options::default(), &expression(0));
        assert!(options.grammars.0.hold().unwrap().iter().any(|(_, grammar)| *grammar == used));
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let options = Options::default();
        let title = "some text ".repeat(LARGEST / 10);
        let schema = format!(r#""structured_outputs":{{"json":{{"type":"string","title":"{title}"}}}}"#);
        for fields in [schema.clone(), format!("{},{schema}", tool("f", ""))] {
            made(&options, &fields);
            assert_eq!(kept(&options), 0);
        }
    }
}
