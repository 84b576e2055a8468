//! Chat Completions: events → chunks.
//!
//! Owns the shape of a chunk, and of each choice the chunk of its latest text. Costs one frame per event.

use std::sync::Arc;

use super::response::{finish_word, write_record, write_response, write_usage};
use crate::error::Error;
use crate::event::{Delta, Event, Finish};
use crate::json::escape_line_ends_into;
use crate::protocol::Usage;
use crate::protocol::answer::json_object::{ObjectWriter, continue_object, write_array, write_object};
use crate::protocol::answer::logprobs::LogprobPrinter;
use crate::protocol::answer::template::{Holes, Template};
use crate::protocol::answer::writer::{Answer, Choice, Writer};
use crate::protocol::sse::{write_comment, write_frame};
use crate::protocol::{AnswerConfig, Block};
use crate::tokenizer::Tokenizer;

/// Writes an answer as chunks.
#[derive(Debug)]
pub(in crate::protocol) struct ChatCompletionsWriter {
    pub(super) config: AnswerConfig,
    pub(super) logprobs: LogprobPrinter,
    pub(super) fingerprint: Option<String>,
    /// The members that all chunks of the stream begin with.
    head: String,
    /// The chunks of text, one for each choice.
    templates: Vec<Template<Text>>,
}

/// What the text of a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Reasoning,
    Content,
    /// Of the arguments of a call.
    Arguments(usize),
}

/// What a chunk says of the usage.
enum ChunkUsage {
    /// Nothing, as a client that did not ask expects.
    Absent,
    /// That it comes in another chunk.
    Null,
    /// All of it.
    Given(Usage),
}

impl ChatCompletionsWriter {
    /// A writer for `config`.
    pub(in crate::protocol) fn new(config: AnswerConfig, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        let templates = (0..config.choices.max(1)).map(|_| Template::new()).collect();
        let logprobs = LogprobPrinter::new(tokenizer);
        Self { config, logprobs, fingerprint: None, head: String::new(), templates }
    }

    /// The first members of a chunk or of a response.
    pub(super) fn write_head(&self, object: &str, members: &mut ObjectWriter<'_>) {
        members.string("id", &self.config.id);
        members.string("object", object);
        members.number("created", self.config.created);
        members.string("model", &self.config.model);
    }

    fn chunk(&self, choices: impl FnOnce(&mut String), usage: &ChunkUsage, out: &mut String) {
        write_frame(out, |out| {
            continue_object(out, &self.head, |chunk| {
                chunk.value("choices", choices);
                match usage {
                    ChunkUsage::Absent => {}
                    ChunkUsage::Null => chunk.null("usage"),
                    ChunkUsage::Given(usage) => write_usage(*usage, chunk),
                }
            });
        });
    }

