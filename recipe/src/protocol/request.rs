//! What every request protocol reads its body into, besides the conversation itself.

use std::collections::HashMap;

use crate::conversation::{Conversation, ResponseFormat};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::model::Version;
use crate::wire::Node;

use super::shared::sampling::RequestedSampling;
use super::shared::thinking::MissingReasoning;
use super::shared::tools::{CallRules, RequiredWhileThinking};

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
    /// What the answer's calls are held to, whatever the prompt shows.
    pub calls: CallRules,
    /// A form of the answer that the prompt does not show.
    pub unseen_format: Option<ResponseFormat<'v>>,
    /// Where the request gives the form of the answer.
    pub format_path: &'static str,
    /// Whether that form is strict in the sense of OpenAI's protocols.
    pub is_format_strict: bool,
    /// Most tokens of reasoning.
    pub thinking_budget: Option<u64>,
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

impl<'v> Prepared<'v> {
    /// A request that says nothing but its conversation.
    pub(crate) fn new(model: &'v str, version: Version, conversation: Conversation<'v>) -> Self {
        Self {
            model,
            version,
            conversation,
            stream: false,
            include_usage: None,
            choices: 1,
            sampling: RequestedSampling::default(),
            calls: CallRules::default(),
            unseen_format: None,
            format_path: "",
            is_format_strict: false,
            thinking_budget: None,
            stop_sequences: Vec::new(),
            warnings: Vec::new(),
            custom_tools: Vec::new(),
            namespace_tools: Vec::new(),
            echo: None,
        }
    }
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
    /// What is done about a call that is required of a model that thinks.
    pub required_choice_while_thinking: RequiredWhileThinking,
    /// Whether the model is told that a tool failed (Messages).
    pub show_tool_errors: bool,
    /// Whether the model reads documents in plain text (Messages).
    pub show_text_documents: bool,
}

/// What a request may go on from: responses and items that the caller keeps.
pub trait Lookup {
    /// What is kept under `id`: a list of items, a whole response, or a single item; `None` if nothing is.
    ///
    /// A list is all that was said up to and including the response. A response is an object with `output`; `input` adds
    /// what it answered, and `previous_response_id` names the response before it, which is looked up in turn.
    fn find(&self, id: &str) -> Result<Option<Value<'static>>, Error>;
}

impl<F: Fn(&str) -> Result<Option<Value<'static>>, Error>> Lookup for F {
    fn find(&self, id: &str) -> Result<Option<Value<'static>>, Error> {
        self(id)
    }
}

/// What a request goes on from, found.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Items that come before the request's own.
    pub(crate) earlier: Vec<Value<'static>>,
    /// Items that the request refers to by an id.
    pub(crate) referenced: HashMap<String, Vec<Value<'static>>>,
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
