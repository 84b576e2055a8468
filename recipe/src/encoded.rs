//! A request in the model's own terms, and what the answer's side must know of it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::constraint::{Asked, AskedTool, Grammar, Grammars, Mode};
use crate::conversation::{AssistantMessage, Conversation, ImageSource, Message, ResponseFormat, Tool, ToolChoice};
use crate::decoder::{Decoder, DecoderConfig};
use crate::error::Error;
use crate::history::Seal;
use crate::json::{Value, write_compact, write_string};
use crate::model::Version;
use crate::output::{InitialStage, ParsingOptions, QuotedCalls};
use crate::prompt::{Prompt, Written};
use crate::protocol::{AnswerConfig, CallRules, Protocol, Sampling};
use crate::special::{Special, Spellings};
use crate::tokenizer::Tokenizer;

/// A request in the model's own terms.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The prompt's ids.
    pub token_ids: Vec<u32>,
    /// What the prompt is put together from.
    pub(crate) written: Written,
    /// Name of the model, as the request says.
    pub model: String,
    /// Format of the prompt.
    pub version: Version,
    /// Protocol of the request.
    pub protocol: Option<Protocol>,
    /// Whether the model thinks.
    pub thinking: bool,
    /// Most tokens it is to think, if it thinks and the request says.
    pub thinking_budget: Option<u64>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether the stream is to end with a chunk of usage.
    pub include_usage: Option<bool>,
    /// Number of answers wanted.
    pub choices: u8,
    /// Sampling settings.
    pub sampling: Sampling,
    /// What the answer must match.
    pub constraint: Option<Constraint>,
    /// What its grammar is made of besides.
    pub asked: Asked,
    /// How the answer is read.
    pub parsing: ParsingOptions,
    /// What was left out of the request, for the operator to see.
    pub warnings: Vec<String>,
    /// Names of tools whose calls are answered as custom tool calls.
    pub custom_tools: Vec<String>,
    /// Tools of namespaces: name in the prompt, namespace, name within it.
    pub namespace_tools: Vec<(String, String, String)>,
    /// Settings that the answer repeats, as members of the response object.
    pub echo: Option<Value<'static>>,
    /// What seals the records of the answer's ids, if they are kept and the answer is a turn of its own.
    pub seal: Option<Seal>,
    /// What made the ids, and reads those of the answer.
    pub tokenizer: Arc<Tokenizer>,
    /// How the control tokens are spelled.
    pub spellings: Spellings,
    /// Grammars that were made before.
    pub(crate) grammars: Arc<Grammars>,
}

impl Encoded {
    /// The prompt. It is put together when it is first asked for, in time linear in its length.
    pub fn prompt(&self) -> &Prompt<'static> {
        self.written.prompt(&self.token_ids, &self.tokenizer)
    }

    /// Sources of the images, in prompt order.
    pub fn images(&self) -> &[ImageSource<'static>] {
        self.written.images()
    }

    /// What a decoder of the answer must know. A conversation given directly is answered as Chat Completions.
    pub fn decoder_config(&self, id: String, created: u64, seed: Vec<u8>) -> DecoderConfig {
        let protocol = self.protocol.unwrap_or(Protocol::ChatCompletions);
        let names = self.namespace_tools.iter().cloned();
        let answer = AnswerConfig {
            created,
            seed,
            thinking: self.thinking,
            custom_tools: self.custom_tools.clone(),
            namespace_tools: names.map(|(flat, namespace, name)| (flat, (namespace, name))).collect(),
            echo: self.echo.clone(),
            include_usage: self.include_usage.unwrap_or(false),
            choices: usize::from(self.choices),
            seal: self.seal.clone(),
            ..AnswerConfig::new(protocol, id, &self.model)
        };
        DecoderConfig { parsing: self.parsing.clone(), answer, spellings: self.spellings.clone() }
    }

    /// The id that stands in the prompt for each image; `None` if the vocabulary has none.
    pub fn image_token_id(&self) -> Option<u32> {
        self.tokenizer.special_id(self.spellings.of(Special::Image))
    }

    /// Whether the constraint holds only once the model has stopped thinking.
    pub fn constrained_after_thinking(&self) -> bool {
        matches!(self.parsing.initial_stage, InitialStage::ReasoningStart | InitialStage::ReasoningContinuation)
    }

    /// The grammar of the answer; `None` if any answer will do. Made in time linear in the schemas, unless the last requests
    /// with the same options had one that was made of the same.
    pub fn grammar(&self) -> Result<Option<Grammar>, Error> {
        crate::constraint::grammar(self)
    }

    /// A decoder of the answer.
    pub fn decoder(&self, id: String, created: u64, seed: Vec<u8>) -> Decoder {
        Decoder::new(self.decoder_config(id, created, seed), Some(Arc::clone(&self.tokenizer)))
    }
}

/// What an answer must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// Tool calls, of these tools: a JSON array of their declarations.
    ToolCall {
        /// The declarations.
        tools: String,
        /// What the calls are held to.
        rules: CallRules,
    },
    /// JSON, of this schema if one is given.
    Json {
        /// The schema, as compact JSON.
        schema: Option<String>,
    },
    /// Text that matches a regular expression.
    Regex {
        /// The expression.
        pattern: String,
    },
    /// Text that follows a grammar.
    Lark {
        /// The grammar.
        grammar: String,
    },
    /// One of some texts.
    Choice {
        /// The texts.
        texts: Vec<String>,
    },
}

