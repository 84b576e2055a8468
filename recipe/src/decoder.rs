//! Model output → one protocol's answer: the facade over the output parser and the protocol's writer.
//!
//! Owns one answer: a parser for each choice, the writer, and the typed events of the latest call. Pure: ids and times are
//! arguments. Costs what the parser and the writer cost; nothing per token grows with the length so far.

use std::sync::Arc;

use crate::error::{Error, ErrorCode};
use crate::event::{BackendFinish, Event, TokenCounts, TokenLogprob};
use crate::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions};
use crate::protocol::{AnswerConfig, AnswerWriter, Fold, Usage};
use crate::special::{Special, Spellings};
use crate::tokenizer::{Piece, Tokenizer};

/// Usual length of a frame, so that the output seldom grows while it is written.
const FRAME: usize = 256;

/// What a decoder must know before the first token.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// How the output is read.
    pub parsing: ParsingOptions,
    /// How the answer is written.
    pub answer: AnswerConfig,
    /// How the control tokens are spelled.
    pub spellings: Spellings,
}

/// Decodes one answer. Every call returns the bytes that are ready to be sent.
#[derive(Debug)]
pub struct Decoder {
    parsers: Vec<OutputParser>,
    answer: AnswerWriter,
    tokenizer: Option<Arc<Tokenizer>>,
    spellings: Spellings,
    events: Vec<Event>,
    /// Whether the answer begins in reasoning, so that its tokens are worth reporting even if there are none.
    reasons: bool,
}

impl Decoder {
    /// A decoder for one answer. Without a tokenizer it takes only text.
    pub fn new(config: DecoderConfig, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        let DecoderConfig { parsing, mut answer, spellings } = config;
        if !begins_after_mark(&parsing) {
            answer.seal = None;
        }
        let reasons =
            matches!(parsing.initial_stage, InitialStage::ReasoningStart | InitialStage::ReasoningContinuation);
        let parsers =
            (0..answer.choices.max(1)).map(|_| OutputParser::with_spellings(parsing.clone(), &spellings)).collect();
        let answer = AnswerWriter::new(answer, tokenizer.clone());
        Self { parsers, answer, tokenizer, spellings, events: Vec::new(), reasons }
    }

    /// Starts the answer, once the backend knows the prompt's cost. A second start changes nothing; output without one
    /// starts the answer with a cost of zero.
    pub fn start(&mut self, prompt_tokens: u64, cached_tokens: u64, fingerprint: Option<&str>) -> Vec<u8> {
        let mut out = String::new();
        self.answer.start(prompt_tokens, cached_tokens, fingerprint, &mut out);
        out.into_bytes()
    }

    /// Sets the time that closing events report, in seconds; the time of creation unless set.
    pub fn set_time(&mut self, seconds: u64) {
        self.answer.set_time(seconds);
    }

    /// Takes tokens of a choice, with one log probability for each if there are any. Output after the choice's end is
    /// dropped, since a backend may be a step ahead of a stop sequence. On an error nothing was taken.
    pub fn push(&mut self, ids: &[u32], logprobs: Option<Vec<TokenLogprob>>, choice: usize) -> Result<Vec<u8>, Error> {
        let Some(tokenizer) = self.tokenizer.clone() else {
            return Err(Error::new(ErrorCode::TokenizerMissing, "", &[]));
        };
        let count = logprobs.as_ref().map_or(ids.len(), Vec::len);
        if count != ids.len() {
            return Err(Error::new(ErrorCode::LogprobsMismatch, "", &[("found", &count), ("expected", &ids.len())]));
        }
        let pieces = ids.iter().map(|&id| Ok((id, self.piece(&tokenizer, id)?))).collect::<Result<Vec<_>, Error>>()?;
        if let Some(recorder) = self.answer.recorder(choice) {
            for (id, piece) in &pieces {
                recorder.push(*id, mark(*piece));
            }
        }
        self.parse(choice, |parser, events| {
            let mut logprobs = logprobs.into_iter().flatten();
            for (id, piece) in pieces {
                parser.push_token(id, piece, logprobs.next(), events);
            }
        })
    }

    /// Takes text of a choice that stands for `token_count` tokens.
    pub fn push_text(&mut self, text: &str, token_count: u64, choice: usize) -> Result<Vec<u8>, Error> {
        if let Some(recorder) = self.answer.recorder(choice) {
            recorder.discard();
        }
        self.parse(choice, |parser, events| parser.push_text(text, token_count, events))
    }

