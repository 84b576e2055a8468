//! Model output → one protocol's answer: the facade over the output parser and the protocol's writer.
//!
//! Owns one answer: a parser for each choice, the writer, and the typed events of the latest call. Pure: ids and times are
//! arguments. Costs what the parser and the writer cost; nothing per token grows with the length so far.

use std::sync::Arc;

use crate::error::{Error, ErrorCode};
use crate::event::{BackendFinish, Event, TokenCounts, TokenLogprob};
use crate::history::Recorder;
use crate::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions};
use crate::protocol::{AnswerConfig, AnswerWriter, Fold, Usage};
use crate::special::Spellings;
use crate::tokenizer::{Piece, Tokenizer};

/// More than most frames have, so that the output seldom grows while it is written.
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
    reading: Reading,
    tokenizer: Option<Arc<Tokenizer>>,
    spellings: Spellings,
}

/// The answer as far as it was read.
#[derive(Debug)]
struct Reading {
    parsers: Vec<OutputParser>,
    answer: AnswerWriter,
    events: Vec<Event>,
    /// Whether the answer begins in reasoning, so that its tokens are worth reporting even if there are none.
    reasons: bool,
}

impl Decoder {
    /// A decoder for one answer. Without a tokenizer it takes only text.
    pub fn new(config: DecoderConfig, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        let DecoderConfig { parsing, mut answer, spellings } = config;
        let seal = answer.seal.take().filter(|_| begins_after_mark(&parsing)).zip(tokenizer.clone());
        let recorder = seal.map(|(seal, tokenizer)| {
            let thinks = parsing.initial_stage == InitialStage::ReasoningStart;
            Recorder::new(seal, tokenizer, spellings.clone(), thinks)
        });
        let reasons =
            matches!(parsing.initial_stage, InitialStage::ReasoningStart | InitialStage::ReasoningContinuation);
        let parsers =
            (0..answer.choices.max(1)).map(|_| OutputParser::with_spellings(parsing.clone(), &spellings)).collect();
        let mut answer = AnswerWriter::new(answer, tokenizer.clone());
        if let Some(recorder) = recorder {
            answer.record(&recorder);
        }
        Self { reading: Reading { parsers, answer, events: Vec::new(), reasons }, tokenizer, spellings }
    }

    /// Starts the answer, once the backend knows the prompt's cost. A second start changes nothing; output without one
    /// starts the answer with a cost of zero.
    pub fn start(&mut self, prompt_tokens: u64, cached_tokens: u64, fingerprint: Option<&str>) -> Vec<u8> {
        let mut out = String::new();
        self.reading.answer.start(prompt_tokens, cached_tokens, fingerprint, &mut out);
        out.into_bytes()
    }

    /// Sets how many of the prompt's tokens were found in a cache, where the backend tells only after the start: what is
    /// reported at the end counts.
    pub fn set_cached_tokens(&mut self, cached_tokens: u64) {
        self.reading.answer.set_cached_tokens(cached_tokens);
    }

    /// Sets the time that closing events report, in seconds; the time of creation unless set.
    pub fn set_time(&mut self, seconds: u64) {
        self.reading.answer.set_time(seconds);
    }

    /// Takes tokens of a choice, with one log probability for each if there are any. Output after the choice's end is
    /// dropped, since a backend may be a step ahead of a stop sequence. On an error nothing was taken.
    pub fn push(&mut self, ids: &[u32], logprobs: Option<Vec<TokenLogprob>>, choice: usize) -> Result<Vec<u8>, Error> {
        let mut out = String::with_capacity(FRAME);
        self.push_to(ids.iter().copied(), logprobs, choice, &mut out)?;
        Ok(out.into_bytes())
    }

    /// As [`Decoder::push`], but takes ids from anywhere and appends the bytes, all of them text, to memory of the caller's.
    /// The ids are gone through twice or more; one that is unknown only the second time is left out.
    pub fn push_to(
        &mut self,
        ids: impl ExactSizeIterator<Item = u32> + Clone,
        logprobs: Option<Vec<TokenLogprob>>,
        choice: usize,
        out: &mut String,
    ) -> Result<(), Error> {
        let Some(tokenizer) = &self.tokenizer else {
            return Err(Error::new(ErrorCode::TokenizerMissing, "", &[]));
        };
        let count = logprobs.as_ref().map_or(ids.len(), Vec::len);
        if count != ids.len() {
            return Err(Error::new(ErrorCode::LogprobsMismatch, "", &[("found", &count), ("expected", &ids.len())]));
        }
        if let Some(id) = ids.clone().find(|id| tokenizer.piece(*id).is_none()) {
            return Err(Error::new(ErrorCode::UnknownToken, "", &[("found", &id)]));
        }
        if let Some(recorder) = self.reading.answer.recorder(choice) {
            ids.clone().for_each(|id| recorder.push(id));
        }
        let pieces = ids.filter_map(|id| Some((id, piece(tokenizer, &self.spellings, id)?)));
        let mut logprobs = logprobs.into_iter().flatten();
        let tokens = pieces.map(|(id, piece)| (id, piece, logprobs.next()));
        self.reading.parse(choice, |parser, events| parser.push_tokens(tokens, events), out)
    }

