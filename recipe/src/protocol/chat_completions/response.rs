//! Chat Completions: folds → the response that is not streamed, and the words that both forms use.

use super::stream::ChatCompletionsWriter;
use crate::event::{FinishReason, TokenLogprob};
use crate::history::Recorder;
use crate::protocol::Usage;
use crate::protocol::answer::json_object::{ObjectWriter, write_object};
use crate::protocol::answer::writer::Answer;
use crate::protocol::{Block, Call, Fold, Passage};

/// The word for the end of a choice.
pub(super) fn finish_word(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}

/// The member `usage`.
pub(super) fn write_usage(usage: Usage, body: &mut ObjectWriter<'_>) {
    body.object("usage", |members| {
        members.number("prompt_tokens", usage.prompt);
        members.number("completion_tokens", usage.output);
        members.number("total_tokens", usage.total());
        members.object("prompt_tokens_details", |details| details.number("cached_tokens", usage.cached));
        members.number("prompt_cache_hit_tokens", usage.cached);
        members.number("prompt_cache_miss_tokens", usage.missed());
        if let Some(reasoning) = usage.reasoning {
            members.object("completion_tokens_details", |details| details.number("reasoning_tokens", reasoning));
        }
    });
}

/// Appends the whole response; the error envelope, if the answer was broken off.
pub(super) fn write_response(writer: &ChatCompletionsWriter, answer: Answer<'_>, out: &mut String) {
    if let Some(error) = answer.failure {
        return super::write_error(error, out);
    }
    write_object(out, |body| {
        writer.write_head("chat.completion", body);
        body.array("choices", answer.folds.iter().enumerate(), |(index, fold), out| {
            write_choice(writer, index, fold, out);
        });
        if !answer.folds.is_empty() {
            write_usage(answer.usage, body);
        }
        body.optional_string("system_fingerprint", writer.fingerprint.as_deref());
    });
}

fn write_choice(writer: &ChatCompletionsWriter, index: usize, fold: &Fold, out: &mut String) {
    write_object(out, |choice| {
        choice.number("index", index as u64);
        choice.object("message", |message| write_message(writer.config.thinking, fold, message));
        write_logprobs(writer, fold, choice);
        choice.optional_string("finish_reason", fold.finish().map(|finish| finish_word(finish.reason)));
    });
}

fn write_message(thinking: bool, fold: &Fold, message: &mut ObjectWriter<'_>) {
    message.string("role", "assistant");
    message.escaped("content", texts(fold).map(Passage::json));
    if thinking || reasonings(fold).next().is_some() {
        message.escaped("reasoning_content", reasonings(fold).map(Passage::json));
    }
    if calls(fold).next().is_some() {
        message.array("tool_calls", calls(fold), write_call);
    }
    write_record(fold, message);
}

/// The member that carries the record of the answer's ids, where there is one.
pub(super) fn write_record(fold: &Fold, message: &mut ObjectWriter<'_>) {
    if let Some(record) = fold.recorder().and_then(Recorder::whole) {
        message.string("token_history", &record);
    }
}

fn write_call(call: &Call, out: &mut String) {
    write_object(out, |members| {
        members.number("index", call.index as u64);
        members.string("id", &call.id);
        members.string("type", "function");
        members.object("function", |function| {
            function.string("name", &call.name);
            function.string("arguments", &call.arguments);
        });
    });
}

fn write_logprobs(writer: &ChatCompletionsWriter, fold: &Fold, choice: &mut ObjectWriter<'_>) {
    let lists = [("content", entries(texts(fold))), ("reasoning_content", entries(reasonings(fold)))];
    if lists.iter().all(|(_, entries)| entries.is_empty()) {
        return choice.null("logprobs");
    }
    choice.object("logprobs", |members| {
        for (name, entries) in lists {
            if !entries.is_empty() {
                members.value(name, |out| writer.logprobs.write(entries, out));
            }
        }
    });
}

fn texts(fold: &Fold) -> impl Iterator<Item = &Passage> {
    fold.blocks().iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    })
}

fn reasonings(fold: &Fold) -> impl Iterator<Item = &Passage> {
    fold.blocks().iter().filter_map(|block| match block {
        Block::Reasoning(reasoning) => Some(reasoning),
        _ => None,
    })
}

fn calls(fold: &Fold) -> impl Iterator<Item = &Call> {
    fold.blocks().iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        _ => None,
    })
}

fn entries<'a>(passages: impl Iterator<Item = &'a Passage>) -> Vec<&'a TokenLogprob> {
    passages.flat_map(|passage| &passage.logprobs).collect()
}
