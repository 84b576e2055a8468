//! The state of an answer being read: what its text and marks mean.
//!
//! Owns the stage (reasoning or content), the open block and call, and the way text takes out: through the filters of JSON
//! mode and stop sequences into steps. The rules of markup lie beside it, one file for each part: `prose` (text between
//! tags), `markup` (tags), `calls` and `values` (calls and their arguments), `region` (markup that may still turn out to be
//! text), `thinking`, `finish`. Knows nothing of tokens. Constant amortised cost per byte.

use super::calls::Invoke;
use super::fence::FenceTracker;
use super::json_mode::JsonMode;
use super::lexer::{Broken, Mark};
use super::options::{InitialStage, ParsingOptions, QuotedCalls, Settings};
use super::prose::Prose;
use super::region::Region;
use super::run::Run;
use super::sink::{Step, append_text};
use super::spelled::SpellingGuard;
use super::stop::StopGate;
use super::tag::{Progress, Tag};
use super::values::{Object, Value};
use crate::event::FinishReason;

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Reasoning,
    Content,
}

/// The block of calls that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    None,
    /// No opener was seen, but a call.
    Bare,
    /// The opener's word was misspelt.
    Misspelt,
    Proper,
}

/// What is being read.
#[derive(Debug)]
pub(super) enum State {
    Prose,
    Tag(Tag, Origin),
    Value(Value),
    Object(Object),
}

/// Where a tag stands, which decides what it is when it turns out to be none.
#[derive(Debug)]
pub(super) enum Origin {
    /// Its mark began a region.
    Region,
    /// In text between the tags of a block or call.
    Prose,
    /// In a value.
    Value(Value),
}

/// Whether a mark was dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    Done,
    /// What it stood in was given up; it is to be read again.
    Again,
}

/// The state of one answer.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) settings: Settings,
    pub(super) stage: Stage,
    /// Whether newlines are still dropped because the stage just began.
    pub(super) lead: bool,
    pub(super) block: Block,
    pub(super) invoke: Option<Invoke>,
    /// Whether a call that does not count was shown as text: the tags up to its end are text too.
    pub(super) is_quoting: bool,
    pub(super) state: State,
    pub(super) prose: Prose,
    pub(super) fence: FenceTracker,
    pub(super) gate: StopGate,
    pub(super) json: Option<JsonMode>,
    pub(super) regions: Vec<Region>,
    pub(super) steps: Vec<Step>,
    /// Memory of a text that was handed out and came back, for the next one.
    pub(super) spare: String,
    /// Prose inside a call, shown after it.
    pub(super) deferred: Run,
    /// Follows what is shown, once text was pushed.
    pub(super) guard: Option<Box<SpellingGuard>>,
    /// The marks that the next newline breaks off.
    pub(super) broken: Broken,
    /// Offset of what is being read.
    pub(super) cursor: u64,
    pub(super) calls: usize,
    /// Length of the mark being read, if it is to be read again when what it stands in turns out to be text.
    pub(super) kept: usize,
    /// How the answer ends, because a call was cut.
    pub(super) cut: Option<FinishReason>,
    pub(super) is_finished: bool,
    /// Offset at which the reasoning ended.
    pub(super) reasoning_end: Option<u64>,
}

impl Machine {
    pub(super) fn new(options: ParsingOptions) -> Self {
        let starts_in_calls = options.starts_in_tool_calls;
        let (stage, lead) = match options.initial_stage {
            _ if starts_in_calls => (Stage::Content, true),
            InitialStage::Content => (Stage::Content, true),
            InitialStage::ContentContinuation => (Stage::Content, false),
            InitialStage::ReasoningStart => (Stage::Reasoning, true),
            InitialStage::ReasoningContinuation => (Stage::Reasoning, false),
        };
        let continued = options.initial_stage == InitialStage::ContentContinuation;
        let is_plain = options.quoted_calls == QuotedCalls::AreCalls || options.parse_json_output;
        Self {
            settings: Settings::new(&options),
            stage,
            lead,
            block: if starts_in_calls { Block::Proper } else { Block::None },
            invoke: None,
            is_quoting: false,
            state: State::Prose,
            prose: Prose::new(starts_in_calls),
            fence: if is_plain { FenceTracker::off() } else { FenceTracker::new() },
            gate: StopGate::new(options.stop_sequences),
            json: options.parse_json_output.then(|| JsonMode::new(continued)),
            regions: Vec::new(),
            steps: Vec::new(),
            spare: String::new(),
            deferred: Run::default(),
            guard: None,
            broken: Broken::default(),
            cursor: 0,
            calls: 0,
            kept: 0,
            cut: None,
            is_finished: false,
            reasoning_end: None,
        }
    }

    /// Takes text that is no part of a mark.
    pub(super) fn text(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_finished {
            let (now, later) = rest.split_at(self.span(rest));
            let at = self.cursor;
            self.record(now, at);
            self.cursor += now.len() as u64;
            self.deliver(now, at);
            self.limit_regions();
            rest = later;
        }
    }

    /// Takes a mark; its bytes were recorded.
    pub(super) fn mark(&mut self, mark: Mark, spelling: &[u8]) -> Handled {
        self.kept = if matches!(self.state, State::Prose) { 0 } else { spelling.len() };
        let handled = match std::mem::replace(&mut self.state, State::Prose) {
            State::Prose => self.mark_in_prose(mark, spelling),
            State::Tag(tag, origin) => self.mark_in_tag(tag, origin, mark, spelling),
            State::Value(value) => self.mark_in_value(value, mark, spelling),
            State::Object(object) => self.mark_in_object(object, mark, spelling),
        };
        self.kept = 0;
        handled
    }

