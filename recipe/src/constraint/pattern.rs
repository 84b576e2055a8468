//! Regular expressions of requests → regular expressions of grammars.
//!
//! Requests mean ECMAScript's expressions; the engine reads those of Rust's `regex-syntax`. What both have is spelled so that
//! it means the same, the rest is refused: look-around, back-references, word boundaries, flags.

use std::fmt::Write as _;

use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, ClassUnicode,
    ClassUnicodeKind, GroupKind, Literal, LiteralKind, RepetitionKind, RepetitionRange, parse::ParserBuilder,
};

/// Most bytes of an expression.
const LENGTH_LIMIT: usize = 8192;
/// Deepest nesting of groups.
const NESTING_LIMIT: u32 = 64;
/// Most characters that an expression spells out once its counted repetitions are unrolled.
const SIZE_LIMIT: u64 = 10_000;

/// Any text.
pub(super) const ANYTHING: &str = "(?s:.*)";

/// An expression that all of a text matches if some part of it matches `pattern`.
pub(super) fn search(pattern: &str) -> Result<String, String> {
    translate(pattern, ANYTHING)
}

/// An expression that all of a text matches if all of it matches `pattern`.
pub(super) fn whole(pattern: &str) -> Result<String, String> {
    translate(pattern, "")
}

/// `open` stands where the expression has no anchor.
fn translate(pattern: &str, open: &str) -> Result<String, String> {
    if pattern.len() > LENGTH_LIMIT {
        return Err(format!("it has {} bytes, and at most {LENGTH_LIMIT} are supported", pattern.len()));
    }
    let mut parser = ParserBuilder::new().nest_limit(NESTING_LIMIT).build();
    let ast =
        parser.parse(pattern).map_err(|error| format!("{} at byte {}", error.kind(), error.span().start.offset))?;
    let size = size(&ast);
    if size > SIZE_LIMIT {
        return Err(format!("unrolled it spells {size} characters, and at most {SIZE_LIMIT} are supported"));
    }
    let writer = Writer { pattern };
    let mut out = String::from("(?:");
    for (index, branch) in branches(&ast).into_iter().enumerate() {
        if index > 0 {
            out.push('|');
        }
        writer.branch(branch, open, &mut out)?;
    }
    out.push(')');
    Ok(out)
}

/// The alternatives of an expression, groups around all of it left out.
fn branches(ast: &Ast) -> Vec<&Ast> {
    match ast {
        Ast::Group(group) if has_no_flags(&group.kind) => branches(&group.ast),
        Ast::Alternation(choice) => choice.asts.iter().flat_map(branches).collect(),
        ast => vec![ast],
    }
}

fn has_no_flags(kind: &GroupKind) -> bool {
    match kind {
        GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => true,
        GroupKind::NonCapturing(flags) => flags.items.is_empty(),
    }
}

/// Characters that an expression spells out, counted repetitions unrolled.
fn size(ast: &Ast) -> u64 {
    match ast {
        Ast::Repetition(repetition) => {
            let times = match &repetition.op.kind {
                RepetitionKind::Range(
                    RepetitionRange::Exactly(times)
                    | RepetitionRange::AtLeast(times)
                    | RepetitionRange::Bounded(_, times),
                ) => u64::from(*times).max(1),
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
            };
            size(&repetition.ast).saturating_mul(times)
        }
        Ast::Group(group) => size(&group.ast),
        Ast::Alternation(choice) => choice.asts.iter().map(size).fold(0, u64::saturating_add),
        Ast::Concat(sequence) => sequence.asts.iter().map(size).fold(0, u64::saturating_add),
        _ => 1,
    }
}

struct Writer<'p> {
    pattern: &'p str,
}