    /// Ends a choice.
    pub fn finish(&mut self, reason: BackendFinish, choice: usize) -> Result<Vec<u8>, Error> {
        if let Some(recorder) = self.answer.recorder(choice) {
            recorder.finish();
        }
        self.parse(choice, |parser, events| parser.finish(reason, events))
    }

    /// Ends the answer with an error.
    pub fn fail(&mut self, error: &Error) -> Vec<u8> {
        let mut out = String::new();
        self.answer.fail(error, &mut out);
        out.into_bytes()
    }

    /// Bytes that only keep the connection alive.
    pub fn keep_alive(&self) -> Vec<u8> {
        let mut out = String::new();
        self.answer.keep_alive(&mut out);
        out.into_bytes()
    }

    /// The stop sequence that ended a choice, if one did.
    pub fn stop_sequence(&self, choice: usize) -> Option<&str> {
        self.answer.fold(choice)?.finish()?.stop_sequence.as_deref()
    }

    /// Whether a choice has ended.
    pub fn is_finished(&self, choice: usize) -> bool {
        self.answer.is_finished(choice)
    }

    /// The typed events of the latest `push`, `push_text` or `finish`.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What a choice said so far.
    pub fn fold(&self, choice: usize) -> Option<&Fold> {
        self.answer.fold(choice)
    }

    /// What the answer cost so far.
    pub fn usage(&self) -> Usage {
        self.answer.usage()
    }

    /// The body of the response that is not streamed.
    pub fn response(&self) -> Vec<u8> {
        let mut out = String::new();
        self.answer.response(&mut out);
        out.into_bytes()
    }

    fn parse(
        &mut self,
        choice: usize,
        parse: impl FnOnce(&mut OutputParser, &mut Vec<Event>),
    ) -> Result<Vec<u8>, Error> {
        self.events.clear();
        // An unknown choice is the answer's error to report.
        let counts = match self.parsers.get_mut(choice) {
            Some(parser) if !self.answer.is_finished(choice) => {
                parse(parser, &mut self.events);
                parser.counts()
            }
            Some(parser) => parser.counts(),
            None => TokenCounts::default(),
        };
        let reasoning = counts.reasoning.filter(|&count| self.reasons || count > 0);
        self.answer.count(choice, TokenCounts { reasoning, ..counts })?;
        let mut out = String::with_capacity(self.events.len() * FRAME);
        if !self.answer.is_finished(choice) {
            self.answer.start(0, 0, None, &mut out);
        }
        for event in &self.events {
            self.answer.event(choice, event, &mut out)?;
        }
        Ok(out.into_bytes())
    }

    fn piece<'t>(&self, tokenizer: &'t Tokenizer, id: u32) -> Result<OutputPiece<'t>, Error> {
        match tokenizer.piece(id) {
            Some(Piece::Text(bytes)) => Ok(OutputPiece::Bytes(bytes)),
            Some(Piece::Special(_, spelling)) => Ok(OutputPiece::Special(self.special(spelling), spelling)),
            None => Err(Error::new(ErrorCode::UnknownToken, "", &[("found", &id)])),
        }
    }

    /// What an added token means in output. Of those without meaning, only grounding marks are shown.
    fn special(&self, spelling: &str) -> OutputSpecial {
        let is = |special: &Special| self.spellings.of(*special) == spelling;
        match spelling {
            _ if is(&Special::Dsml) => OutputSpecial::Dsml,
            _ if is(&Special::ThinkingStart) => OutputSpecial::ThinkingStart,
            _ if is(&Special::ThinkingEnd) => OutputSpecial::ThinkingEnd,
            _ if Special::GROUNDING.iter().any(is) => OutputSpecial::Visible,
            _ => OutputSpecial::Hidden,
        }
    }
}

/// What a recorder must know of an added token.
fn mark(piece: OutputPiece<'_>) -> Option<Special> {
    match piece {
        OutputPiece::Special(OutputSpecial::ThinkingEnd, _) => Some(Special::ThinkingEnd),
        OutputPiece::Special(OutputSpecial::Dsml, _) => Some(Special::Dsml),
        _ => None,
    }
}

/// Whether the answer begins right after the mark that opens or closes thinking, and not in the middle of a turn: only
/// then are its stretches of text those of the turn that it becomes.
fn begins_after_mark(parsing: &ParsingOptions) -> bool {
    let begins = matches!(parsing.initial_stage, InitialStage::Content | InitialStage::ReasoningStart);
    begins && !parsing.starts_in_tool_calls
}
