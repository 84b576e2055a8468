//! Token → bytes of the prompt, also where a record restored ids that spell other bytes than the prompt prints.

use std::ops::Range;

use crate::error::{Error, ErrorCode};
use crate::history::{Replay, Step, steps};
use crate::prompt::{Prompt, Segment};
use crate::tokenizer::{Piece, Tokenizer};

use super::places::Place;

/// A token of a prompt.
pub(super) struct Token {
    /// What it stands for.
    pub(super) source: Source,
    /// The byte of the prompt after it. Bytes that a record leaves out count to the token after them.
    pub(super) end: usize,
}

/// What a token, or a byte of one, stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// These bytes of the prompt, at least one.
    Bytes(Range<usize>),
    /// Nothing, but it stands before this byte of the prompt.
    Before(usize),
}

/// Stretches of a prompt and their owners: a stretch ends where it says, and begins where the one before ends.
pub(super) struct Owned<'o>(pub(super) &'o [(usize, Option<Place>)]);

impl Owned<'_> {
    /// The owner of a token: of several, the first that is a field; of what stands for nothing, the one that has what is
    /// around it.
    pub(super) fn of(&self, source: &Source) -> Option<Place> {
        match source {
            Source::Bytes(bytes) => {
                let mut from = bytes.start;
                let touched = self.0[self.first(from)..].iter().take_while(|(end, _)| {
                    let touches = from < bytes.end;
                    from = *end;
                    touches
                });
                touched.into_iter().find_map(|(_, owner)| *owner)
            }
            Source::Before(byte) => {
                let at = |byte: usize| self.0.get(self.first(byte)).and_then(|(_, owner)| *owner);
                at(byte.checked_sub(1)?).filter(|owner| at(*byte) == Some(*owner))
            }
        }
    }

    fn first(&self, byte: usize) -> usize {
        self.0.partition_point(|(end, _)| *end <= byte)
    }
}

/// The tokens of a prompt.
pub(super) fn tokens(
    ids: &[u32],
    prompt: &Prompt<'_>,
    replay: &Replay,
    tokenizer: &Tokenizer,
) -> Result<Vec<Token>, Error> {
    let (mut tokens, mut rest, mut position) = (Vec::with_capacity(ids.len()), ids, 0);
    // Where text of a turn was left out that its ids may bring later.
    let mut left_out = None;
    for segment in prompt.segments() {
        let (Segment::Text(text) | Segment::Special(_, text)) = segment;
        let own = if matches!(segment, Segment::Text(_)) { replay.at(position) } else { None };
        if let Some(own) = own {
            let (here, later) = rest.split_at(own.len());
            aligned(here, text.as_bytes(), position, &mut left_out, tokenizer, &mut tokens)?;
            rest = later;
            position += text.len();
            continue;
        }
        let end = position + text.len();
        while position < end
            && let Some((id, later)) = rest.split_first()
        {
            let start = position;
            position += bytes(*id, tokenizer)?.len();
            tokens.push(Token { source: Source::Bytes(start..position), end: position });
            rest = later;
        }
    }
    Ok(tokens)
}

/// Appends the tokens that stand for `text`, which is at `position`, and spell it otherwise.
fn aligned(
    ids: &[u32],
    text: &[u8],
    position: usize,
    left_out: &mut Option<Range<usize>>,
    tokenizer: &Tokenizer,
    tokens: &mut Vec<Token>,
) -> Result<(), Error> {
    let pieces = ids.iter().map(|id| bytes(*id, tokenizer)).collect::<Result<Vec<_>, _>>()?;
    let own = pieces.concat();
    let sources = sources(text, &own, position, left_out);
    let (mut at, mut end) = (0, position);
    for piece in pieces {
        let here = &sources[at..at + piece.len()];
        at += piece.len();
        let ranges = here.iter().filter_map(|source| match source {
            Source::Bytes(range) => Some(range.clone()),
            Source::Before(_) => None,
        });
        let range = ranges.reduce(|left, right| left.start.min(right.start)..left.end.max(right.end));
        let within = range.clone().filter(|range| range.start >= position);
        end = within.map_or(end, |range| end.max(range.end));
        let source = range.map(Source::Bytes).or_else(|| here.first().cloned()).unwrap_or(Source::Before(end));
        tokens.push(Token { source, end });
    }
    if let Some(last) = tokens.last_mut().filter(|_| !ids.is_empty()) {
        last.end = position + text.len();
    }
    Ok(())
}

/// What each byte of `own` stands for in `text`.
fn sources(text: &[u8], own: &[u8], position: usize, left_out: &mut Option<Range<usize>>) -> Vec<Source> {
    let mut sources = Vec::with_capacity(own.len());
    let mut at = 0;
    let same = |at: usize| Source::Bytes(position + at..position + at + 1);
    for Step { kept, replaced, written } in steps(text, own) {
        sources.extend((at..at + kept).map(same));
        at += kept;
        let (range, new) = (position + at..position + at + replaced, &own[sources.len()..][..written]);
        let is_said = |bytes: &[u8]| !bytes.trim_ascii().is_empty();
        if written == 0 && is_said(&text[at..at + replaced]) {
            *left_out = Some(range.clone());
        }
        let source = match left_out {
            _ if replaced > 0 => Source::Bytes(range),
            Some(range) if is_said(new) => Source::Bytes(range.clone()),
            _ => Source::Before(range.start),
        };
        sources.extend(std::iter::repeat_n(source, written));
        at += replaced;
    }
    sources.extend((at..text.len()).map(same));
    sources
}

fn bytes(id: u32, tokenizer: &Tokenizer) -> Result<&[u8], Error> {
    match tokenizer.piece(id) {
        Some(Piece::Text(bytes)) => Ok(bytes),
        Some(Piece::Special(_, spelling)) => Ok(spelling.as_bytes()),
        None => Err(Error::new(ErrorCode::UnknownToken, "", &[("found", &id)])),
    }
}
