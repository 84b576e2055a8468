//! Responses: blocks → output items.
//!
//! Owns item ids, statuses and phases: the stream's events and the whole response print the same item the same way.

use super::custom_input::CustomInput;
use super::stream::ResponsesWriter;
use crate::event::{FinishReason, TokenLogprob};
use crate::history::Recorder;
use crate::protocol::answer::json_object::{ObjectWriter, write_array, write_object};
use crate::protocol::{Block, Call, Fold, Passage};

/// The kinds of output items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Reasoning,
    Message,
    FunctionCall,
    CustomToolCall,
}

impl ItemKind {
    fn word(self) -> &'static str {
        match self {
            ItemKind::Reasoning => "reasoning",
            ItemKind::Message => "message",
            ItemKind::FunctionCall => "function_call",
            ItemKind::CustomToolCall => "custom_tool_call",
        }
    }

    fn id_prefix(self) -> &'static str {
        match self {
            ItemKind::Reasoning => "rs",
            ItemKind::Message => "msg",
            ItemKind::FunctionCall => "fc",
            ItemKind::CustomToolCall => "ctc",
        }
    }

    /// Name of the event that brings more of the item's text.
    pub(super) fn delta_name(self) -> &'static str {
        match self {
            ItemKind::Reasoning => "response.reasoning_text.delta",
            ItemKind::Message => "response.output_text.delta",
            ItemKind::FunctionCall => "response.function_call_arguments.delta",
            ItemKind::CustomToolCall => "response.custom_tool_call_input.delta",
        }
    }
}

/// How much of an item is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Only what its beginning shows.
    Added,
    /// All of it.
    Whole,
}

/// Words for how far an item or a response came.
pub(super) mod status {
    pub(in crate::protocol::responses) const IN_PROGRESS: &str = "in_progress";
    pub(in crate::protocol::responses) const COMPLETED: &str = "completed";
    pub(in crate::protocol::responses) const INCOMPLETE: &str = "incomplete";
    pub(in crate::protocol::responses) const FAILED: &str = "failed";
}

impl ResponsesWriter {
    /// The kind of item a block is shown as.
    pub(super) fn kind(&self, block: &Block) -> ItemKind {
        match block {
            Block::Reasoning(_) => ItemKind::Reasoning,
            Block::Text(_) => ItemKind::Message,
            Block::Call(call) if self.is_custom(&call.name) => ItemKind::CustomToolCall,
            Block::Call(_) => ItemKind::FunctionCall,
        }
    }

    /// Id of the item at a place of the output.
    pub(super) fn item_id(&self, kind: ItemKind, place: usize) -> String {
        format!("{}_{}_{place}", kind.id_prefix(), self.config.id)
    }

    /// Appends the item at a place of the output.
    pub(super) fn write_item(&self, fold: &Fold, place: usize, stage: Stage, failed: bool, out: &mut String) {
        let Some(block) = fold.blocks().get(place) else { return };
        let kind = self.kind(block);
        let status = if stage == Stage::Added { status::IN_PROGRESS } else { item_status(fold, place, failed) };
        write_object(out, |item| {
            item.string("type", kind.word());
            item.string("id", &self.item_id(kind, place));
            item.string("status", status);
            match block {
                Block::Reasoning(reasoning) => {
                    write_content(item, stage, |out| write_reasoning_part(reasoning.json(), out));
                    item.json("summary", "[]");
                    let record = fold.recorder().and_then(Recorder::reasoning);
                    let carried = record.unwrap_or_else(|| format!("{}-{place}", self.config.id));
                    item.string("encrypted_content", &carried);
                }
                Block::Text(text) => {
                    item.string("role", "assistant");
                    item.string("phase", phase(fold, place));
                    write_content(item, stage, |out| self.write_text_part(text, out));
                }
                Block::Call(call) => self.write_call(call, kind, stage, item),
            }
        });
    }

    /// Appends the item without text that ends the output and carries `record`.
    pub(super) fn write_record_item(&self, place: usize, record: &str, out: &mut String) {
        write_object(out, |item| {
            item.string("type", ItemKind::Reasoning.word());
            item.string("id", &self.item_id(ItemKind::Reasoning, place));
            item.string("status", status::COMPLETED);
            item.json("content", "[]");
            item.json("summary", "[]");
            item.string("encrypted_content", record);
        });
    }

    fn write_call(&self, call: &Call, kind: ItemKind, stage: Stage, item: &mut ObjectWriter<'_>) {
        item.string("call_id", &call.id);
        match self.config.namespace_tools.get(&call.name) {
            Some((namespace, name)) => {
                item.string("name", name);
                item.string("namespace", namespace);
            }
            None => item.string("name", &call.name),
        }
        match (kind, stage) {
            (ItemKind::CustomToolCall, Stage::Added) => item.string("input", ""),
            (ItemKind::CustomToolCall, Stage::Whole) => item.string("input", &CustomInput::of(&call.arguments)),
            (_, Stage::Added) => item.string("arguments", ""),
            (_, Stage::Whole) => item.string("arguments", &call.arguments),
        }
    }

    /// Appends the part that holds a message's text.
    pub(super) fn write_text_part(&self, text: &Passage, out: &mut String) {
        self.write_text_part_of(text.json(), &text.logprobs, out);
    }

    /// Appends the part of a message as its beginning shows it.
    pub(super) fn write_empty_text_part(&self, out: &mut String) {
        self.write_text_part_of("", &[], out);
    }

    fn write_text_part_of(&self, json: &str, logprobs: &[TokenLogprob], out: &mut String) {
        write_object(out, |part| {
            part.string("type", "output_text");
            part.json("annotations", "[]");
            part.value("logprobs", |out| self.logprobs.write(logprobs, out));
            part.escaped("text", [json]);
        });
    }

    fn is_custom(&self, name: &str) -> bool {
        self.config.custom_tools.iter().any(|custom| custom == name)
    }
}

/// Appends the part that holds reasoning, escaped already.
pub(super) fn write_reasoning_part(json: &str, out: &mut String) {
    write_object(out, |part| {
        part.string("type", "reasoning_text");
        part.escaped("text", [json]);
    });
}

fn write_content(item: &mut ObjectWriter<'_>, stage: Stage, part: impl FnOnce(&mut String)) {
    let parts = (stage == Stage::Whole).then_some(part);
    item.value("content", |out| write_array(out, parts, |part, out| part(out)));
}

/// Only the item at the end of an answer that was cut is incomplete.
fn item_status(fold: &Fold, place: usize, failed: bool) -> &'static str {
    if place + 1 < fold.blocks().len() {
        return status::COMPLETED;
    }
    match fold.finish().map(|finish| finish.reason) {
        Some(FinishReason::Stop | FinishReason::ToolCalls) => status::COMPLETED,
        Some(FinishReason::Length | FinishReason::ContentFilter) => status::INCOMPLETE,
        None if failed => status::INCOMPLETE,
        None => status::IN_PROGRESS,
    }
}

/// A message that a call follows was not the answer yet.
fn phase(fold: &Fold, place: usize) -> &'static str {
    match fold.blocks().get(place + 1) {
        Some(Block::Call(_)) => "commentary",
        _ => "final_answer",
    }
}
