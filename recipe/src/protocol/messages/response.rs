//! Messages: fold → the message that is not streamed, and the words that both forms use.

use super::stream::MessagesWriter;
use crate::event::{Finish, FinishReason};
use crate::json::{Value, parse, write_compact};
use crate::protocol::Usage;
use crate::protocol::answer::json_object::{ObjectWriter, write_object};
use crate::protocol::answer::writer::Answer;
use crate::protocol::{Block, Call, Fold};

/// The members that say why the message ended. Calls that were made outrank a stop sequence after them.
pub(super) fn write_stop(finish: Option<&Finish>, members: &mut ObjectWriter<'_>) {
    let met = finish.and_then(|finish| finish.stop_sequence.as_deref());
    let (word, sequence) = match finish.map(|finish| finish.reason) {
        None => (None, None),
        Some(FinishReason::Stop) if met.is_some() => (Some("stop_sequence"), met),
        Some(FinishReason::Stop) => (Some("end_turn"), None),
        Some(FinishReason::ToolCalls) => (Some("tool_use"), None),
        Some(FinishReason::Length) => (Some("max_tokens"), None),
        Some(FinishReason::ContentFilter) => (Some("refusal"), None),
    };
    members.optional_string("stop_reason", word);
    members.optional_string("stop_sequence", sequence);
}

/// The member `usage`. Tokens found in the cache are not counted as input again.
pub(super) fn write_usage(usage: Usage, body: &mut ObjectWriter<'_>) {
    body.object("usage", |members| {
        members.number("input_tokens", usage.missed());
        members.number("cache_creation_input_tokens", 0);
        members.number("cache_read_input_tokens", usage.cached);
        members.number("output_tokens", usage.output);
        members.string("service_tier", "standard");
    });
}

/// Appends the whole message; the error envelope, if the answer was broken off.
pub(super) fn write_response(writer: &MessagesWriter, answer: Answer<'_>, out: &mut String) {
    match answer.failure {
        Some(error) => super::write_error(error, out),
        None => write_object(out, |message| write_message(writer, answer, message)),
    }
}

/// The members of a message.
pub(super) fn write_message(writer: &MessagesWriter, answer: Answer<'_>, message: &mut ObjectWriter<'_>) {
    let fold = answer.folds.first();
    let finish = fold.and_then(Fold::finish);
    message.string("id", &writer.config.id);
    message.string("type", "message");
    message.string("role", "assistant");
    message.string("model", &writer.config.model);
    let blocks = fold.map(Fold::blocks).unwrap_or_default();
    let signature = writer.signature(fold);
    let record = fold.and_then(Fold::last_record);
    let shown = blocks.iter().map(Shown::Block).chain(record.as_deref().map(Shown::Record));
    message.array("content", shown, |shown, out| {
        write_object(out, |members| match shown {
            Shown::Block(block) => write_block(block, &signature, members),
            Shown::Record(record) => write_record_block(record, members),
        });
    });
    write_stop(finish, message);
    write_usage(answer.usage, message);
}

/// What the content of a message consists of.
enum Shown<'a> {
    Block(&'a Block),
    Record(&'a str),
}

/// The members of the block that ends a message and carries a record. Clients send such blocks back as they came.
pub(super) fn write_record_block(record: &str, members: &mut ObjectWriter<'_>) {
    members.string("type", "redacted_thinking");
    members.string("data", record);
}

fn write_block(block: &Block, signature: &str, members: &mut ObjectWriter<'_>) {
    match block {
        Block::Reasoning(reasoning) => {
            members.string("type", "thinking");
            members.escaped("thinking", [reasoning.json()]);
            members.string("signature", signature);
        }
        Block::Text(text) => {
            members.string("type", "text");
            members.escaped("text", [text.json()]);
        }
        Block::Call(call) => {
            members.string("type", "tool_use");
            members.string("id", &call.id);
            members.string("name", &call.name);
            members.value("input", |out| write_input(call, out));
        }
    }
}

/// The arguments as an object; an empty one where the call was cut and there is no object to show.
fn write_input(call: &Call, out: &mut String) {
    match parse(call.arguments.as_bytes()) {
        Ok(input @ Value::Object(_)) => write_compact(&input, out),
        _ => out.push_str("{}"),
    }
}