    /// Takes text of a choice that stands for `token_count` tokens.
    pub fn push_text(&mut self, text: &str, token_count: u64, choice: usize) -> Result<Vec<u8>, Error> {
        if let Some(recorder) = self.reading.answer.recorder(choice) {
            recorder.discard();
        }
        let mut out = String::with_capacity(FRAME);
        self.reading.parse(choice, |parser, events| parser.push_text(text, token_count, events), &mut out)?;
        Ok(out.into_bytes())
    }

    /// Ends a choice.
    pub fn finish(&mut self, reason: BackendFinish, choice: usize) -> Result<Vec<u8>, Error> {
        if let Some(recorder) = self.reading.answer.recorder(choice) {
            recorder.finish();
        }
        let mut out = String::with_capacity(FRAME);
        self.reading.parse(choice, |parser, events| parser.finish(reason, events), &mut out)?;
        Ok(out.into_bytes())
    }

    /// Ends the answer with an error.
    pub fn fail(&mut self, error: &Error) -> Vec<u8> {
        let mut out = String::new();
        self.reading.answer.fail(error, &mut out);
        out.into_bytes()
    }

    /// Bytes that only keep the connection alive.
    pub fn keep_alive(&self) -> Vec<u8> {
        let mut out = String::new();
        self.reading.answer.keep_alive(&mut out);
        out.into_bytes()
    }

    /// The stop sequence that ended a choice, if one did.
    pub fn stop_sequence(&self, choice: usize) -> Option<&str> {
        self.reading.answer.fold(choice)?.finish()?.stop_sequence.as_deref()
    }

    /// Whether a choice has ended.
    pub fn is_finished(&self, choice: usize) -> bool {
        self.reading.answer.is_finished(choice)
    }

    /// The typed events of the latest `push`, `push_text` or `finish`.
    pub fn events(&self) -> &[Event] {
        &self.reading.events
    }

    /// What a choice said so far.
    pub fn fold(&self, choice: usize) -> Option<&Fold> {
        self.reading.answer.fold(choice)
    }

    /// What the answer cost so far.
    pub fn usage(&self) -> Usage {
        self.reading.answer.usage()
    }

    /// The body of the response that is not streamed.
    pub fn response(&self) -> Vec<u8> {
        let mut out = String::new();
        self.reading.answer.response(&mut out);
        out.into_bytes()
    }
}

impl Reading {
    fn parse(
        &mut self,
        choice: usize,
        parse: impl FnOnce(&mut OutputParser, &mut Vec<Event>),
        out: &mut String,
    ) -> Result<(), Error> {
        // An unknown choice is the answer's error to report.
        let counts = match self.parsers.get_mut(choice) {
            Some(parser) => {
                parser.recycle(&mut self.events);
                if !self.answer.is_finished(choice) {
                    parse(parser, &mut self.events);
                }
                parser.counts()
            }
            None => {
                self.events.clear();
                TokenCounts::default()
            }
        };
        let reasoning = counts.reasoning.filter(|&count| self.reasons || count > 0);
        self.answer.count(choice, TokenCounts { reasoning, ..counts })?;
        if !self.answer.is_finished(choice) {
            self.answer.start(0, 0, None, out);
        }
        for event in &self.events {
            self.answer.event(choice, event, out)?;
        }
        Ok(())
    }
}

/// What a token means in output; `None` if the vocabulary lacks it.
fn piece<'t>(tokenizer: &'t Tokenizer, spellings: &Spellings, id: u32) -> Option<OutputPiece<'t>> {
    Some(match tokenizer.piece(id)? {
        Piece::Text(bytes) => OutputPiece::Bytes(bytes),
        Piece::Special(_, spelling) => OutputPiece::Special(OutputSpecial::of(spelling, spellings), spelling),
    })
}

/// Whether the answer begins right after the mark that opens or closes thinking, and not in the middle of a turn: only
/// then are its stretches of text those of the turn that it becomes.
fn begins_after_mark(parsing: &ParsingOptions) -> bool {
    let begins = matches!(parsing.initial_stage, InitialStage::Content | InitialStage::ReasoningStart);
    begins && !parsing.starts_in_tool_calls
}
