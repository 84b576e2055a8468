//! The request protocols: each a thin leaf between its own JSON and the codec's common forms. One never knows another.

pub mod chat_completions;
mod request;
mod shared;

use crate::error::Error;
use crate::json::Value;

pub use request::{Prepared, ReadOptions, ServerTools};
pub use shared::sampling::{RequestedSampling, Sampling};
pub use shared::thinking::MissingReasoning;

/// A wire protocol.
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

    /// Reads and checks a request body.
    pub(crate) fn read<'v>(self, body: &'v Value<'v>, options: &ReadOptions) -> Result<Prepared<'v>, Error> {
        match self {
            Protocol::ChatCompletions => chat_completions::read(body, options),
            Protocol::Responses | Protocol::Messages => {
                Err(Error::new(crate::error::ErrorCode::Unsupported, "", &[("found", &"this protocol")]))
            }
        }
    }
}
