//! Request → token ids: joins protocol, prompt format and tokenizer, and keeps what the answer's side must know.

use std::collections::HashMap;
use std::sync::Arc;

use crate::conversation_json;
use crate::encoded::{Encoded, constraint, parsing_options};
use crate::error::{Error, ErrorCode};
use crate::json::{Value, parse};
use crate::model::{DEFAULT_MODELS, Version};
use crate::prompt::{Prompt, Segment, render};
use crate::protocol::{MissingReasoning, Prepared, Protocol, ReadOptions, RequestedSampling, Sampling, ServerTools};
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

/// Turns a request body into token ids.
pub fn encode(body: &[u8], protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    encode_value(&parse(body)?, protocol, options)
}

/// Turns a request body that was already parsed into token ids.
pub fn encode_value(body: &Value<'_>, protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    let prepared = protocol.read(body, &options.read)?;
    let mut encoded = encode_prepared(prepared, options)?;
    encoded.protocol = Some(protocol);
    Ok(encoded)
}

/// Turns a conversation in the codec's own JSON form into token ids.
pub fn encode_conversation(body: &[u8], version: Version, options: &Options) -> Result<Encoded, Error> {
    encode_conversation_value(&parse(body)?, version, options)
}

/// Turns a conversation in the codec's own JSON form, already parsed, into token ids.
pub fn encode_conversation_value(body: &Value<'_>, version: Version, options: &Options) -> Result<Encoded, Error> {
    let conversation = conversation_json::read(body, &options.spellings(version))?;
    let prepared = Prepared {
        model: version.name(),
        version,
        conversation,
        stream: false,
        include_usage: None,
        choices: 1,
        sampling: RequestedSampling::default(),
        stop_sequences: Vec::new(),
        warnings: Vec::new(),
        custom_tools: Vec::new(),
        namespace_tools: Vec::new(),
        echo: None,
    };
    encode_prepared(prepared, options)
}

fn encode_prepared(prepared: Prepared<'_>, options: &Options) -> Result<Encoded, Error> {
    let Prepared { conversation, version, .. } = prepared;
    let (spellings, tokenizer) = (options.spellings(version), options.tokenizer(version));
    let prompt = render(&conversation, version, &spellings);
    let sampling = Sampling::resolve(&prepared.sampling, &conversation, version);
    let mut parsing = parsing_options(&conversation);
    parsing.stop_sequences = prepared.stop_sequences;
    parsing.top_logprobs = sampling.logprobs.then(|| sampling.top_logprobs.unwrap_or(0));
    Ok(Encoded {
        token_ids: prompt_ids(&prompt, &tokenizer)?,
        constraint: constraint(&conversation),
        thinking: conversation.thinking,
        prompt: prompt.into_owned(),
        model: prepared.model.to_owned(),
        protocol: None,
        version,
        stream: prepared.stream,
        include_usage: prepared.include_usage,
        choices: prepared.choices,
        sampling,
        parsing,
        warnings: prepared.warnings,
        custom_tools: prepared.custom_tools,
        namespace_tools: prepared.namespace_tools,
        echo: prepared.echo,
        tokenizer,
        spellings,
    })
}

/// The ids of a prompt: control tokens by their own ids, each stretch of text between them on its own.
pub(crate) fn prompt_ids(prompt: &Prompt<'_>, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
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
