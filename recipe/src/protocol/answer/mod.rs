//! Events of one answer in, bytes of one protocol out, for one choice or several.
//!
//! Owns the folds, the usage and the state of the stream (started, failed), and beside them what protocols print alike:
//! JSON members, log probabilities, call ids. Knows no parser: the decoder feeds it.

mod call_ids;
mod fold;
pub(super) mod json_object;
pub(super) mod logprobs;
pub(super) mod open_ai_error;
pub(super) mod template;
mod usage;
pub(super) mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Protocol;
use super::chat_completions::ChatCompletionsWriter;
use super::messages::MessagesWriter;
use super::responses::ResponsesWriter;
use super::sse::write_comment;
use crate::error::{Error, ErrorCode};
use crate::event::{Event, TokenCounts};
use crate::history::{Recorder, Seal};
use crate::json::Value;
use crate::tokenizer::Tokenizer;
use writer::{Answer, Choice, Writer};

pub use fold::{Block, Call, Fold, Passage};
pub use usage::Usage;

/// What an answer repeats of its request, and what the server chose for it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerConfig {
    /// The protocol of the request.
    pub protocol: Protocol,
    /// Id of the answer.
    pub id: String,
    /// Model, as the client named it.
    pub model: String,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
    /// What call ids are made from. Equal seeds give equal ids; sixteen random bytes are enough. No secret.
    pub seed: Vec<u8>,
    /// Whether the model was asked to think.
    pub thinking: bool,
    /// Responses: names of the tools whose input is free text.
    pub custom_tools: Vec<String>,
    /// Responses: name of a tool in the prompt → its namespace and its name there.
    pub namespace_tools: BTreeMap<String, (String, String)>,
    /// Responses: request settings to repeat, an object; what is missing has the protocol's default.
    pub echo: Option<Value<'static>>,
    /// Chat Completions: whether the client asked for a chunk with the usage.
    pub include_usage: bool,
    /// Chat Completions: number of choices.
    pub choices: usize,
    /// Messages: signature of reasoning; `None` is the answer's id.
    pub signature: Option<String>,
    /// What seals records of the answer's ids; without it there are none.
    pub seal: Option<Seal>,
}

impl AnswerConfig {
    /// The settings of a plain answer: one choice, no thinking, nothing to repeat.
    pub fn new(protocol: Protocol, id: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            protocol,
            id: id.into(),
            model: model.into(),
            created: 0,
            seed: Vec::new(),
            thinking: false,
            custom_tools: Vec::new(),
            namespace_tools: BTreeMap::new(),
            echo: None,
            include_usage: false,
            choices: 1,
            signature: None,
            seal: None,
        }
    }
}

/// Writes one answer.
#[derive(Debug)]
pub struct AnswerWriter {
    writer: Box<dyn Writer>,
    state: State,
}

/// What a writer is shown.
#[derive(Debug)]
struct State {
    folds: Vec<Fold>,
    counts: Vec<TokenCounts>,
    prompt_tokens: u64,
    cached_tokens: u64,
    time: u64,
    thinking: bool,
    started: bool,
    failure: Option<Error>,
}

impl AnswerWriter {
    /// A writer of the answer described by `config`. `tokenizer` gives log probabilities the texts of their tokens.
    pub fn new(config: AnswerConfig, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        let choices = config.choices.max(1);
        let fold = |choice| Fold::new(config.thinking, &config.seed, choice);
        let state = State {
            folds: (0..choices).map(fold).collect(),
            counts: vec![TokenCounts::default(); choices],
            prompt_tokens: 0,
            cached_tokens: 0,
            time: config.created,
            thinking: config.thinking,
            started: false,
            failure: None,
        };
        let writer: Box<dyn Writer> = match config.protocol {
            Protocol::ChatCompletions => Box::new(ChatCompletionsWriter::new(config, tokenizer)),
            Protocol::Responses => Box::new(ResponsesWriter::new(config, tokenizer)),
            Protocol::Messages => Box::new(MessagesWriter::new(config)),
        };
        Self { writer, state }
    }

    /// Has the ids of every choice gathered by a recorder of its own.
    pub(crate) fn record(&mut self, recorder: &Recorder) {
        self.state.folds.iter_mut().for_each(|fold| fold.record(recorder.clone()));
    }

