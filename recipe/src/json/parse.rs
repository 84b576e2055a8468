//! Strict JSON text → [`Value`], one pass, borrowing where a string has no escapes.

use std::borrow::Cow;

use super::{Number, ObjectBuilder, Value};
use crate::error::{Error, ErrorCode};

/// Most levels of arrays and objects that may lie inside each other.
pub const MAX_DEPTH: usize = 127;

/// Room that a text with escapes gets at least.
const SHORT_TEXT: usize = 64;

/// Reads one JSON text: UTF-8 without a byte order mark, white space around it allowed, nothing else.
///
/// Refused beyond the grammar: more than [`MAX_DEPTH`] levels, escapes of lone surrogates, numbers too large for f64.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| invalid("the text is not UTF-8", error.valid_up_to()))?;
    let mut parser = Parser { text, position: 0, depth: 0 };
    let value = parser.value()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.fault("text follows the end of the value")),
    }
}

fn invalid(detail: &str, offset: usize) -> Error {
    Error::new(ErrorCode::InvalidJson, "", &[("detail", &detail), ("offset", &offset)])
}

/// Number of bytes before the first quote, backslash or control character. Eight at a time: texts are most of a request.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Sets the high bit of the lowest byte below `limit` (at most 128), and of no byte before it.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = quote | backslash | below(word, 0x20);
        if found != 0 {
            return place * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let ends = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    bytes.len() - rest.len() + rest.iter().position(ends).unwrap_or(rest.len())
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn fault(&self, detail: &str) -> Error {
        invalid(detail, self.position)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.position += 1;
        }
    }

    /// Takes `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Value<'a>, Error> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => Err(self.fault("a value was expected")),
            None => Err(self.fault("the text ends where a value was expected")),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, Error> {
        if self.text.as_bytes()[self.position..].starts_with(word.as_bytes()) {
            self.position += word.len();
            return Ok(value);
        }
        Err(self.fault("a value was expected"))
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value<'a>, Error>) -> Result<Value<'a>, Error> {
        if self.depth == MAX_DEPTH {
            let values: [(&str, &dyn std::fmt::Display); 2] = [("limit", &MAX_DEPTH), ("offset", &self.position)];
            return Err(Error::new(ErrorCode::NestingTooDeep, "", &values));
        }
        self.depth += 1;
        self.position += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value<'a>, Error> {
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.fault("`,` or `]` was expected"));
            }
        }
    }

    fn object(&mut self) -> Result<Value<'a>, Error> {
        let mut members = ObjectBuilder::default();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Value::Object(members.finish()));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.fault("a key in double quotes was expected"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.fault("`:` was expected"));
            }
            members.push(key, self.value()?);
            self.skip_space();
            if self.take(b'}') {
                return Ok(Value::Object(members.finish()));
            }
            if !self.take(b',') {
                return Err(self.fault("`,` or `}` was expected"));
            }
        }
    }

    fn number(&mut self) -> Result<Value<'a>, Error> {
        let start = self.position;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let literal = &self.text[start..self.position];
        if literal.parse::<f64>().is_ok_and(f64::is_finite) {
            return Ok(Value::Number(Number(Cow::Borrowed(literal))));
        }
        Err(invalid("the number is too large", start))
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        if self.position == start { Err(self.fault("a digit was expected")) } else { Ok(()) }
    }

    /// Reads a string whose opening quote comes next.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.position += 1;
        let plain = self.plain_run()?;
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = String::with_capacity(plain.len() * 2 + SHORT_TEXT);
        text.push_str(plain);
        loop {
            self.position += 1;
            text.push(self.escape()?);
            text.push_str(self.plain_run()?);
            if self.take(b'"') {
                return Ok(Cow::Owned(text));
            }
        }
    }

    /// Characters up to the next quote or backslash.
    fn plain_run(&mut self) -> Result<&'a str, Error> {
        let start = self.position;
        self.position += plain_length(&self.text.as_bytes()[start..]);
        match self.peek() {
            Some(b'"' | b'\\') => Ok(&self.text[start..self.position]),
            Some(_) => Err(self.fault("a control character must be escaped in a string")),
            None => Err(self.fault("the text ends inside a string")),
        }
    }

    /// The character of an escape whose backslash was taken.
    fn escape(&mut self) -> Result<char, Error> {
        let letter = self.peek();
        let character = match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.fault("the escape is unknown")),
        };
        self.position += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, Error> {
        let start = self.position - 1;
        self.position += 1;
        let first = self.four_digits()?;
        let code = match first {
            0xD800..=0xDBFF if self.text.as_bytes()[self.position..].starts_with(b"\\u") => {
                self.position += 2;
                match self.four_digits()? {
                    second @ 0xDC00..=0xDFFF => 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                    _ => first,
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| invalid("the escape is a lone surrogate", start))
    }

    fn four_digits(&mut self) -> Result<u32, Error> {
        let digits = self.text.as_bytes().get(self.position..self.position + 4);
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
        });
        self.position += 4;
        code.ok_or_else(|| invalid("four hexadecimal digits were expected", self.position - 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refusals_say_where() {
        for (text, detail) in [
            ("", "ends where a value"),
            ("[1,]", "a value was expected at byte 3"),
            ("{\"a\" 1}", "`:` was expected at byte 5"),
            ("01", "follows the end"),
            ("1.", "a digit"),
            ("1e999", "too large"),
            ("\"\\ud800\"", "lone surrogate"),
            ("\"\\ud800\\u0041\"", "lone surrogate"),
            ("\"\\u12", "four hexadecimal"),
            ("\"a\nb\"", "must be escaped"),
            ("\u{feff}1", "a value was expected at byte 0"),
            ("tru", "a value was expected"),
            ("'a'", "a value was expected"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(detail), "{text:?}: {error}");
        }
        assert!(parse(b"\"\xff\"").unwrap_err().message().contains("not UTF-8"));
    }

    #[test]
    fn depth_is_limited_on_both_sides_of_the_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().kind(), Some(ErrorCode::NestingTooDeep));
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }

    fn to_reference(value: &Value<'_>) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(number) => serde_json::from_str(number.literal()).unwrap(),
            Value::String(text) => text.as_ref().into(),
            Value::Array(items) => items.iter().map(to_reference).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| (key.to_owned(), to_reference(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    proptest! {
        #[test]
        fn a_plain_run_ends_where_a_byte_by_byte_search_ends_it(bytes in "[a-zé世\"\\\\\u{0}\u{1f} !\u{7f}]{0,40}") {
            let ends = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
            let wanted = bytes.bytes().position(ends).unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(bytes.as_bytes()), wanted);
        }

        #[test]
        fn agrees_with_serde_json(text in r#"([\[\]{},:"\\0-9eE.+\-a-fu tfn\n]|"[a-c\\/u]{0,4}"|true|null|"k":|\\ud83d\\ude00){0,24}"#) {
            match (parse(text.as_bytes()), serde_json::from_str::<serde_json::Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(to_reference(&ours), theirs),
                (Err(_), Err(_)) => {}
                (ours, theirs) => prop_assert!(false, "{:?}: {:?} against {:?}", text, ours, theirs),
            }
        }
    }
}