impl Writer<'_> {
    /// One alternative of the whole, which may be anchored at its ends.
    fn branch(&self, ast: &Ast, open: &str, out: &mut String) -> Result<(), String> {
        let mut parts = match ast {
            Ast::Concat(sequence) => sequence.asts.iter().collect(),
            ast => vec![ast],
        };
        let is = |ast: &Ast, wanted: &AssertionKind| matches!(ast, Ast::Assertion(found) if found.kind == *wanted);
        let (mut starts, mut ends) = (false, false);
        while parts.first().is_some_and(|part| is(part, &AssertionKind::StartLine)) {
            parts.remove(0);
            starts = true;
        }
        while parts.last().is_some_and(|part| is(part, &AssertionKind::EndLine)) {
            parts.pop();
            ends = true;
        }
        if !starts {
            out.push_str(open);
        }
        for part in parts {
            self.write(part, out)?;
        }
        if !ends {
            out.push_str(open);
        }
        Ok(())
    }

    fn write(&self, ast: &Ast, out: &mut String) -> Result<(), String> {
        match ast {
            Ast::Empty(_) => {}
            Ast::Literal(literal) => push(character(literal)?, out),
            Ast::Dot(_) => out.push_str(r"[^\n\r\x{2028}\x{2029}]"),
            Ast::Assertion(assertion) => return Err(unsupported(assertion)),
            Ast::ClassUnicode(class) => self.unicode(class, out)?,
            Ast::ClassPerl(class) => {
                out.push_str(if class.negated { "[^" } else { "[" });
                out.push_str(perl(class));
                out.push(']');
            }
            Ast::ClassBracketed(class) => self.bracketed(class, out)?,
            Ast::Repetition(repetition) => {
                out.push_str("(?:");
                self.write(&repetition.ast, out)?;
                out.push(')');
                times(&repetition.op.kind, out);
            }
            Ast::Group(group) if has_no_flags(&group.kind) => {
                out.push_str("(?:");
                self.write(&group.ast, out)?;
                out.push(')');
            }
            Ast::Flags(_) | Ast::Group(_) => return Err("flags are not supported".to_owned()),
            Ast::Alternation(choice) => {
                out.push_str("(?:");
                for (index, ast) in choice.asts.iter().enumerate() {
                    if index > 0 {
                        out.push('|');
                    }
                    self.write(ast, out)?;
                }
                out.push(')');
            }
            Ast::Concat(sequence) => {
                for ast in &sequence.asts {
                    self.write(ast, out)?;
                }
            }
        }
        Ok(())
    }

    fn bracketed(&self, class: &ClassBracketed, out: &mut String) -> Result<(), String> {
        let spelled = &self.pattern[class.span.start.offset..class.span.end.offset];
        if spelled.starts_with("[]") || spelled.starts_with("[^]") {
            return Err("a class that begins with ] is not supported".to_owned());
        }
        out.push_str(if class.negated { "[^" } else { "[" });
        match &class.kind {
            ClassSet::Item(item) => self.item(item, out)?,
            ClassSet::BinaryOp(_) => return Err("operations on classes are not supported".to_owned()),
        }
        out.push(']');
        Ok(())
    }

    fn item(&self, item: &ClassSetItem, out: &mut String) -> Result<(), String> {
        match item {
            ClassSetItem::Empty(_) => {}
            ClassSetItem::Literal(literal) => push(character(literal)?, out),
            ClassSetItem::Range(range) => {
                push(character(&range.start)?, out);
                out.push('-');
                push(character(&range.end)?, out);
            }
            ClassSetItem::Unicode(class) => self.unicode(class, out)?,
            ClassSetItem::Perl(class) if class.negated => {
                out.push_str("[^");
                out.push_str(perl(class));
                out.push(']');
            }
            ClassSetItem::Perl(class) => out.push_str(perl(class)),
            ClassSetItem::Union(union) => {
                for item in &union.items {
                    self.item(item, out)?;
                }
            }
            ClassSetItem::Ascii(_) | ClassSetItem::Bracketed(_) => {
                return Err("a class within a class is not supported".to_owned());
            }
        }
        Ok(())
    }

    fn unicode(&self, class: &ClassUnicode, out: &mut String) -> Result<(), String> {
        if matches!(class.kind, ClassUnicodeKind::OneLetter(_)) {
            return Err("a property needs braces, as in \\p{L}".to_owned());
        }
        let spelled = &self.pattern[class.span.start.offset..class.span.end.offset];
        // Whether the engine knows the property is found by asking the library that it uses.
        regex_syntax::parse(spelled).map_err(|_| format!("the property {spelled} is unknown"))?;
        out.push_str(spelled);
        Ok(())
    }
}

