//! What every request protocol reads its body into, besides the conversation itself.

use crate::conversation::Conversation;
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::model::Version;
use crate::wire::Node;

use super::shared::sampling::RequestedSampling;
use super::shared::thinking::MissingReasoning;

/// A request, understood and checked.
#[derive(Debug, Clone)]
pub struct Prepared<'v> {
    /// Name of the model, as the request says.
    pub model: &'v str,
    /// Format of its prompt.
    pub version: Version,
    /// What was said.
    pub conversation: Conversation<'v>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether the stream is to end with a chunk of usage; `None` where the protocol has no such setting.
    pub include_usage: Option<bool>,
    /// Number of answers wanted.
    pub choices: u8,
    /// Sampling settings.
    pub sampling: RequestedSampling,
    /// Texts that end the answer.
    pub stop_sequences: Vec<String>,
    /// What was left out of the request, for the operator to see.
    pub warnings: Vec<String>,
    /// Names of tools whose calls are answered as custom tool calls.
    pub custom_tools: Vec<String>,
    /// Tools of namespaces: name in the prompt, namespace, name within it.
    pub namespace_tools: Vec<(String, String, String)>,
    /// Settings that the answer repeats, as members of the response object.
    pub echo: Option<Value<'static>>,
}

/// What a reader of requests must know besides the body.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Served models and the versions of their prompts.
    pub models: Vec<(String, Version)>,
    /// Whether the model thinks when the request does not say.
    pub default_thinking: bool,
    /// What is done about assistant messages without reasoning.
    pub missing_reasoning: MissingReasoning,
    /// Web search in the Responses protocol.
    pub responses_web_search: ServerTools,
    /// Web search in the Messages protocol.
    pub messages_web_search: ServerTools,
    /// Highest `max_tokens` with thinking on, and off.
    pub max_tokens_bounds: (u32, u32),
}

/// What is done about tools that only a server could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTools {
    /// They are left out, with a warning.
    Drop,
    /// The request is refused.
    Reject,
}

impl ReadOptions {
    /// The version of the model that `field` of the body names.
    pub(super) fn version(&self, body: Node<'_, '_>, model: &str) -> Result<Version, Error> {
        if let Some((_, version)) = self.models.iter().find(|(name, _)| name == model) {
            return Ok(*version);
        }
        let mut names: Vec<&str> = self.models.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        Err(body.member_node("model", |node| {
            node.fault(ErrorCode::ModelNotFound, &[("found", &model), ("expected", &names.join(", "))])
        }))
    }

    /// Highest `max_tokens`.
    pub(super) fn max_tokens_bound(&self, thinking: bool) -> u32 {
        if thinking { self.max_tokens_bounds.0 } else { self.max_tokens_bounds.1 }
    }
}
