//! Strict JSON text → [`Value`], one pass, borrowing where a string has no escapes.

use std::borrow::Cow;

use super::strings::{BLOCK, Room, block_at, marks, plain_length};
use super::unescape::unescape_blocks;
use super::{Number, Object, ObjectBuilder, Value};
use crate::error::{Error, ErrorCode};

/// Most levels of arrays and objects that may lie inside each other.
pub const MAX_DEPTH: usize = 127;

/// Longest digits without an exponent that surely fit into an f64.
const SHORT_NUMBER: usize = 300;

/// What the letters of short escapes stand for; 0 where there is none.
const SHORT: [u8; 256] = {
    let mut short = [0; 256];
    let pairs = [
        (b'"', b'"'),
        (b'\\', b'\\'),
        (b'/', b'/'),
        (b'b', 8),
        (b'f', 12),
        (b'n', b'\n'),
        (b'r', b'\r'),
        (b't', b'\t'),
    ];
    let mut place = 0;
    while place < pairs.len() {
        short[pairs[place].0 as usize] = pairs[place].1;
        place += 1;
    }
    short
};

/// Reads one JSON text: UTF-8 without a byte order mark, white space around it allowed, nothing else.
///
/// Refused beyond the grammar: more than [`MAX_DEPTH`] levels, escapes of lone surrogates, numbers too large for f64.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, Error> {
    read(bytes, Room::Own(Vec::new()))
}

/// Reads one JSON text as [`parse`] does. Strings with escapes borrow as well: from `room`, which is made at least as
/// large as the text if there are any. What it held is lost.
pub fn parse_into<'a>(bytes: &'a [u8], room: &'a mut Vec<u8>) -> Result<Value<'a>, Error> {
    read(bytes, Room::Lent(Some(room)))
}

fn read<'a>(bytes: &'a [u8], room: Room<'a>) -> Result<Value<'a>, Error> {
    let mut parser = Parser { bytes, position: 0, depth: 0, room };
    let mut value = Value::Null;
    let whole = parser.value(&mut value).and_then(|()| {
        parser.skip_space();
        match parser.peek() {
            None => Ok(()),
            Some(_) => Err(parser.fault("text follows the end of the value")),
        }
    });
    // Strings were checked one by one, and elsewhere only ASCII is read. What is not UTF-8 is said before anything else.
    whole.map(|()| value).map_err(|error| match std::str::from_utf8(bytes) {
        Err(fault) => invalid("the text is not UTF-8", fault.valid_up_to()),
        Ok(_) => error,
    })
}

fn invalid(detail: &str, offset: usize) -> Error {
    Error::new(ErrorCode::InvalidJson, "", &[("detail", &detail), ("offset", &offset)])
}

struct Parser<'a> {
    bytes: &'a [u8],
    position: usize,
    depth: usize,
    room: Room<'a>,
}

impl<'a> Parser<'a> {
    fn fault(&self, detail: &str) -> Error {
        invalid(detail, self.position)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
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

    /// Reads a value to where it is to be: a processor waits for what it has just written in parts and is to move as a whole.
    fn value(&mut self, out: &mut Value<'a>) -> Result<(), Error> {
        self.skip_space();
        *out = match self.peek() {
            Some(b'"') => Value::String(self.string()?),
            Some(b'{') => Value::Object(self.nested(Self::object)?),
            Some(b'[') => Value::Array(self.nested(Self::array)?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            Some(_) => return Err(self.fault("a value was expected")),
            None => return Err(self.fault("the text ends where a value was expected")),
        };
        Ok(())
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, Error> {
        if self.bytes[self.position..].starts_with(word.as_bytes()) {
            self.position += word.len();
            return Ok(value);
        }
        Err(self.fault("a value was expected"))
    }

    fn nested<T>(&mut self, read: fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
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

    fn array(&mut self) -> Result<Vec<Value<'a>>, Error> {
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            self.value(items.push_mut(Value::Null))?;
            self.skip_space();
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.fault("`,` or `]` was expected"));
            }
        }
    }

