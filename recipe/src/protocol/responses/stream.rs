//! Responses: events → events of items and parts.
//!
//! Owns the sequence number and which item is open. Output indexes are places in the fold. Costs one frame per event;
//! an item's closing frames repeat the item, and the last frame the whole response, because the protocol wants them.

use std::sync::Arc;

use super::custom_input::CustomInput;
use super::item::{ItemKind, Stage, write_reasoning_part};
use super::response::answer_status;
use crate::error::Error;
use crate::event::{Event, Finish};
use crate::json::escape_line_ends_into;
use crate::protocol::AnswerConfig;
use crate::protocol::Usage;
use crate::protocol::answer::json_object::ObjectWriter;
use crate::protocol::answer::logprobs::LogprobPrinter;
use crate::protocol::answer::template::{Holes, Template};
use crate::protocol::answer::writer::{Answer, Choice, Writer};
use crate::protocol::sse::{write_comment, write_named_frame};
use crate::protocol::{Block, Fold};
use crate::tokenizer::Tokenizer;

/// Writes an answer as events of items.
#[derive(Debug)]
pub(in crate::protocol) struct ResponsesWriter {
    pub(super) config: AnswerConfig,
    pub(super) logprobs: LogprobPrinter,
    sequence: u64,
    open: Option<OpenItem>,
    /// The deltas of the item of this place.
    template: Template<usize>,
}

/// The item whose end was not yet written.
#[derive(Debug)]
struct OpenItem {
    place: usize,
    kind: ItemKind,
    id: String,
    /// Text of a custom tool's call, as far as it can be told.
    input: CustomInput,
}

impl ResponsesWriter {
    /// A writer for `config`.
    pub(in crate::protocol) fn new(config: AnswerConfig, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        Self { config, logprobs: LogprobPrinter::new(tokenizer), sequence: 0, open: None, template: Template::new() }
    }

    /// A frame with the next sequence number.
    fn frame(&mut self, name: &str, members: impl FnOnce(&Self, &mut ObjectWriter<'_>), out: &mut String) {
        write_named_frame(out, name, |data| {
            members(self, data);
            data.number("sequence_number", self.sequence);
        });
        self.sequence += 1;
    }

    fn response_frame(&mut self, name: &str, answer: Answer<'_>, out: &mut String) {
        self.frame(name, |this, data| data.value("response", |out| this.write_response(answer, out)), out);
    }

    /// Makes the last block of the fold the open item.
    fn turn_to_last(&mut self, fold: &Fold, out: &mut String) {
        let place = fold.blocks().len().saturating_sub(1);
        let Some(block) = fold.blocks().get(place) else { return };
        if self.open.as_ref().is_some_and(|open| open.place == place) {
            return;
        }
        self.close(fold, out);
        let kind = self.kind(block);
        let open = OpenItem { place, kind, id: self.item_id(kind, place), input: CustomInput::default() };
        self.item_frame("response.output_item.added", fold, place, Stage::Added, out);
        match kind {
            ItemKind::Reasoning => self.part_frame("added", &open, |_, out| write_reasoning_part("", out), out),
            ItemKind::Message => self.part_frame("added", &open, Self::write_empty_text_part, out),
            ItemKind::FunctionCall | ItemKind::CustomToolCall => {}
        }
        self.open = Some(open);
    }

    fn close(&mut self, fold: &Fold, out: &mut String) {
        let Some(mut open) = self.open.take() else { return };
        match &fold.blocks()[open.place] {
            Block::Reasoning(reasoning) => {
                let text = |_: &Self, data: &mut ObjectWriter<'_>| data.escaped("text", [reasoning.json()]);
                self.text_frame("response.reasoning_text.done", &open, text, out);
                self.part_frame("done", &open, |_, out| write_reasoning_part(reasoning.json(), out), out);
            }
            Block::Text(passage) => {
                let text = |this: &Self, data: &mut ObjectWriter<'_>| {
                    data.value("logprobs", |out| this.logprobs.write(&passage.logprobs, out));
                    data.escaped("text", [passage.json()]);
                };
                self.text_frame("response.output_text.done", &open, text, out);
                self.part_frame("done", &open, |this, out| this.write_text_part(passage, out), out);
            }
            Block::Call(call) if open.kind == ItemKind::CustomToolCall => {
                let mut rest = String::new();
                open.input.finish(&mut rest);
                self.input_delta(&open, &rest, out);
                let input = CustomInput::of(&call.arguments);
                let done = |_: &Self, data: &mut ObjectWriter<'_>| data.string("input", &input);
                self.call_frame("response.custom_tool_call_input.done", &open, done, out);
            }
            Block::Call(call) => {
                let done = |_: &Self, data: &mut ObjectWriter<'_>| data.string("arguments", &call.arguments);
                self.call_frame("response.function_call_arguments.done", &open, done, out);
            }
        }
        self.item_frame("response.output_item.done", fold, open.place, Stage::Whole, out);
    }

