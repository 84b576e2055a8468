//! Messages: events → events of blocks.
//!
//! Owns which block is open and whether the ping was sent. Block indexes are places in the fold. Costs one frame per
//! event, and two more where a block changes.

use std::borrow::Cow;

use super::response::{write_message, write_record_block, write_stop, write_usage};
use crate::error::Error;
use crate::event::{Event, Finish};
use crate::history::Recorder;
use crate::json::escape_line_ends_into;
use crate::protocol::AnswerConfig;
use crate::protocol::Usage;
use crate::protocol::answer::json_object::ObjectWriter;
use crate::protocol::answer::template::{Holes, Template};
use crate::protocol::answer::writer::{Answer, Choice, Writer};
use crate::protocol::sse::write_named_frame;
use crate::protocol::{Block, Fold};

/// Writes an answer as events of blocks.
#[derive(Debug)]
pub(in crate::protocol) struct MessagesWriter {
    pub(super) config: AnswerConfig,
    /// Place of the block whose end was not yet written.
    open: Option<usize>,
    pinged: bool,
    /// The deltas of the block of this place.
    template: Template<usize>,
}

impl MessagesWriter {
    /// A writer for `config`.
    pub(in crate::protocol) fn new(config: AnswerConfig) -> Self {
        Self { config, open: None, pinged: false, template: Template::new() }
    }

    /// The signature of reasoning: its record, if there is one. The answer's id is not secret and proves nothing: clients
    /// only carry it back.
    pub(super) fn signature<'s>(&'s self, fold: Option<&Fold>) -> Cow<'s, str> {
        match fold.and_then(Fold::recorder).and_then(Recorder::reasoning) {
            Some(record) => record.into(),
            None => self.config.signature.as_deref().unwrap_or(&self.config.id).into(),
        }
    }

    /// Makes the last block of the fold the open one.
    fn turn_to_last(&mut self, fold: &Fold, out: &mut String) {
        let last = fold.blocks().len().saturating_sub(1);
        let Some(block) = fold.blocks().get(last) else { return };
        if self.open == Some(last) {
            return;
        }
        self.close(fold, out);
        self.open = Some(last);
        write_start_frame(last, |members| write_empty_block(block, members), out);
        if !self.pinged {
            self.pinged = true;
            self.keep_alive(out);
        }
    }

    fn close(&mut self, fold: &Fold, out: &mut String) {
        let Some(place) = self.open.take() else { return };
        if matches!(fold.blocks().get(place), Some(Block::Reasoning(_))) {
            write_delta(place, "signature_delta", |delta| delta.string("signature", &self.signature(Some(fold))), out);
        }
        write_stop_frame(place, out);
    }

    /// A frame with text of the last block, escaped already.
    fn delta(&mut self, fold: &Fold, kind: &str, member: &str, text: impl FnOnce(&mut String), out: &mut String) {
        self.turn_to_last(fold, out);
        if let Some(place) = self.open {
            let render = |holes: &mut Holes, frame: &mut String| {
                write_delta(place, kind, |delta| holes.text(member, delta), frame);
            };
            self.template.write(place, 0, text, render, out);
        }
    }
}

/// A block as its start shows it: what deltas will bring is empty.
fn write_empty_block(block: &Block, members: &mut ObjectWriter<'_>) {
    match block {
        Block::Reasoning(_) => {
            members.string("type", "thinking");
            members.string("thinking", "");
            members.string("signature", "");
        }
        Block::Text(_) => {
            members.string("type", "text");
            members.string("text", "");
        }
        Block::Call(call) => {
            members.string("type", "tool_use");
            members.string("id", &call.id);
            members.string("name", &call.name);
            members.object("input", |_| {});
        }
    }
}

fn write_start_frame(place: usize, block: impl FnOnce(&mut ObjectWriter<'_>), out: &mut String) {
    write_named_frame(out, "content_block_start", |data| {
        data.number("index", place as u64);
        data.object("content_block", block);
    });
}

fn write_stop_frame(place: usize, out: &mut String) {
    write_named_frame(out, "content_block_stop", |data| data.number("index", place as u64));
}

fn write_delta(place: usize, kind: &str, content: impl FnOnce(&mut ObjectWriter<'_>), out: &mut String) {
    write_named_frame(out, "content_block_delta", |data| {
        data.number("index", place as u64);
        data.object("delta", |members| {
            members.string("type", kind);
            content(members);
        });
    });
}

impl Writer for MessagesWriter {
    fn opens_with_reasoning(&self) -> bool {
        true
    }

    fn start(&mut self, answer: Answer<'_>, _fingerprint: Option<&str>, out: &mut String) {
        let opening = Answer { folds: &[], usage: Usage { output: 0, ..answer.usage }, ..answer };
        write_named_frame(out, "message_start", |data| {
            data.object("message", |members| write_message(self, opening, members));
        });
        if let Some(fold) = answer.folds.first() {
            self.turn_to_last(fold, out);
        }
    }

    fn event(&mut self, event: &Event, choice: Choice<'_>, out: &mut String) {
        let fold = choice.fold;
        let latest = |out: &mut String| out.push_str(fold.latest_json());
        match event {
            Event::Reasoning(passage) | Event::Text(passage) if passage.text.is_empty() => self.turn_to_last(fold, out),
            Event::Reasoning(_) => self.delta(fold, "thinking_delta", "thinking", latest, out),
            Event::Text(_) => self.delta(fold, "text_delta", "text", latest, out),
            Event::CallStart { .. } => self.turn_to_last(fold, out),
            Event::CallArguments { fragment, .. } => {
                let fragment = |out: &mut String| escape_line_ends_into(fragment, out);
                self.delta(fold, "input_json_delta", "partial_json", fragment, out);
            }
            // Clients start a tool when its block stops.
            Event::CallEnd { .. } => self.close(fold, out),
            Event::CallParameterDropped { .. } | Event::Finish(_) => {}
        }
    }

    fn finish(&mut self, finish: &Finish, choice: Choice<'_>, answer: Answer<'_>, out: &mut String) {
        self.close(choice.fold, out);
        if let Some(record) = choice.fold.last_record() {
            // It is known only now, so that it needs a block of its own.
            let place = choice.fold.blocks().len();
            write_start_frame(place, |members| write_record_block(&record, members), out);
            write_stop_frame(place, out);
        }
        write_named_frame(out, "message_delta", |data| {
            data.object("delta", |members| write_stop(Some(finish), members));
            write_usage(answer.usage, data);
        });
        write_named_frame(out, "message_stop", |_| {});
    }

    fn fail(&mut self, error: &Error, _answer: Answer<'_>, out: &mut String) {
        write_named_frame(out, "error", |data| super::error::write_error_member(error, data));
    }

    fn keep_alive(&self, out: &mut String) {
        write_named_frame(out, "ping", |_| {});
    }

    fn response(&self, answer: Answer<'_>, out: &mut String) {
        super::response::write_response(self, answer, out);
    }
}