    fn object(&mut self) -> Result<Object<'a>, Error> {
        let mut members = ObjectBuilder::default();
        self.skip_space();
        if self.take(b'}') {
            return Ok(members.finish());
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
            self.value(members.member(key))?;
            self.skip_space();
            if self.take(b'}') {
                return Ok(members.finish());
            }
            if !self.take(b',') {
                return Err(self.fault("`,` or `}` was expected"));
            }
        }
    }

    fn number(&mut self) -> Result<Number<'a>, Error> {
        let start = self.position;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        let exponent = self.peek().filter(|byte| matches!(byte, b'e' | b'E'));
        if exponent.is_some() {
            self.position += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let literal = self.text(&self.bytes[start..self.position])?;
        let is_short = exponent.is_none() && literal.len() < SHORT_NUMBER;
        if is_short || literal.parse::<f64>().is_ok_and(f64::is_finite) {
            return Ok(Number(Cow::Borrowed(literal)));
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
    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        if let Some(text) = self.plain() {
            return Ok(Cow::Borrowed(text));
        }
        match &mut self.room {
            Room::Own(room) => {
                let room = std::mem::take(room);
                self.escaped_owned(room).map(Cow::Owned)
            }
            Room::Lent(_) | Room::Left(_) => self.escaped().map(Cow::Borrowed),
        }
    }

    /// Takes a string without escapes whose opening quote comes next. Any other leaves the position behind that quote.
    fn plain(&mut self) -> Option<&'a str> {
        self.position += 1;
        let rest = &self.bytes[self.position..];
        let length = plain_length(rest);
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        let text = std::str::from_utf8(&rest[..length]).ok()?;
        self.position += length + 1;
        Some(text)
    }

    /// Reads what follows the opening quote of a string into the room that there is.
    fn escaped(&mut self) -> Result<&'a str, Error> {
        let most = self.most();
        let room = match &mut self.room {
            Room::Left(room) => std::mem::take(room),
            Room::Lent(room) => room.take().map_or(&mut [][..], |room| {
                if room.len() < most {
                    // The next turn of a conversation finds it large enough.
                    *room = vec![0; most + most / 2];
                }
                room
            }),
            Room::Own(_) => &mut [],
        };
        let length = self.unescape(room)?;
        let (text, left) = room.split_at_mut(length);
        // A byte of no text, so that addresses tell texts apart.
        self.room = Room::Left(&mut left[1..]);
        self.text(text)
    }

    /// Reads it into `room`, which is kept, and gives a string of its own.
    fn escaped_owned(&mut self, mut room: Vec<u8>) -> Result<String, Error> {
        if room.is_empty() {
            room.resize(self.most(), 0);
        }
        let length = self.unescape(&mut room)?;
        let text = self.text(&room[..length])?.to_owned();
        self.room = Room::Own(room);
        Ok(text)
    }

    /// Most bytes that are written of what is left: an escape is longer than what it stands for, and no more than a block is
    /// written behind it.
    fn most(&self) -> usize {
        self.bytes.len() - self.position + BLOCK
    }

    /// Bytes of a string or a number as text.
    fn text<'t>(&self, bytes: &'t [u8]) -> Result<&'t str, Error> {
        // The offset is that of the whole text, which is found where this error ends up.
        std::str::from_utf8(bytes).map_err(|_| self.fault("the text is not UTF-8"))
    }

    /// Writes the rest of a string to `room`, and gives the number of its bytes. Whole blocks are copied, of which what is
    /// behind an escape is written again.
    fn unescape(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        let (mut length, mut end) = (0, [0; BLOCK]);
        loop {
            let (read, written) = unescape_blocks(&self.bytes[self.position..], &mut room[length..]);
            self.position += read;
            length += written;
            let block = block_at(self.bytes, self.position, &mut end);
            room[length..length + BLOCK].copy_from_slice(block);
            let plain = marks(block).trailing_zeros() as usize;
            self.position += plain;
            length += plain;
            if plain == BLOCK {
                continue;
            }
            if self.take(b'"') {
                return Ok(length);
            }
            let is_escape = self.peek() == Some(b'\\');
            let letter = self.bytes.get(self.position + 1).filter(|_| is_escape);
            match letter.map_or(0, |letter| SHORT[usize::from(*letter)]) {
                // Many clients write whole texts so.
                0 => loop {
                    length += self.long_escape()?.encode_utf8(&mut room[length..]).len();
                    if !self.bytes[self.position..].starts_with(b"\\u") {
                        break;
                    }
                },
                byte => {
                    room[length] = byte;
                    length += 1;
                    self.position += 2;
                }
            }
        }
    }

    /// The character of an escape that is not short.
    fn long_escape(&mut self) -> Result<char, Error> {
        let start = self.position;
        if !self.take(b'\\') {
            return Err(match self.peek() {
                Some(_) => self.fault("a control character must be escaped in a string"),
                None => self.fault("the text ends inside a string"),
            });
        }
        if !self.take(b'u') {
            return Err(self.fault("the escape is unknown"));
        }
        let first = self.four_digits()?;
        let code = match first {
            0xD800..=0xDBFF if self.bytes[self.position..].starts_with(b"\\u") => {
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
        let digits = self.bytes.get(self.position..self.position + 4);
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

    #[test]
    fn escapes_are_read_wherever_they_stand() {
        let escapes = [
            ("\\n", "\n"),
            ("\\\\", "\\"),
            ("\\\"", "\""),
            ("\\u00e9", "é"),
            ("\\ud83d\\ude00", "😀"),
            ("\\/\\b", "/\u{8}"),
        ];
        for (written, read) in escapes {
            for (before, after) in
                (0..5 * BLOCK).flat_map(|before| [0, 1, BLOCK - 1, 3 * BLOCK].map(|after| (before, after)))
            {
                let [before, after] = [before, after].map(|count| "~".repeat(count));
                let text = format!("[\"{before}{written}{after}\",\"{written}{written}\"]");
                let wanted = [format!("{before}{read}{after}"), format!("{read}{read}")].map(Value::from);
                assert_eq!(parse(text.as_bytes()).unwrap(), Value::Array(wanted.to_vec()), "{text}");
                assert_eq!(
                    parse_into(text.as_bytes(), &mut Vec::new()).unwrap(),
                    Value::Array(wanted.to_vec()),
                    "{text}"
                );
                for end in 0..text.len() {
                    assert!(parse(&text.as_bytes()[..end]).is_err(), "{text} up to {end}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_utf8_is_told_before_other_faults() {
        for bytes in [
            &b"\"\xe4\xb8\\n\xad\""[..],
            b"\"\xe4\xb8\\u00e9\"",
            b"{\"\\t\xff\":1}",
            b"[1,\xff]",
            b"[1,]\"\xc3(\"",
            b"\"\xe4\xb8",
        ] {
            let valid = std::str::from_utf8(bytes).unwrap_err().valid_up_to();
            let error = parse(bytes).unwrap_err();
            assert!(
                error.message().contains("not UTF-8") && error.message().contains(&format!("byte {valid}")),
                "{error}"
            );
            assert_eq!(parse_into(bytes, &mut Vec::new()).unwrap_err(), error);
        }
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
        fn agrees_with_serde_json(text in r#"([\[\]{},:"\\0-9eE.+\-a-fu tfn\n]|"[a-c\\/u]{0,4}"|true|null|"k":|\\ud83d\\ude00){0,24}"#) {
            match (parse(text.as_bytes()), serde_json::from_str::<serde_json::Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(to_reference(&ours), theirs),
                (Err(_), Err(_)) => {}
                (ours, theirs) => prop_assert!(false, "{:?}: {:?} against {:?}", text, ours, theirs),
            }
        }

        #[test]
        fn strings_agree_with_serde_json(
            parts in prop::collection::vec(r#"[a-zé世\u{1f}"]{0,40}|\\["\\/bfnrtux]|\\u(00e9|4e16|d83d|de00|d83d\\ude00)"#, 0..24),
        ) {
            let text = format!("{{\"{}\":1,\"k\":\"{}\"}}", parts.first().map_or("", String::as_str), parts.concat());
            let (ours, theirs) = (parse(text.as_bytes()), serde_json::from_str::<serde_json::Value>(&text));
            prop_assert_eq!(ours.as_ref().ok().map(to_reference), theirs.ok());
            let mut room = Vec::new();
            prop_assert_eq!(ours, parse_into(text.as_bytes(), &mut room));
        }
    }
}
