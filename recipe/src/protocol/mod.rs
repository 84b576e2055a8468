//! The protocols that clients speak: each a thin leaf between its own JSON and the codec's common forms. One never knows
//! another; what several of them share lies in `shared` for requests and in `answer` for answers.

mod answer;
mod chat_completions;
mod messages;
mod request;
mod responses;
mod shared;
mod sse;

use crate::error::Error;
use crate::json::Value;

pub use answer::{AnswerConfig, AnswerWriter, Block, Call, Fold, Passage, Usage};
pub use request::{Lookup, Prepared, ReadOptions, ServerTools, Stored};
pub(crate) use responses::reference;
pub use shared::sampling::{RequestedSampling, Sampling};
pub use shared::thinking::MissingReasoning;
pub use shared::tools::{CallRules, RequiredWhileThinking};

/// A wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OpenAI Chat Completions.
    ChatCompletions,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 3] = [Protocol::ChatCompletions, Protocol::Responses, Protocol::Messages];

    /// The protocol's name in options and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::ChatCompletions => "chat_completions",
            Protocol::Responses => "responses",
            Protocol::Messages => "messages",
        }
    }

    /// The protocol called `name`.
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Finds what a request goes on from.
    pub(crate) fn find_stored(self, body: &Value<'_>, lookup: Option<&dyn Lookup>) -> Result<Stored, Error> {
        match self {
            Protocol::Responses => responses::find_stored(body, lookup),
            Protocol::ChatCompletions | Protocol::Messages => Ok(Stored::default()),
        }
    }

    /// Reads and checks a request body.
    pub fn read<'v>(
        self,
        body: &'v Value<'v>,
        stored: &'v Stored,
        options: &ReadOptions,
    ) -> Result<Prepared<'v>, Error> {
        match self {
            Protocol::ChatCompletions => chat_completions::read(body, options),
            Protocol::Responses => responses::read(body, stored, options),
            Protocol::Messages => messages::read(body, options),
        }
    }

    /// JSON Schema of a request body.
    pub(crate) fn request_schema(self) -> Value<'static> {
        match self {
            Protocol::ChatCompletions => chat_completions::request_schema(),
            Protocol::Responses => responses::request_schema(),
            Protocol::Messages => messages::request_schema(),
        }
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
