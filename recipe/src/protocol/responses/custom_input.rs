//! Responses: the arguments of a custom tool's call → its free text.
//!
//! The model writes `{"input": "…"}`; the client gets what stands in the string, as it arrives. Anything else is passed on
//! as it stands. Holds back at most the opening of the object and one escape.

/// Reads the text out of argument fragments. The result does not depend on where they were cut.
#[derive(Debug, Default)]
pub(super) struct CustomInput {
    stage: Stage,
    /// What was read but not yet understood.
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Before the string's opening quote; `held` is everything so far.
    #[default]
    Opening,
    /// In the string; `held` is the beginning of an escape.
    Text,
    /// After the string.
    Closed,
    /// The arguments have another form.
    Raw,
}

impl CustomInput {
    /// The text of whole arguments.
    pub(super) fn of(arguments: &str) -> String {
        let (mut input, mut text) = (Self::default(), String::new());
        input.push(arguments, &mut text);
        input.finish(&mut text);
        text
    }

    /// Takes the next fragment and appends the text that it brings.
    pub(super) fn push(&mut self, fragment: &str, text: &mut String) {
        match self.stage {
            Stage::Closed => {}
            Stage::Raw => text.push_str(fragment),
            Stage::Text => self.read_text(fragment, text),
            Stage::Opening => {
                self.held.push_str(fragment);
                match opening(&self.held) {
                    Opening::Incomplete => {}
                    Opening::Other => {
                        self.stage = Stage::Raw;
                        self.finish(text);
                    }
                    Opening::Length(length) => {
                        self.stage = Stage::Text;
                        let held = std::mem::take(&mut self.held);
                        self.read_text(&held[length..], text);
                    }
                }
            }
        }
    }

    /// Appends what is still held, at the end of the arguments.
    pub(super) fn finish(&mut self, text: &mut String) {
        text.push_str(&std::mem::take(&mut self.held));
    }

    fn read_text(&mut self, fragment: &str, text: &mut String) {
        let joined;
        let mut rest = fragment;
        if !self.held.is_empty() {
            joined = std::mem::take(&mut self.held) + fragment;
            rest = &joined;
        }
        while let Some(place) = rest.find(['"', '\\']) {
            text.push_str(&rest[..place]);
            rest = &rest[place..];
            if rest.starts_with('"') {
                self.stage = Stage::Closed;
                return;
            }
            match escape(rest.as_bytes()) {
                Escape::Incomplete => {
                    rest.clone_into(&mut self.held);
                    return;
                }
                Escape::Character(character, length) => {
                    text.push(character);
                    rest = &rest[length..];
                }
                Escape::Unknown(length) => {
                    text.push_str(&rest[..length]);
                    rest = &rest[length..];
                }
            }
        }
        text.push_str(rest);
    }
}

/// What the arguments begin with.
enum Opening {
    /// Perhaps `{"input": "`; more is needed.
    Incomplete,
    /// `{"input": "`, of this many bytes.
    Length(usize),
    /// Something else.
    Other,
}

fn opening(arguments: &str) -> Opening {
    let mut rest = arguments;
    for part in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        rest = match rest.strip_prefix(part) {
            Some(rest) => rest,
            None if part.starts_with(rest) => return Opening::Incomplete,
            None => return Opening::Other,
        };
    }
    Opening::Length(arguments.len() - rest.len())
}

/// What stands at a backslash.
enum Escape {
    /// The beginning of an escape.
    Incomplete,
    /// A character, spelled by this many bytes.
    Character(char, usize),
    /// No escape that stands for a character; this many bytes stay as they are.
    Unknown(usize),
}

fn escape(rest: &[u8]) -> Escape {
    let character = match rest.get(1) {
        None => return Escape::Incomplete,
        Some(b'u') => return unicode_escape(rest),
        Some(&letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(_) => return Escape::Unknown(1),
    };
    Escape::Character(character, 2)
}

const UNIT: usize = "\\u0000".len();

fn unicode_escape(rest: &[u8]) -> Escape {
    let first = match code_unit(rest) {
        Unit::Code(code) => code,
        Unit::Incomplete => return Escape::Incomplete,
        Unit::Other => return Escape::Unknown(1),
    };
    if let Some(character) = char::from_u32(first) {
        return Escape::Character(character, UNIT);
    }
    if first >= 0xDC00 {
        return Escape::Unknown(UNIT);
    }
    match code_unit(&rest[UNIT..]) {
        Unit::Incomplete => Escape::Incomplete,
        Unit::Other => Escape::Unknown(UNIT),
        Unit::Code(second) => {
            let pair = char::decode_utf16([first, second].map(|unit| u16::try_from(unit).unwrap_or_default())).next();
            match pair {
                Some(Ok(character)) => Escape::Character(character, 2 * UNIT),
                _ => Escape::Unknown(2 * UNIT),
            }
        }
    }
}

enum Unit {
    Incomplete,
    Code(u32),
    Other,
}

/// Reads `\u` and four hexadecimal digits.
fn code_unit(rest: &[u8]) -> Unit {
    let mut code = 0;
    for place in 0..UNIT {
        let Some(&byte) = rest.get(place) else { return Unit::Incomplete };
        match (place, char::from(byte).to_digit(16)) {
            (0, _) if byte == b'\\' => {}
            (1, _) if byte == b'u' => {}
            (2.., Some(digit)) => code = code * 16 + digit,
            _ => return Unit::Other,
        }
    }
    Unit::Code(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (arguments, text) in [
            (r#"{"input": "a\nb\"\\"}"#, "a\nb\"\\"),
            (r#"{"input":"x", "k": "y"}"#, "x"),
            ("{ \"input\" :\n \"x\"}", "x"),
            (r#"{"input": ""}"#, ""),
            ("{}", "{}"),
            ("", ""),
            ("{", "{"),
            (r#"{"input": "#, r#"{"input": "#),
            (r#"{"input": 5}"#, r#"{"input": 5}"#),
            (r#"{"inputs": "x"}"#, r#"{"inputs": "x"}"#),
            (r#"{"patch": "x"}"#, r#"{"patch": "x"}"#),
            (r#"{"input": "cut"#, "cut"),
            (r#"{"input": "cut\"#, "cut\\"),
            (r#"{"input": "cut\ud83d"#, "cut\\ud83d"),
            (r#"{"input": "\u00e9\ud83d\ude00"}"#, "é😀"),
            (r#"{"input": "\q\u12x\ude00\ud83d!\ud83d\u0041"}"#, r"\q\u12x\ude00\ud83d!\ud83d\u0041"),
            (r#"{"input": "\é\u"}"#, "\\é\\u"),
        ] {
            assert_eq!(CustomInput::of(arguments), text, "{arguments}");
        }
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            tail in r#"([a"{}:é\n ]|\\[nu"\\q]|\\u(d83d|de00|0041|12)){0,12}"#,
            cuts in proptest::collection::vec(0usize..60, 0..8),
        ) {
            let arguments = format!("{{\"input\": \"{tail}");
            let (mut input, mut text, mut start) = (CustomInput::default(), String::new(), 0);
            let mut cuts = cuts;
            cuts.sort_unstable();
            cuts.push(arguments.len());
            for cut in cuts.into_iter().filter(|&cut| arguments.is_char_boundary(cut)) {
                input.push(&arguments[start..cut.max(start)], &mut text);
                start = cut.max(start);
            }
            input.finish(&mut text);
            prop_assert_eq!(text, CustomInput::of(&arguments));
        }
    }
}
