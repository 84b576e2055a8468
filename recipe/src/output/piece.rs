//! Tokens of an output, as far as the parser cares: bytes, or what an added token is.

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
