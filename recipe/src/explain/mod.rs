//! Which field of a request does each token of its prompt come from? And where do two requests part?
//!
//! The prompt is written as for `encode`, with a trace of where its text was copied from; everything here reads that trace.

mod declared;
mod difference;
mod owners;
mod places;
mod tokens;

use std::ops::Range;

use crate::codec::{Options, prompt_ids};
use crate::error::Error;
use crate::history::Replay;
use crate::json::{Value, parse};
use crate::model::Version;
use crate::prompt::render_traced;
use crate::protocol::{Lookup, Protocol};
use owners::Owners;
use places::{Place, Places};
use tokens::{Owned, Token};

pub use difference::{Difference, Part, Turn, difference, turns};

/// A prompt and where its tokens come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The prompt's ids.
    pub token_ids: Vec<u32>,
    /// The prompt.
    pub prompt: String,
    /// Format of the prompt.
    pub version: Version,
    /// The tokens, field by field: without gaps, and no two neighbours of the same field.
    pub spans: Vec<Span>,
    /// Byte of the prompt at which the text of each token begins, and the prompt's length.
    starts: Vec<usize>,
}

/// Tokens in a row that come from one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The tokens.
    pub tokens: Range<usize>,
    /// JSON path of the field, in the client's own body; `None` for the format itself.
    pub path: Option<String>,
}

impl Explanation {
    /// Text of some tokens. A character that several tokens share belongs to the first of them.
    pub fn text(&self, tokens: Range<usize>) -> &str {
        let place = |token: usize| self.starts.get(token).copied().unwrap_or(self.prompt.len());
        self.prompt.get(place(tokens.start)..place(tokens.end)).unwrap_or_default()
    }

    /// The span of a token.
    pub fn span(&self, token: usize) -> Option<&Span> {
        self.spans.get(self.spans.partition_point(|span| span.tokens.end <= token))
    }
}

/// Tells which field each token of a request's prompt comes from.
pub fn explain(body: &[u8], protocol: Protocol, options: &Options) -> Result<Explanation, Error> {
    explain_value(&parse(body)?, protocol, options)
}

/// Tells which field each token of a prompt comes from, for a request body that was already parsed.
pub fn explain_value(body: &Value<'_>, protocol: Protocol, options: &Options) -> Result<Explanation, Error> {
    explain_continuing(body, protocol, options, None)
}

/// Tells which field each token of a prompt comes from, for a request body that was already parsed. `lookup` finds the
/// responses and items that it goes on from; their text comes from the field that names them.
pub fn explain_continuing(
    body: &Value<'_>,
    protocol: Protocol,
    options: &Options,
    lookup: Option<&dyn Lookup>,
) -> Result<Explanation, Error> {
    let stored = protocol.find_stored(body, lookup)?;
    let prepared = protocol.read(body, &stored, &options.read)?;
    let (version, tokenizer) = (prepared.version, options.tokenizer(prepared.version));
    let spellings = options.spellings(version);
    let (prompt, turns, trace) = render_traced(&prepared.conversation, version, &spellings);
    let seal = options.seal(version, &tokenizer);
    let replay = seal.map(|seal| Replay::new(&prompt, &turns, &seal, &spellings, &tokenizer)).unwrap_or_default();
    let token_ids = prompt_ids(&prompt, &replay, &spellings, &tokenizer)?;
    let places = Places::new(body, &stored);
    let stretches = Owners::new(&places, &trace, protocol).stretches();
    let tokens = tokens::tokens(&token_ids, &prompt, &replay, &tokenizer)?;
    let spans = spans(&tokens, &Owned(&stretches), &places);
    let ends = tokens.iter().map(|token| token.end);
    let starts = [0].into_iter().chain(ends).map(|byte| prompt.text.ceil_char_boundary(byte)).collect();
    Ok(Explanation { token_ids, prompt: prompt.text, version, spans, starts })
}

/// Joins tokens of the same owner.
fn spans(tokens: &[Token], owners: &Owned<'_>, places: &Places<'_>) -> Vec<Span> {
    let mut joined: Vec<(Range<usize>, Option<Place>)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let owner = owners.of(&token.source);
        match joined.last_mut() {
            Some((tokens, last)) if *last == owner => tokens.end = index + 1,
            _ => joined.push((index..index + 1, owner)),
        }
    }
    joined.into_iter().map(|(tokens, owner)| Span { tokens, path: owner.map(|place| places.path(place)) }).collect()
}
