//! One tag of tool markup: what stands between a mark and `>`.
//!
//! Owns the text of a tag that is not complete yet, at most [`TAG_LIMIT`] bytes, and the rules which words and attributes
//! make one. Knows nothing of where tags may stand. Constant cost per byte; attributes are read once, when the tag ends.

use super::run::Run;

/// Most bytes of one tag.
const TAG_LIMIT: usize = 1 << 16;
/// Most bytes of a tag without attributes: longer words are prose.
const WORD_LIMIT: usize = 40;

/// What a tag turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// A block of calls.
    Block,
    /// One call.
    Invoke,
    /// A parameter of a call.
    Parameter,
    /// Some other word.
    Other,
}

/// What a byte did to a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The tag may go on.
    Open,
    /// The tag is complete.
    Complete,
    /// This is no tag.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Word,
    Attributes,
    Quoted(u8),
}

/// A tag being read.
#[derive(Debug)]
pub(super) struct Tag {
    /// Whether the mark was a closing one.
    pub(super) is_close: bool,
    /// The tag as it stands in the output, mark included.
    pub(super) raw: Run,
    text: Vec<u8>,
    part: Part,
}

impl Tag {
    /// The tag that begins with a mark.
    pub(super) fn new(is_close: bool, mark: &[u8], at: u64) -> Self {
        let mut raw = Run::default();
        raw.push(mark, at);
        Self { is_close, raw, text: Vec::new(), part: Part::Word }
    }

    /// Takes one byte.
    pub(super) fn push(&mut self, byte: u8, at: u64) -> Progress {
        self.raw.push(&[byte], at);
        let progress = match self.part {
            Part::Word => self.in_word(byte),
            Part::Attributes => self.in_attributes(byte),
            Part::Quoted(quote) => {
                if byte == quote {
                    self.part = Part::Attributes;
                }
                Progress::Open
            }
        };
        if progress != Progress::Complete {
            self.text.push(byte);
        }
        let limit = if self.part == Part::Word { WORD_LIMIT } else { TAG_LIMIT };
        if self.text.len() > limit { Progress::Refused } else { progress }
    }

    /// Whether a mark that comes next is text of this tag: the name of a parameter may contain anything but `"`.
    pub(super) fn takes_marks(&self) -> bool {
        self.part == Part::Quoted(b'"') && self.word() == Word::Parameter
    }

    /// Takes the text of a mark.
    pub(super) fn push_mark(&mut self, mark: &[u8], at: u64) {
        self.raw.push(mark, at);
        self.text.extend_from_slice(mark);
    }

    fn in_word(&mut self, byte: u8) -> Progress {
        match byte {
            b'>' => Progress::Complete,
            // The end of a line ends a tag that lacks its bracket.
            b'\n' if !self.is_close && self.word() == Word::Block => Progress::Complete,
            b' ' | b'\t' | b'\n' | b'\r' if !self.is_close && self.has_attributes() => {
                self.part = Part::Attributes;
                Progress::Open
            }
            b'/' if !self.is_close && self.word() == Word::Invoke => Progress::Open,
            b' ' | b'_' | b'-' => Progress::Open,
            _ if byte.is_ascii_alphanumeric() => Progress::Open,
            _ => Progress::Refused,
        }
    }

    fn in_attributes(&mut self, byte: u8) -> Progress {
        match byte {
            b'>' => return Progress::Complete,
            b'"' | b'\'' if self.text.last() == Some(&b'=') => self.part = Part::Quoted(byte),
            b'"' | b'\'' | b'=' | b'/' | b'_' | b'-' | b'.' | b':' => {}
            _ if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() => {}
            _ => return Progress::Refused,
        }
        Progress::Open
    }

    fn has_attributes(&self) -> bool {
        matches!(self.word(), Word::Invoke | Word::Parameter)
    }

    /// What the tag is, by its first word; both spellings of a version may stand with or without the space.
    pub(super) fn word(&self) -> Word {
        let text = self.text.trim_ascii_start();
        let end = text.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/').unwrap_or(text.len());
        match (&text[..end], text[end..].trim_ascii_start()) {
            (b"invoke", _) => Word::Invoke,
            (b"parameter", _) => Word::Parameter,
            (b"tool_calls" | b"calls", b"") => Word::Block,
            _ => Word::Other,
        }
    }

    /// Whether the word of a block is spelled exactly as one version spells it.
    pub(super) fn is_exact_block(&self) -> bool {
        matches!(self.text.as_slice(), b"tool_calls" | b" calls") && self.raw.bytes().ends_with(b">")
    }

    /// Whether the text so far may become the tag of a block, call or parameter.
    pub(super) fn may_be_known(&self) -> bool {
        let text = self.text.strip_prefix(b" ").unwrap_or(&self.text);
        let known: [&[u8]; 4] = [b"tool_calls", b"calls", b"invoke", b"parameter"];
        self.word() != Word::Other || known.iter().any(|word| word.starts_with(text))
    }

    /// Whether the text so far may become the tag of a parameter.
    pub(super) fn may_be_parameter(&self) -> bool {
        let text = self.text.strip_prefix(b" ").unwrap_or(&self.text);
        self.word() == Word::Parameter || b"parameter".starts_with(text)
    }

    /// Whether a call ends with its own start tag.
    pub(super) fn is_self_closing(&self) -> bool {
        self.text.trim_ascii_end().ends_with(b"/")
    }

    /// The value of an attribute, and whether it stands in quotes. An unfinished value is not given.
    pub(super) fn attribute(&self, name: &str) -> Option<(String, bool)> {
        let mut rest = self.text.as_slice();
        while let Some(equals) = rest.iter().position(|&byte| byte == b'=') {
            let (before, after) = (&rest[..equals], &rest[equals + 1..]);
            let key = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
            let (value, tail, quoted) = attribute_value(after)?;
            if key == name.as_bytes() {
                return Some((String::from_utf8_lossy(value).into_owned(), quoted));
            }
            rest = tail;
        }
        None
    }
}

/// Splits the value off the text after an equals sign; `None` if its quote does not end.
fn attribute_value(text: &[u8]) -> Option<(&[u8], &[u8], bool)> {
    if let Some((&quote, body)) = text.split_first()
        && matches!(quote, b'"' | b'\'')
    {
        let end = body.iter().position(|&byte| byte == quote)?;
        return Some((&body[..end], &body[end + 1..], true));
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    Some((&text[..end], &text[end..], false))
}
