//! The three protocols clients speak, and what their answers share.
//!
//! Owns the names of the protocols. Each protocol lies in a module of its own and imports no other; what two of them
//! print alike (server-sent events, JSON members, log probabilities, call ids) lies beside them, and [`AnswerWriter`]
//! drives whichever was asked for.

mod answer;
mod call_ids;
mod chat_completions;
mod fold;
mod json_object;
mod logprobs;
mod messages;
mod open_ai_error;
mod responses;
mod sse;
mod usage;
mod writer;

use crate::error::Error;

pub use answer::{AnswerConfig, AnswerWriter};
pub use fold::{Block, Call, Fold};
pub use logprobs::Vocabulary;
pub use usage::Usage;

/// A protocol in which clients ask and are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `OpenAI` Chat Completions.
    ChatCompletions,
    /// `OpenAI` Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::ChatCompletions, Protocol::Responses, Protocol::Messages];

    /// Name in code, options and command lines.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::ChatCompletions => "chat_completions",
            Protocol::Responses => "responses",
            Protocol::Messages => "messages",
        }
    }

    /// The protocol with this name.
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// The body of an HTTP answer that reports `error`, in this protocol's own envelope.
    pub fn error_body(self, error: &Error) -> String {
        let mut body = String::new();
        match self {
            Protocol::ChatCompletions => chat_completions::write_error(error, &mut body),
            Protocol::Responses => responses::write_error(error, &mut body),
            Protocol::Messages => messages::write_error(error, &mut body),
        }
        body
    }
}