    /// Appends the frames before any event. A second start changes nothing; an event without one starts by itself.
    pub fn start(&mut self, prompt_tokens: u64, cached_tokens: u64, fingerprint: Option<&str>, out: &mut String) {
        let Self { writer, state } = self;
        if state.started {
            return;
        }
        state.started = true;
        state.prompt_tokens = prompt_tokens;
        state.cached_tokens = cached_tokens;
        if state.thinking && writer.opens_with_reasoning() {
            state.folds.iter_mut().for_each(Fold::open_reasoning);
        }
        writer.start(state.answer(), fingerprint, out);
    }

    /// Sets how many tokens a choice holds so far.
    pub fn count(&mut self, choice: usize, counts: TokenCounts) -> Result<(), Error> {
        self.state.check(choice)?;
        self.state.counts[choice] = counts;
        Ok(())
    }

    /// The recorder of a choice's ids, if they are recorded and the choice goes on.
    pub(crate) fn recorder(&mut self, choice: usize) -> Option<&mut Recorder> {
        if self.is_finished(choice) { None } else { self.state.folds.get_mut(choice)?.recorder_mut() }
    }

    /// Sets how many of the prompt's tokens were found in a cache, where that is known only after the start.
    pub fn set_cached_tokens(&mut self, cached_tokens: u64) {
        self.state.cached_tokens = cached_tokens;
    }

    /// Sets the time that closing events report; the time of creation unless set.
    pub fn set_time(&mut self, seconds: u64) {
        self.state.time = seconds;
    }

    /// Appends the frames of an event. After a choice's `Finish`, or a failure, nothing more is written.
    pub fn event(&mut self, choice: usize, event: &Event, out: &mut String) -> Result<(), Error> {
        self.state.check(choice)?;
        if self.is_finished(choice) {
            return Ok(());
        }
        self.start(0, 0, None, out);
        let Self { writer, state } = self;
        if !state.folds[choice].push(event) {
            return Ok(());
        }
        let this = Choice { index: choice, fold: &state.folds[choice] };
        match event {
            Event::Finish(finish) => writer.finish(finish, this, state.answer(), out),
            _ => writer.event(event, this, out),
        }
        Ok(())
    }

    /// Appends the frames that end the stream with an error. An answer that has ended is left alone.
    pub fn fail(&mut self, error: &Error, out: &mut String) {
        if self.state.answer().ended() {
            return;
        }
        self.start(0, 0, None, out);
        let Self { writer, state } = self;
        state.failure = Some(error.clone());
        writer.fail(error, state.answer(), out);
    }

    /// Appends a frame that only keeps the connection alive.
    pub fn keep_alive(&self, out: &mut String) {
        if self.state.started { self.writer.keep_alive(out) } else { write_comment(out) }
    }

    /// Whether a choice has ended, by itself or with the whole answer.
    pub fn is_finished(&self, choice: usize) -> bool {
        self.state.failure.is_some() || self.state.folds.get(choice).is_none_or(|fold| fold.finish().is_some())
    }

    /// What a choice said so far.
    pub fn fold(&self, choice: usize) -> Option<&Fold> {
        self.state.folds.get(choice)
    }

    /// What the answer cost so far, over all choices.
    pub fn usage(&self) -> Usage {
        self.state.usage()
    }

    /// Appends the body of the response that is not streamed: all events so far, folded.
    pub fn response(&self, out: &mut String) {
        self.writer.response(self.state.answer(), out);
    }
}

impl State {
    fn answer(&self) -> Answer<'_> {
        let folds: &[Fold] = if self.started { &self.folds } else { &[] };
        Answer { folds, usage: self.usage(), time: self.time, failure: self.failure.as_ref() }
    }

    fn usage(&self) -> Usage {
        let reasoning = self.counts.iter().map(|counts| counts.reasoning).sum();
        let output = self.counts.iter().map(|counts| counts.output).sum();
        Usage { prompt: self.prompt_tokens, cached: self.cached_tokens, output, reasoning }
    }

    fn check(&self, choice: usize) -> Result<(), Error> {
        if choice < self.folds.len() {
            return Ok(());
        }
        let values: [(&str, &dyn std::fmt::Display); 2] = [("found", &choice), ("limit", &self.folds.len())];
        Err(Error::new(ErrorCode::UnknownChoice, "", &values))
    }
}