    fn item_frame(&mut self, name: &str, fold: &Fold, place: usize, stage: Stage, out: &mut String) {
        let members = |this: &Self, data: &mut ObjectWriter<'_>| {
            data.value("item", |out| this.write_item(fold, place, stage, false, out));
            data.number("output_index", place as u64);
        };
        self.frame(name, members, out);
    }

    /// The frames of the item that only carries a record.
    fn record_frames(&mut self, place: usize, record: &str, out: &mut String) {
        for name in ["response.output_item.added", "response.output_item.done"] {
            let members = |this: &Self, data: &mut ObjectWriter<'_>| {
                data.value("item", |out| this.write_record_item(place, record, out));
                data.number("output_index", place as u64);
            };
            self.frame(name, members, out);
        }
    }

    fn part_frame(&mut self, moment: &str, open: &OpenItem, part: impl FnOnce(&Self, &mut String), out: &mut String) {
        let name = format!("response.content_part.{moment}");
        self.text_frame(&name, open, |this, data| data.value("part", |out| part(this, out)), out);
    }

    /// A frame about the one part of an item.
    fn text_frame(
        &mut self,
        name: &str,
        open: &OpenItem,
        members: impl FnOnce(&Self, &mut ObjectWriter<'_>),
        out: &mut String,
    ) {
        let with_part = |this: &Self, data: &mut ObjectWriter<'_>| {
            data.number("content_index", 0);
            members(this, data);
        };
        self.call_frame(name, open, with_part, out);
    }

    /// A frame about an item without parts.
    fn call_frame(
        &mut self,
        name: &str,
        open: &OpenItem,
        members: impl FnOnce(&Self, &mut ObjectWriter<'_>),
        out: &mut String,
    ) {
        let with_item = |this: &Self, data: &mut ObjectWriter<'_>| {
            data.string("item_id", &open.id);
            data.number("output_index", open.place as u64);
            members(this, data);
        };
        self.frame(name, with_item, out);
    }

    fn arguments_delta(&mut self, open: &mut OpenItem, fragment: &str, out: &mut String) {
        if open.kind == ItemKind::CustomToolCall {
            let mut text = String::new();
            open.input.push(fragment, &mut text);
            return self.input_delta(open, &text, out);
        }
        self.delta(open, |out| escape_line_ends_into(fragment, out), out);
    }

    /// A frame with nothing but text of the open item, which is no custom tool's call.
    fn delta(&mut self, open: &OpenItem, text: impl FnOnce(&mut String), out: &mut String) {
        let render = |holes: &mut Holes, frame: &mut String| {
            write_named_frame(frame, open.kind.delta_name(), |data| {
                data.string("item_id", &open.id);
                data.number("output_index", open.place as u64);
                if open.kind != ItemKind::FunctionCall {
                    data.number("content_index", 0);
                }
                holes.text("delta", data);
                if open.kind == ItemKind::Message {
                    data.json("logprobs", "[]");
                }
                holes.number("sequence_number", data);
            });
        };
        self.template.write(open.place, self.sequence, text, render, out);
        self.sequence += 1;
    }

    fn input_delta(&mut self, open: &OpenItem, text: &str, out: &mut String) {
        if !text.is_empty() {
            let delta = |_: &Self, data: &mut ObjectWriter<'_>| data.string("delta", text);
            self.call_frame(open.kind.delta_name(), open, delta, out);
        }
    }
}

impl Writer for ResponsesWriter {
    fn start(&mut self, answer: Answer<'_>, _fingerprint: Option<&str>, out: &mut String) {
        let opening = Answer { folds: &[], usage: Usage::default(), ..answer };
        self.response_frame("response.created", opening, out);
        self.response_frame("response.in_progress", opening, out);
    }

    fn event(&mut self, event: &Event, choice: Choice<'_>, out: &mut String) {
        let fold = choice.fold;
        // An item closes when the next begins or the answer ends: only then is its status known.
        if !matches!(event, Event::CallEnd { .. }) {
            self.turn_to_last(fold, out);
        }
        let Some(mut open) = self.open.take() else { return };
        match event {
            Event::Reasoning(_) => self.delta(&open, |out| out.push_str(fold.latest_json()), out),
            Event::Text(passage) if passage.logprobs.is_empty() => {
                self.delta(&open, |out| out.push_str(fold.latest_json()), out);
            }
            Event::Text(passage) => {
                let delta = |this: &Self, data: &mut ObjectWriter<'_>| {
                    data.string("delta", &passage.text);
                    data.value("logprobs", |out| this.logprobs.write(&passage.logprobs, out));
                };
                self.text_frame(open.kind.delta_name(), &open, delta, out);
            }
            Event::CallArguments { fragment, .. } => self.arguments_delta(&mut open, fragment, out),
            Event::CallStart { .. } | Event::CallEnd { .. } | Event::CallParameterDropped { .. } | Event::Finish(_) => {
            }
        }
        self.open = Some(open);
    }

    fn finish(&mut self, _finish: &Finish, choice: Choice<'_>, answer: Answer<'_>, out: &mut String) {
        self.close(choice.fold, out);
        if let Some(record) = choice.fold.last_record() {
            self.record_frames(choice.fold.blocks().len(), &record, out);
        }
        self.response_frame(&format!("response.{}", answer_status(answer)), answer, out);
    }

    fn fail(&mut self, _error: &Error, answer: Answer<'_>, out: &mut String) {
        self.response_frame("response.failed", answer, out);
    }

    fn keep_alive(&self, out: &mut String) {
        write_comment(out);
    }

    fn response(&self, answer: Answer<'_>, out: &mut String) {
        self.write_response(answer, out);
    }
}
