//! Tokens of an output, as far as the parser cares: bytes, or what an added token is.

use crate::special::{Special, Spellings};

/// A token of the output, as far as the parser cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPiece<'a> {
    /// An ordinary token's bytes, which may begin or end inside a character.
    Bytes(&'a [u8]),
    /// An added token and its spelling.
    Special(OutputSpecial, &'a str),
}

/// What an added token is to the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSpecial {
    /// The start of thinking.
    ThinkingStart,
    /// The end of thinking.
    ThinkingEnd,
    /// The mark inside tool markup.
    Dsml,
    /// A token that is never shown: the end of a turn, roles, padding.
    Hidden,
    /// A token that is content and shown by its spelling: grounding marks.
    Visible,
}

impl OutputSpecial {
    /// What an added token of this spelling is. Of those without meaning, only grounding marks are shown.
    pub fn of(spelling: &str, spellings: &Spellings) -> Self {
        let is = |special: &Special| spellings.of(*special) == spelling;
        match spelling {
            _ if is(&Special::Dsml) => OutputSpecial::Dsml,
            _ if is(&Special::ThinkingStart) => OutputSpecial::ThinkingStart,
            _ if is(&Special::ThinkingEnd) => OutputSpecial::ThinkingEnd,
            _ if Special::GROUNDING.iter().any(is) => OutputSpecial::Visible,
            _ => OutputSpecial::Hidden,
        }
    }
}
