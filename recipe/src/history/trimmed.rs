//! Newlines that the decoder trims: how the next prompt prints a stretch that the model wrote.
//!
//! Owns the newlines beside marks, and nothing else that the decoder does. What is said wrongly here only costs a stretch its
//! ids: the check of its text then fails in the next prompt.

use std::borrow::Cow;

use crate::special::Special;

/// Tags of both formats between which only a newline is printed, from the mark in them on.
const TAGS: [&str; 6] = ["tool_calls>", "invoke>", "parameter>", " calls>", " invoke>", " parameter>"];

/// Where a stretch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Whether its part of the turn begins with it.
    pub(super) is_first: bool,
    /// Whether it may be reasoning.
    pub(super) is_reasoning: bool,
    /// Whether markup of calls stands before it.
    pub(super) in_calls: bool,
    /// The mark after it, if it is one that newlines are trimmed beside.
    pub(super) next: Option<Special>,
}

/// The text of a stretch as the next prompt prints it, and the mark after it if that is why it differs.
pub(super) fn printed(text: &str, place: Place) -> (Cow<'_, str>, Option<Special>) {
    let text = if place.is_first { text.trim_start_matches('\n') } else { text };
    let printed = match place.next {
        Some(Special::ThinkingEnd) if place.is_reasoning => Cow::Borrowed(text.trim_end_matches('\n')),
        Some(Special::Dsml) if place.in_calls => between_tags(text),
        Some(Special::Dsml) => before_block(text),
        None if place.in_calls && is_tag(text.trim_end_matches('\n')) => text.trim_end_matches('\n').into(),
        _ => text.into(),
    };
    let reason = place.next.filter(|_| printed != text);
    (printed, reason)
}

/// What is said before a block of calls: two newlines follow, and one that broke off what could have been a mark is text.
fn before_block(text: &str) -> Cow<'_, str> {
    let Some(said) = text.strip_suffix('<') else { return text.into() };
    let kept = said.trim_end_matches('\n');
    let broken = if kept.ends_with('<') && kept.len() < said.len() { "\n" } else { "" };
    [kept, broken, "\n\n<"].concat().into()
}

/// A tag, and the begin of the next: one newline stands between them.
fn between_tags(text: &str) -> Cow<'_, str> {
    let mark = if text.ends_with('/') { "</" } else { "<" };
    match text.strip_suffix(mark).map(|text| text.trim_end_matches('\n')) {
        Some(tag) if is_tag(tag) => [tag, "\n", mark].concat().into(),
        Some(tag) if mark == "<" && begins_call(tag) => [tag, "\n<"].concat().into(),
        _ => text.into(),
    }
}

fn is_tag(text: &str) -> bool {
    TAGS.contains(&text)
}

fn begins_call(text: &str) -> bool {
    text.trim_start().starts_with("invoke name=\"") && text.ends_with("\">")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(is_first: bool, in_calls: bool, next: Option<Special>) -> Place {
        Place { is_first, is_reasoning: !in_calls, in_calls, next }
    }

    #[test]
    fn only_newlines_beside_marks_are_trimmed() {
        let (end, dsml) = (Some(Special::ThinkingEnd), Some(Special::Dsml));
        let cases = [
            ("\n\na\n\n", place(true, false, None), "a\n\n"),
            ("\n\na\n\n", place(true, false, end), "a"),
            ("\n\na\n\n", place(false, false, end), "\n\na"),
            ("\n\na\n \n", place(true, false, end), "a\n "),
            ("\r\na\r\n", place(true, false, end), "\r\na\r"),
            ("\n\n", place(true, false, end), ""),
            ("a<", place(true, false, dsml), "a\n\n<"),
            ("a\n\n\n\n<", place(true, false, dsml), "a\n\n<"),
            ("a\n\n\n\n", place(true, false, dsml), "a\n\n\n\n"),
            ("\n<", place(true, false, dsml), "\n\n<"),
            ("a<\n\n<", place(true, false, dsml), "a<\n\n\n<"),
            ("a<<", place(true, false, dsml), "a<\n\n<"),
            ("a<\n", place(true, false, end), "a<"),
            ("a\n</", place(true, true, dsml), "a\n</"),
            ("a\n\n<", place(false, true, dsml), "a\n\n<"),
            (" invoke>\n\n</", place(false, true, dsml), " invoke>\n</"),
            ("parameter><", place(false, true, dsml), "parameter>\n<"),
            (" invoke name=\"f\"><", place(false, true, dsml), " invoke name=\"f\">\n<"),
            (" invoke name=\"f\">\n\n</", place(false, true, dsml), " invoke name=\"f\">\n\n</"),
            (
                " parameter name=\"p\" string=\"true\">\n\n</",
                place(false, true, dsml),
                " parameter name=\"p\" string=\"true\">\n\n</",
            ),
            (" calls>\n\n", place(false, true, None), " calls>"),
            (" calls>\n\n", place(false, false, None), " calls>\n\n"),
            (" calls>\na\n", place(false, true, None), " calls>\na\n"),
        ];
        for (text, place, expected) in cases {
            let reason =
                place.next.filter(|_| expected != text.trim_start_matches('\n') || !place.is_first && expected != text);
            assert_eq!(printed(text, place), (expected.into(), reason), "{text:?} at {place:?}");
        }
    }
}
