//! An answer as a whole: the fold of its events, and the only place that puts deltas together.
//!
//! Streams read it for what their closing events repeat, full responses print it; so the two are equal by construction.
//! Owns one choice's blocks. Must not know any protocol. Costs amortised constant time per event.

use super::call_ids::CallIds;
use crate::event::{Delta, Event, Finish, TokenLogprob};
use crate::history::Recorder;
use crate::json::{self, Value, escape_line_ends_into};

/// What one choice said so far.
#[derive(Debug, Clone)]
pub struct Fold {
    blocks: Vec<Block>,
    finish: Option<Finish>,
    thinking: bool,
    reasoned: bool,
    /// Where the latest text begins in its passage.
    latest: usize,
    call_ids: CallIds,
    recorder: Option<Recorder>,
}

/// A stretch of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Reasoning.
    Reasoning(Passage),
    /// Answer text.
    Text(Passage),
    /// A tool call.
    Call(Call),
}

/// Reasoning or text without a break. It is kept as JSON spells it: so it is printed, and by some protocols again and again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passage {
    json: String,
    /// One entry per visible token.
    pub logprobs: Vec<TokenLogprob>,
}

impl Passage {
    /// The text. Costs a pass over it.
    pub fn text(&self) -> String {
        match json::parse(format!("\"{}\"", self.json).as_bytes()) {
            Ok(Value::String(text)) => text.into_owned(),
            _ => unreachable!("an escaped text is JSON"),
        }
    }

    /// The text as it stands inside a JSON string.
    pub(in crate::protocol) fn json(&self) -> &str {
        &self.json
    }

    fn append(&mut self, delta: &Delta) {
        escape_line_ends_into(&delta.text, &mut self.json);
        self.logprobs.extend_from_slice(&delta.logprobs);
    }
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, from 0.
    pub index: usize,
    /// Id that the result will refer to.
    pub id: String,
    /// Name of the tool, as the model spelled it.
    pub name: String,
    /// JSON text of the arguments, so far.
    pub arguments: String,
    /// Whether the call ended with whole arguments.
    pub complete: bool,
}

impl Fold {
    /// Nothing said yet in choice `choice`.
    pub(in crate::protocol) fn new(thinking: bool, seed: &[u8], choice: usize) -> Self {
        let call_ids = CallIds::new(seed, choice);
        Self { blocks: Vec::new(), finish: None, thinking, reasoned: false, latest: 0, call_ids, recorder: None }
    }

    /// Has the ids gathered.
    pub(in crate::protocol) fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// What gathers the ids, if they are recorded.
    pub(in crate::protocol) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// The record of what the reasoning's own does not hold, once the answer has ended. One that shows nothing has none.
    pub(in crate::protocol) fn last_record(&self) -> Option<String> {
        let recorder = self.recorder.as_ref().filter(|_| self.finish.is_some() && !self.blocks.is_empty())?;
        let shows_reasoning = self.blocks.iter().any(|block| matches!(block, Block::Reasoning(_)));
        if shows_reasoning { recorder.answer() } else { recorder.whole() }
    }

    /// What gathers the ids, to be fed.
    pub(in crate::protocol) fn recorder_mut(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// The blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// How the answer ended; `None` while it goes on.
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// Opens a block of reasoning before there is any.
    pub(in crate::protocol) fn open_reasoning(&mut self) {
        self.blocks.push(Block::Reasoning(Passage::default()));
    }

    /// Takes an event; the last block is then the one it belongs to. False if a client sees nothing of it.
    pub(in crate::protocol) fn push(&mut self, event: &Event) -> bool {
        match event {
            Event::Reasoning(delta) | Event::Text(delta) if delta.text.is_empty() && delta.logprobs.is_empty() => false,
            Event::Reasoning(delta) => {
                self.reasoned |= !delta.text.is_empty();
                if !matches!(self.blocks.last(), Some(Block::Reasoning(_))) {
                    self.open_reasoning();
                }
                self.append(delta);
                true
            }
            Event::Text(delta) => {
                if !matches!(self.blocks.last(), Some(Block::Text(_))) {
                    self.blocks.push(Block::Text(Passage::default()));
                }
                self.append(delta);
                true
            }
            Event::CallStart { index, name } => {
                self.start_call(*index, name);
                true
            }
            Event::CallArguments { index, fragment } => match self.open_call(*index) {
                Some(call) if !fragment.is_empty() => {
                    call.arguments.push_str(fragment);
                    true
                }
                _ => false,
            },
            Event::CallEnd { index, complete } => match self.open_call(*index) {
                Some(call) => {
                    call.complete = *complete;
                    true
                }
                None => false,
            },
            Event::CallParameterDropped { .. } => false,
            Event::Finish(finish) => {
                self.finish = Some(finish.clone());
                true
            }
        }
    }

    /// The text of the latest event, as it stands inside a JSON string.
    pub(in crate::protocol) fn latest_json(&self) -> &str {
        match self.blocks.last() {
            Some(Block::Reasoning(passage) | Block::Text(passage)) => &passage.json[self.latest..],
            _ => "",
        }
    }

    fn append(&mut self, delta: &Delta) {
        if let Some(Block::Reasoning(passage) | Block::Text(passage)) = self.blocks.last_mut() {
            self.latest = passage.json.len();
            passage.append(delta);
        }
    }

    fn start_call(&mut self, index: usize, name: &str) {
        let id = self.call_ids.id(index, self.thinking && !self.reasoned);
        let (name, arguments) = (name.to_owned(), String::new());
        self.blocks.push(Block::Call(Call { index, id, name, arguments, complete: false }));
    }

    /// Calls never overlap, so an open one is the last block.
    fn open_call(&mut self, index: usize) -> Option<&mut Call> {
        match self.blocks.last_mut() {
            Some(Block::Call(call)) if call.index == index => Some(call),
            _ => None,
        }
    }
}