    /// A chunk with nothing but text, which `text` writes escaped.
    fn text(&mut self, choice: usize, kind: Text, text: impl FnOnce(&mut String), out: &mut String) {
        let mut templates = std::mem::take(&mut self.templates);
        let render = |holes: &mut Holes, frame: &mut String| {
            let delta = |delta: &mut ObjectWriter<'_>| match kind {
                Text::Reasoning => {
                    delta.null("content");
                    holes.text("reasoning_content", delta);
                }
                Text::Content => {
                    holes.text("content", delta);
                    if self.config.thinking {
                        delta.null("reasoning_content");
                    }
                }
                Text::Arguments(index) => write_call(delta, |members| {
                    members.number("index", index as u64);
                    members.object("function", |function| holes.text("arguments", function));
                }),
            };
            self.delta(choice, delta, frame);
        };
        if let Some(template) = templates.get_mut(choice) {
            template.write(kind, 0, text, render, out);
        }
        self.templates = templates;
    }

    /// A chunk of one choice that goes on.
    fn delta(&self, choice: usize, delta: impl FnOnce(&mut ObjectWriter<'_>), out: &mut String) {
        self.delta_with_logprobs(choice, delta, |choice| choice.null("logprobs"), out);
    }

    fn delta_with_logprobs(
        &self,
        choice: usize,
        delta: impl FnOnce(&mut ObjectWriter<'_>),
        logprobs: impl FnOnce(&mut ObjectWriter<'_>),
        out: &mut String,
    ) {
        let usage = if self.config.include_usage { ChunkUsage::Null } else { ChunkUsage::Absent };
        let choices = |out: &mut String| write_choice(choice, delta, logprobs, None, out);
        self.chunk(choices, &usage, out);
    }

    fn write_logprobs(&self, list: &str, passage: &Delta, choice: &mut ObjectWriter<'_>) {
        choice.object("logprobs", |lists| lists.value(list, |out| self.logprobs.write(&passage.logprobs, out)));
    }

    /// The text of a chunk without reasoning.
    fn write_content(&self, text: &str, delta: &mut ObjectWriter<'_>) {
        delta.string("content", text);
        if self.config.thinking {
            delta.null("reasoning_content");
        }
    }
}

/// The array with the one choice of a chunk.
fn write_choice(
    index: usize,
    delta: impl FnOnce(&mut ObjectWriter<'_>),
    logprobs: impl FnOnce(&mut ObjectWriter<'_>),
    finish_reason: Option<&str>,
    out: &mut String,
) {
    out.push('[');
    write_object(out, |choice| {
        choice.number("index", index as u64);
        choice.object("delta", delta);
        logprobs(choice);
        choice.optional_string("finish_reason", finish_reason);
    });
    out.push(']');
}

/// The array with the one call of a delta.
fn write_call(delta: &mut ObjectWriter<'_>, members: impl FnOnce(&mut ObjectWriter<'_>)) {
    delta.value("tool_calls", |out| write_array(out, [members], |members, out| write_object(out, members)));
}

impl Writer for ChatCompletionsWriter {
    fn start(&mut self, answer: Answer<'_>, fingerprint: Option<&str>, out: &mut String) {
        self.fingerprint = fingerprint.map(str::to_owned);
        let mut head = String::new();
        write_object(&mut head, |members| {
            self.write_head("chat.completion.chunk", members);
            members.optional_string("system_fingerprint", fingerprint);
        });
        head.pop();
        self.head = head;
        for choice in 0..answer.folds.len() {
            let opening = |delta: &mut ObjectWriter<'_>| {
                delta.string("role", "assistant");
                if self.config.thinking {
                    delta.null("content");
                    delta.string("reasoning_content", "");
                } else {
                    delta.string("content", "");
                }
            };
            self.delta(choice, opening, out);
        }
    }

    fn event(&mut self, event: &Event, choice: Choice<'_>, out: &mut String) {
        let latest = |out: &mut String| out.push_str(choice.fold.latest_json());
        match event {
            Event::Reasoning(passage) if passage.logprobs.is_empty() => {
                self.text(choice.index, Text::Reasoning, latest, out);
            }
            Event::Text(passage) if passage.logprobs.is_empty() => {
                self.text(choice.index, Text::Content, latest, out);
            }
            Event::Reasoning(passage) => self.delta_with_logprobs(
                choice.index,
                |delta| {
                    delta.null("content");
                    delta.string("reasoning_content", &passage.text);
                },
                |choice| self.write_logprobs("reasoning_content", passage, choice),
                out,
            ),
            Event::Text(passage) => self.delta_with_logprobs(
                choice.index,
                |delta| self.write_content(&passage.text, delta),
                |choice| self.write_logprobs("content", passage, choice),
                out,
            ),
            Event::CallStart { index, .. } => {
                let Some(Block::Call(call)) = choice.fold.blocks().last() else { return };
                let start = |members: &mut ObjectWriter<'_>| {
                    members.number("index", *index as u64);
                    members.string("id", &call.id);
                    members.string("type", "function");
                    members.object("function", |function| {
                        function.string("name", &call.name);
                        function.string("arguments", "");
                    });
                };
                self.delta(choice.index, |delta| write_call(delta, start), out);
            }
            Event::CallArguments { index, fragment } => {
                let fragment = |out: &mut String| escape_line_ends_into(fragment, out);
                self.text(choice.index, Text::Arguments(*index), fragment, out);
            }
            Event::CallEnd { .. } | Event::CallParameterDropped { .. } | Event::Finish(_) => {}
        }
    }

    fn finish(&mut self, finish: &Finish, choice: Choice<'_>, answer: Answer<'_>, out: &mut String) {
        let last = answer.ended();
        let usage = match (self.config.include_usage, last) {
            (true, _) => ChunkUsage::Null,
            (false, true) => ChunkUsage::Given(answer.usage),
            (false, false) => ChunkUsage::Absent,
        };
        let delta = |delta: &mut ObjectWriter<'_>| {
            self.write_content("", delta);
            write_record(choice.fold, delta);
        };
        let logprobs = |choice: &mut ObjectWriter<'_>| choice.null("logprobs");
        let reason = Some(finish_word(finish.reason));
        self.chunk(|out| write_choice(choice.index, delta, logprobs, reason, out), &usage, out);
        if last {
            if self.config.include_usage {
                self.chunk(|out| out.push_str("[]"), &ChunkUsage::Given(answer.usage), out);
            }
            write_done(out);
        }
    }

    fn fail(&mut self, error: &Error, _answer: Answer<'_>, out: &mut String) {
        write_frame(out, |out| super::write_error(error, out));
        // Clients that only look for the end of the stream must not wait for more.
        write_done(out);
    }

    fn keep_alive(&self, out: &mut String) {
        write_comment(out);
    }

    fn response(&self, answer: Answer<'_>, out: &mut String) {
        write_response(self, answer, out);
    }
}

fn write_done(out: &mut String) {
    write_frame(out, |out| out.push_str("[DONE]"));
}