/// How the answer to a conversation is read.
pub(crate) fn parsing_options(conversation: &Conversation<'_>) -> ParsingOptions {
    let starts_in_tool_calls = conversation.uses_tools() && conversation.tool_choice == ToolChoice::Required;
    ParsingOptions {
        initial_stage: initial_stage(conversation),
        parse_tool_calls: conversation.uses_tools(),
        starts_in_tool_calls,
        parse_json_output: conversation.response_format == ResponseFormat::JsonObject,
        stop_sequences: Vec::new(),
        declared_tools: Some(conversation.tools.iter().map(|tool| tool.name.clone().into_owned()).collect()),
        top_logprobs: None,
        quoted_calls: QuotedCalls::default(),
    }
}

/// The message that the model is to continue, if there is one.
pub(crate) fn continued<'c, 'a>(conversation: &'c Conversation<'a>) -> Option<&'c AssistantMessage<'a>> {
    match conversation.messages.last() {
        Some(Message::Assistant(turn)) if turn.prefix => Some(turn),
        _ => None,
    }
}

fn initial_stage(conversation: &Conversation<'_>) -> InitialStage {
    match continued(conversation) {
        _ if !conversation.thinking => InitialStage::Content,
        Some(turn) if turn.thinking_closed || !turn.content.is_empty() => InitialStage::ContentContinuation,
        Some(turn) if turn.reasoning.as_deref().is_some_and(|reasoning| !reasoning.is_empty()) => {
            InitialStage::ReasoningContinuation
        }
        _ => InitialStage::ReasoningStart,
    }
}

/// What the answer to a conversation must match: tool calls, or a form of the answer; beside tools, what must match that is
/// no call. `unseen` is a form that the prompt does not show.
pub(crate) fn constraint(
    conversation: &Conversation<'_>,
    mut rules: CallRules,
    unseen: Option<&ResponseFormat<'_>>,
) -> (Option<Constraint>, Option<Constraint>) {
    let format = match unseen {
        Some(format) => format_constraint(format),
        None => format_constraint(&conversation.response_format),
    };
    if !conversation.uses_tools() {
        return (format, None);
    }
    rules.required |= conversation.tool_choice == ToolChoice::Required;
    (Some(Constraint::ToolCall { tools: tool_declarations(conversation), rules }), format)
}

fn format_constraint(format: &ResponseFormat<'_>) -> Option<Constraint> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(Constraint::Json { schema: None }),
        ResponseFormat::JsonSchema(schema) => {
            let mut text = String::new();
            write_compact(schema, &mut text);
            Some(Constraint::Json { schema: Some(text) })
        }
        ResponseFormat::Regex(pattern) => Some(Constraint::Regex { pattern: pattern.clone().into_owned() }),
        ResponseFormat::Lark(grammar) => Some(Constraint::Lark { grammar: grammar.clone().into_owned() }),
        ResponseFormat::Choice(texts) => {
            Some(Constraint::Choice { texts: texts.iter().map(|text| (*text).to_owned()).collect() })
        }
    }
}

/// What a grammar must know of the tools.
pub(crate) fn asked_tools(conversation: &Conversation<'_>, custom: &[String]) -> Vec<AskedTool> {
    if !conversation.uses_tools() {
        return Vec::new();
    }
    let found: HashSet<&str> = conversation
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::System { tools, .. } => Some(tools.iter().map(|tool| tool.name.as_ref())),
            _ => None,
        })
        .flatten()
        .collect();
    let custom: HashSet<&str> = custom.iter().map(String::as_str).collect();
    let asked = |tool: &Tool<'_>| AskedTool {
        path: tool.path.clone(),
        is_shown: !tool.deferred || found.contains(tool.name.as_ref()),
        is_custom: custom.contains(tool.name.as_ref()),
        mode: match (tool.strict, &tool.enforced) {
            (Some(true), Some(_)) => Mode::Closed,
            (Some(true), None) => Mode::Strict,
            _ => Mode::Loose,
        },
    };
    conversation.tools.iter().map(asked).collect()
}

fn tool_declarations(conversation: &Conversation<'_>) -> String {
    let mut out = String::from("[");
    for (index, tool) in conversation.tools.iter().enumerate() {
        out.push_str(if index > 0 {
            ",{\"type\":\"function\",\"function\":{\"name\":"
        } else {
            "{\"type\":\"function\",\"function\":{\"name\":"
        });
        write_string(&tool.name, &mut out);
        out.push_str(",\"description\":");
        match &tool.description {
            Some(description) => write_string(description, &mut out),
            None => out.push_str("null"),
        }
        out.push_str(",\"parameters\":");
        write_compact(tool.enforced.as_ref().unwrap_or(&tool.parameters), &mut out);
        out.push_str(match tool.strict {
            None => ",\"strict\":null}",
            Some(true) => ",\"strict\":true}",
            Some(false) => ",\"strict\":false}",
        });
        out.push_str(if tool.deferred { ",\"defer_loading\":true}" } else { "}" });
    }
    out.push(']');
    out
}
