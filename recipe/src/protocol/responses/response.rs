//! Responses: the response object, which opens and closes the stream and is the whole answer otherwise.

use super::error::write_failure;
use super::item::{Stage, status};
use super::stream::ResponsesWriter;
use crate::event::FinishReason;
use crate::protocol::answer::json_object::{ObjectWriter, write_json, write_object};
use crate::protocol::answer::writer::Answer;
use crate::protocol::{Fold, Usage};

/// Settings that the object repeats, with their values where the request said nothing, in wire order and between the
/// members that each answer fills.
const BEFORE_MODEL: &[(&str, &str)] =
    &[("instructions", "null"), ("max_output_tokens", "null"), ("max_tool_calls", "null")];
const BEFORE_USAGE: &[(&str, &str)] = &[
    ("parallel_tool_calls", "true"),
    ("presence_penalty", "0.0"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("prompt_cache_retention", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("service_tier", "\"default\""),
    ("store", "false"),
    ("temperature", "1.0"),
    ("text", r#"{"format":{"type":"text"},"verbosity":null}"#),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
];
const AFTER_USAGE: &[(&str, &str)] = &[("user", "null"), ("metadata", "{}")];

/// How far the answer came.
pub(super) fn answer_status(answer: Answer<'_>) -> &'static str {
    if answer.failure.is_some() {
        return status::FAILED;
    }
    match reason(answer) {
        None => status::IN_PROGRESS,
        Some(FinishReason::Stop | FinishReason::ToolCalls) => status::COMPLETED,
        Some(FinishReason::Length | FinishReason::ContentFilter) => status::INCOMPLETE,
    }
}

fn reason(answer: Answer<'_>) -> Option<FinishReason> {
    Some(answer.folds.first()?.finish()?.reason)
}

impl ResponsesWriter {
    /// Appends the response object.
    pub(super) fn write_response(&self, answer: Answer<'_>, out: &mut String) {
        let reason = reason(answer);
        write_object(out, |body| {
            body.string("id", &self.config.id);
            body.string("object", "response");
            body.number("created_at", self.config.created);
            body.string("status", answer_status(answer));
            body.json("background", "false");
            match reason {
                Some(_) => body.number("completed_at", answer.time),
                None => body.null("completed_at"),
            }
            body.null("content_filters");
            match answer.failure {
                Some(error) => write_failure(error, body),
                None => body.null("error"),
            }
            self.write_settings(&[("frequency_penalty", "0.0")], body);
            write_incomplete_details(reason, body);
            self.write_settings(BEFORE_MODEL, body);
            body.string("model", &self.config.model);
            body.null("moderation");
            self.write_output(answer, body);
            self.write_settings(BEFORE_USAGE, body);
            match reason {
                Some(_) => write_usage(answer.usage, body),
                None => body.null("usage"),
            }
            self.write_settings(AFTER_USAGE, body);
        });
    }

    fn write_output(&self, answer: Answer<'_>, body: &mut ObjectWriter<'_>) {
        let fold = answer.folds.first();
        let length = fold.map_or(0, |fold| fold.blocks().len());
        let record = fold.and_then(Fold::last_record);
        let places = 0..length + usize::from(record.is_some());
        body.array("output", fold.into_iter().flat_map(|fold| places.clone().map(move |place| (fold, place))), {
            |(fold, place), out| match &record {
                Some(record) if place == length => self.write_record_item(place, record, out),
                _ => self.write_item(fold, place, Stage::Whole, answer.failure.is_some(), out),
            }
        });
    }

    fn write_settings(&self, settings: &[(&str, &str)], body: &mut ObjectWriter<'_>) {
        for (key, default) in settings {
            match self.config.echo.as_ref().and_then(|echo| echo.get(key)) {
                Some(value) => body.value(key, |out| write_json(value, out)),
                None => body.json(key, default),
            }
        }
    }
}

fn write_incomplete_details(reason: Option<FinishReason>, body: &mut ObjectWriter<'_>) {
    let word = match reason {
        Some(FinishReason::Length) => "max_output_tokens",
        Some(FinishReason::ContentFilter) => "content_filter",
        _ => return body.null("incomplete_details"),
    };
    body.object("incomplete_details", |details| details.string("reason", word));
}

fn write_usage(usage: Usage, body: &mut ObjectWriter<'_>) {
    body.object("usage", |members| {
        members.number("input_tokens", usage.prompt);
        members.object("input_tokens_details", |details| details.number("cached_tokens", usage.cached));
        members.number("output_tokens", usage.output);
        members.object("output_tokens_details", |details| {
            details.number("reasoning_tokens", usage.reasoning.unwrap_or(0));
        });
        members.number("total_tokens", usage.total());
    });
}