    /// Takes text that outranks markup, because a stop sequence ends in it.
    pub(super) fn text_to_stop(&mut self, bytes: &[u8]) {
        self.flush_prose();
        let at = self.cursor;
        self.cursor += bytes.len() as u64;
        self.emit(bytes, at);
    }

    /// Takes an added token that is shown; it takes no part in a stop sequence.
    pub(super) fn visible(&mut self, spelling: &[u8]) {
        if self.is_finished {
            return;
        }
        if self.is_live() && self.json.is_none() {
            self.flush_prose();
            self.restart_gate();
            self.lead = false;
            self.prose.is_fresh = false;
            self.fence.interrupt();
            let at = self.cursor;
            self.cursor += spelling.len() as u64;
            let mut shown = Run::default();
            match &mut self.json {
                Some(json) => json.push(spelling, at, &mut shown),
                None => shown.push(spelling, at),
            }
            append_text(&mut self.steps, shown);
        } else {
            self.text(spelling);
        }
    }

    /// Whether stop sequences are looked for ahead of what is decided.
    pub(super) fn is_live(&self) -> bool {
        self.stage == Stage::Content
            && self.block == Block::None
            && matches!(self.state, State::Prose)
            && self.regions.is_empty()
            && self.json.as_ref().is_none_or(JsonMode::is_inside)
    }

    /// Whether `byte` ends a stop sequence, `pending` being undecided before it.
    pub(super) fn completes_stop(&mut self, byte: u8, pending: &[u8]) -> bool {
        if self.gate.is_open() {
            return false;
        }
        if !self.is_live() {
            self.gate.look_away();
            return false;
        }
        self.gate.completes(byte, (self.prose.blank.bytes(), self.prose.newlines, pending))
    }

    /// Whether a stop sequence ends in what is undecided.
    pub(super) fn holds_stop(&mut self, pending: &[u8]) -> bool {
        !self.gate.is_open()
            && self.is_live()
            && self.gate.is_complete((self.prose.blank.bytes(), self.prose.newlines, pending))
    }

    /// How many of `bytes` are plain text here: no mark, newline or stop sequence begins in them.
    pub(super) fn plain_length(&self, bytes: &[u8], marks: &[bool; 256]) -> usize {
        let is_mark = |byte: u8| marks[usize::from(byte)];
        match self.state {
            State::Tag(..) => 0,
            State::Value(_) | State::Object(_) => until(bytes, is_mark),
            State::Prose if self.gate.is_open() => until(bytes, is_mark),
            State::Prose if !self.is_live() => until(bytes, |byte| is_mark(byte) || byte == b'\n'),
            State::Prose if !self.gate.is_idle() || self.prose.newlines > 0 => 0,
            State::Prose => {
                let starts = self.gate.starts();
                until(bytes, |byte| is_mark(byte) || byte == b'\n' || starts[usize::from(byte)])
            }
        }
    }

    /// The offset up to which everything is decided.
    pub(super) fn decided(&self) -> u64 {
        let held = self.regions.first().map(|region| region.start);
        let read = match &self.state {
            State::Tag(tag, _) => Some(&tag.raw),
            State::Object(object) => Some(object.text()),
            State::Prose | State::Value(_) => None,
        };
        let runs = [&self.deferred, &self.prose.blank, self.gate.held()];
        let held_back = self.json.as_ref().and_then(JsonMode::held).into_iter().chain(read).chain(runs);
        let starts = held_back.filter_map(|run| run.ranges().next().map(|range| range.start));
        let newlines = (self.prose.newlines > 0).then_some(self.prose.newline_at);
        starts.chain(held).chain(newlines).min().unwrap_or(self.cursor)
    }

    /// How many of `bytes` are taken at once.
    fn span(&self, bytes: &[u8]) -> usize {
        match self.state {
            State::Prose => self.prose_span(bytes),
            State::Value(_) => bytes.len(),
            State::Tag(..) | State::Object(_) => 1,
        }
    }

    /// Takes text in the present state, without recording it.
    fn deliver(&mut self, bytes: &[u8], at: u64) {
        match &mut self.state {
            State::Prose => self.prose_text(bytes, at),
            State::Value(_) => self.value_text(bytes),
            State::Object(_) => self.object_text(bytes, at),
            State::Tag(tag, _) => match tag.push(bytes[0], at) {
                Progress::Open => {}
                progress => {
                    if let State::Tag(tag, origin) = std::mem::replace(&mut self.state, State::Prose) {
                        match progress {
                            Progress::Complete => self.end_tag(tag, origin),
                            _ => self.refuse_tag(&tag, origin),
                        }
                    }
                }
            },
        }
    }

    /// Takes text once more, which was recorded: as text between tags.
    pub(super) fn replay(&mut self, run: &Run) {
        let depth = self.regions.len();
        for (bytes, start) in run.segments() {
            let (mut rest, mut at) = (bytes, start);
            // Text may end a region, which then has replayed what follows here too.
            while !rest.is_empty() && !self.is_finished && self.regions.len() == depth {
                let (now, later) = rest.split_at(self.prose_span(rest));
                self.prose_text(now, at);
                at += now.len() as u64;
                rest = later;
            }
        }
    }
}

/// Length of `bytes` before the first that `ends`.
fn until(bytes: &[u8], ends: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| ends(byte)).unwrap_or(bytes.len())
}
