//! Request → token ids: joins protocol, prompt format and tokenizer, and keeps what the answer's side must know.

use std::collections::HashMap;
use std::sync::Arc;

use crate::conversation::{Conversation, ImageSource, ResponseFormat, ToolChoice};
use crate::error::{Error, ErrorCode};
use crate::json::{Value, parse, write_compact, write_string};
use crate::model::{DEFAULT_MODELS, Version};
use crate::output::{InitialStage, ParsingOptions, QuotedCalls};
use crate::prompt::{Prompt, Segment, render};
use crate::protocol::{MissingReasoning, Prepared, Protocol, ReadOptions, Sampling, ServerTools};
use crate::special::{Special, Spellings};
use crate::tokenizer::Tokenizer;

/// Settings of the codec: made once, used for any number of requests.
#[derive(Debug, Clone)]
pub struct Options {
    /// How request bodies are read.
    pub read: ReadOptions,
    /// Spellings that differ from the version's own.
    pub spellings: Vec<(Special, String)>,
    /// Tokenizers that replace the embedded ones.
    pub tokenizers: HashMap<&'static str, Arc<Tokenizer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read: ReadOptions {
                models: DEFAULT_MODELS.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect(),
                default_thinking: true,
                missing_reasoning: MissingReasoning::Fill,
                responses_web_search: ServerTools::Drop,
                messages_web_search: ServerTools::Drop,
                max_tokens_bounds: (393_216, 393_216),
            },
            spellings: Vec::new(),
            tokenizers: HashMap::new(),
        }
    }
}

impl Options {
    /// The tokenizer of a version.
    pub fn tokenizer(&self, version: Version) -> Arc<Tokenizer> {
        self.tokenizers.get(version.name()).map_or_else(|| version.tokenizer(), Arc::clone)
    }

    /// The spellings of a version's control tokens.
    pub fn spellings(&self, version: Version) -> Spellings {
        let overrides = self.spellings.iter().cloned();
        overrides.fold(version.spellings(), |spellings, (special, spelling)| spellings.with(special, spelling))
    }
}

/// A request in the model's own terms.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The prompt's ids.
    pub token_ids: Vec<u32>,
    /// The prompt, with the sources of its images.
    pub prompt: Prompt<'static>,
    /// Name of the model, as the request says.
    pub model: String,
    /// Format of the prompt.
    pub version: Version,
    /// Protocol of the request.
    pub protocol: Option<Protocol>,
    /// Whether the model thinks.
    pub thinking: bool,
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
    /// How the answer is read.
    pub parsing: ParsingOptions,
}

/// What an answer must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// Tool calls, of these tools: a JSON array of their declarations.
    ToolCall {
        /// The declarations.
        tools: String,
        /// Whether the answer must begin with a call.
        required: bool,
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
}

/// Turns a request body into token ids.
pub fn encode(body: &[u8], protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    encode_value(&parse(body)?, protocol, options)
}

/// Turns a request body that was already parsed into token ids.
pub fn encode_value(body: &Value<'_>, protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    let prepared = protocol.read(body, &options.read)?;
    let Prepared { model, version, conversation, stream, include_usage, choices, sampling, stop_sequences } = prepared;
    let prompt = render(&conversation, version, &options.spellings(version));
    let sampling = Sampling::resolve(&sampling, &conversation, version);
    let mut parsing = parsing_options(&conversation);
    parsing.stop_sequences = stop_sequences;
    parsing.top_logprobs = sampling.logprobs.then(|| sampling.top_logprobs.unwrap_or(0));
    Ok(Encoded {
        token_ids: prompt_ids(&prompt, &options.tokenizer(version))?,
        constraint: constraint(&conversation),
        thinking: conversation.thinking,
        prompt: prompt.into_owned(),
        model: model.to_owned(),
        protocol: Some(protocol),
        version,
        stream,
        include_usage,
        choices,
        sampling,
        parsing,
    })
}

/// The ids of a prompt: control tokens by their own ids, each stretch of text between them on its own.
fn prompt_ids(prompt: &Prompt<'_>, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
    let mut ids = Vec::with_capacity(prompt.text.len() / 3);
    for segment in prompt.segments() {
        match segment {
            Segment::Text(text) => tokenizer.encode_plain(text, &mut ids),
            Segment::Special(_, spelling) => match tokenizer.special_id(spelling) {
                Some(id) => ids.push(id),
                None => return Err(Error::new(ErrorCode::UnknownControlToken, "", &[("found", &spelling)])),
            },
        }
    }
    Ok(ids)
}

/// How the answer to a conversation is read.
fn parsing_options(conversation: &Conversation<'_>) -> ParsingOptions {
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

fn initial_stage(conversation: &Conversation<'_>) -> InitialStage {
    use crate::conversation::Message;
    let prefix = match conversation.messages.last() {
        Some(Message::Assistant(turn)) if turn.prefix => Some(turn),
        _ => None,
    };
    match prefix {
        _ if !conversation.thinking => InitialStage::Content,
        Some(turn) if !turn.content.is_empty() => InitialStage::ContentContinuation,
        Some(turn) if turn.reasoning.as_deref().is_some_and(|reasoning| !reasoning.is_empty()) => {
            InitialStage::ReasoningContinuation
        }
        _ => InitialStage::ReasoningStart,
    }
}

fn constraint(conversation: &Conversation<'_>) -> Option<Constraint> {
    if conversation.uses_tools() {
        let required = conversation.tool_choice == ToolChoice::Required;
        return Some(Constraint::ToolCall { tools: tool_declarations(conversation), required });
    }
    match &conversation.response_format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(Constraint::Json { schema: None }),
        ResponseFormat::JsonSchema(schema) => {
            let mut text = String::new();
            write_compact(schema, &mut text);
            Some(Constraint::Json { schema: Some(text) })
        }
        ResponseFormat::Regex(pattern) => Some(Constraint::Regex { pattern: pattern.clone().into_owned() }),
    }
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
        write_compact(&tool.parameters, &mut out);
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

impl Prompt<'_> {
    /// A copy that borrows nothing from the request.
    pub fn into_owned(self) -> Prompt<'static> {
        let images = self.images.into_iter().map(ImageSource::into_owned).collect();
        Prompt { text: self.text, specials: self.specials, images }
    }
}