fn unsupported(assertion: &Assertion) -> String {
    match assertion.kind {
        AssertionKind::StartLine | AssertionKind::EndLine => {
            "^ and $ are supported at the ends of an alternative of the whole expression only".to_owned()
        }
        _ => "word boundaries are not supported".to_owned(),
    }
}

fn character(literal: &Literal) -> Result<char, String> {
    match literal.kind {
        // ECMAScript has no \a, and \v, \f, \t, \n and \r mean the same in both.
        LiteralKind::Special(regex_syntax::ast::SpecialLiteralKind::Bell) => Err("\\a is not supported".to_owned()),
        _ => Ok(literal.c),
    }
}

/// The characters of `\d`, `\w` or `\s`, as ECMAScript has them.
fn perl(class: &ClassPerl) -> &'static str {
    match class.kind {
        ClassPerlKind::Digit => "0-9",
        ClassPerlKind::Word => "0-9A-Za-z_",
        ClassPerlKind::Space => {
            r"\t\n\x0B\x0C\r\x20\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"
        }
    }
}

fn times(kind: &RepetitionKind, out: &mut String) {
    match kind {
        RepetitionKind::ZeroOrOne => out.push('?'),
        RepetitionKind::ZeroOrMore => out.push('*'),
        RepetitionKind::OneOrMore => out.push('+'),
        RepetitionKind::Range(RepetitionRange::Exactly(times)) => {
            let _ = write!(out, "{{{times}}}");
        }
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => {
            let _ = write!(out, "{{{least},}}");
        }
        RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => {
            let _ = write!(out, "{{{least},{most}}}");
        }
    }
}

/// One character, spelled so that it means itself in and out of classes, and between slashes.
fn push(character: char, out: &mut String) {
    if character.is_ascii_alphanumeric() || character == '_' {
        out.push(character);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", u32::from(character));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (pattern, found) in [
            ("a.c", r"(?:(?s:.*)a[^\n\r\x{2028}\x{2029}]c(?s:.*))"),
            ("^a$", "(?:a)"),
            ("^(?:a|b)$|c", "(?:(?:(?:a|b))|(?s:.*)c(?s:.*))"),
            ("(^a|b$)", "(?:a(?s:.*)|(?s:.*)b)"),
            (r"^[\d\-/]{2,}?$", r"(?:(?:[0-9\x{2D}\x{2F}]){2,})"),
            (r"^\p{Lu}\u0041\x42$", r"(?:\p{Lu}AB)"),
            ("", "(?:(?s:.*)(?s:.*))"),
        ] {
            assert_eq!(search(pattern).as_deref(), Ok(found), "{pattern}");
        }
        assert_eq!(whole("a|^b$").as_deref(), Ok("(?:a|b)"));
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        for pattern in [
            "(",
            "(?=a)",
            "(?!a)",
            r"(a)\1",
            r"\bword",
            "a^b",
            "(?i)a",
            "(?i:a)",
            r"\pL",
            r"\p{Nonsense}",
            "[]a]",
            "[^]a]",
            "[[:alpha:]]",
            "[a[b]]",
            "[a&&b]",
            r"\a",
            r"\A",
            r"\z",
            r"\h",
            r"\0",
            "a{1000}{1000}",
            "(a{100}){101}",
        ] {
            assert!(search(pattern).is_err(), "{pattern}: {:?}", search(pattern));
        }
        assert!(search(&"a".repeat(LENGTH_LIMIT + 1)).is_err());
        assert!(search(&"(".repeat(1000)).is_err());
    }
}
