//! Request → token ids: joins protocol, prompt format and tokenizer, and keeps what the answer's side must know.

use std::collections::HashMap;
use std::sync::Arc;

use crate::constraint::{Asked, Grammars};
use crate::conversation::ResponseFormat;
use crate::conversation_json;
use crate::encoded::{Encoded, asked_tools, constraint, continued, parsing_options};
use crate::error::{Error, ErrorCode};
use crate::history::{HistoryKey, Replay, Seal};
use crate::json::{Value, parse_into};
use crate::model::{DEFAULT_MODELS, Version};
use crate::prompt::{Draft, Prompt, Written, draft};
use crate::protocol::{
    Lookup, MissingReasoning, Prepared, Protocol, ReadOptions, RequiredWhileThinking, Sampling, ServerTools,
};
use crate::special::{Special, Spellings};
use crate::tokenizer::{Stretch, Tokenizer};

/// Settings of the codec: made once, used for any number of requests.
#[derive(Debug, Clone)]
pub struct Options {
    /// How request bodies are read.
    pub read: ReadOptions,
    /// Spellings that differ from the version's own.
    pub spellings: Vec<(Special, String)>,
    /// Tokenizers that replace the embedded ones.
    pub tokenizers: HashMap<&'static str, Arc<Tokenizer>>,
    /// The secret of token-faithful history; without one there is none.
    pub history_key: Option<HistoryKey>,
    /// The grammars of the last requests.
    pub grammars: Arc<Grammars>,
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
                required_choice_while_thinking: RequiredWhileThinking::Constrain,
                show_tool_errors: false,
                show_text_documents: false,
            },
            spellings: Vec::new(),
            tokenizers: HashMap::new(),
            history_key: None,
            grammars: Arc::default(),
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

    /// What seals and reads records of the model's ids, if there is a key.
    pub(crate) fn seal(&self, version: Version, tokenizer: &Tokenizer) -> Option<Seal> {
        self.history_key.as_ref().map(|key| key.seal(version, tokenizer))
    }
}

/// Turns a request body into token ids.
pub fn encode(body: &[u8], protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    encode_value(&parse_into(body, &mut Vec::new())?, protocol, options)
}

/// Turns a request body that was already parsed into token ids.
pub fn encode_value(body: &Value<'_>, protocol: Protocol, options: &Options) -> Result<Encoded, Error> {
    encode_continuing(body, protocol, options, None)
}

/// Turns a request body that was already parsed into token ids. `lookup` finds the responses and items that it goes on from.
pub fn encode_continuing(
    body: &Value<'_>,
    protocol: Protocol,
    options: &Options,
    lookup: Option<&dyn Lookup>,
) -> Result<Encoded, Error> {
    let stored = protocol.find_stored(body, lookup)?;
    let prepared = protocol.read(body, &stored, &options.read)?;
    let mut encoded = encode_prepared(prepared, options)?;
    encoded.protocol = Some(protocol);
    Ok(encoded)
}

/// Turns a conversation in the codec's own JSON form into token ids.
pub fn encode_conversation(body: &[u8], version: Version, options: &Options) -> Result<Encoded, Error> {
    encode_conversation_value(&parse_into(body, &mut Vec::new())?, version, options)
}

/// Turns a conversation in the codec's own JSON form, already parsed, into token ids.
pub fn encode_conversation_value(body: &Value<'_>, version: Version, options: &Options) -> Result<Encoded, Error> {
    let conversation = conversation_json::read(body, &options.spellings(version))?;
    let format_path = match conversation.response_format {
        ResponseFormat::JsonSchema(_) => "response_schema",
        ResponseFormat::Regex(_) => "response_regex",
        _ => "response_format",
    };
    let prepared = Prepared { format_path, ..Prepared::new(version.name(), version, conversation) };
    encode_prepared(prepared, options)
}

fn encode_prepared(prepared: Prepared<'_>, options: &Options) -> Result<Encoded, Error> {
    let Prepared { conversation, version, .. } = prepared;
    let (spellings, tokenizer) = (options.spellings(version), options.tokenizer(version));
    let (draft, turns) = draft(&conversation, version, &spellings);
    let seal = options.seal(version, &tokenizer);
    let faithful = seal.as_ref().filter(|_| !turns.is_empty());
    let sampling = Sampling::resolve(&prepared.sampling, &conversation, version);
    let mut parsing = parsing_options(&conversation);
    parsing.stop_sequences = prepared.stop_sequences;
    if let Some(allowed) = &prepared.calls.allowed {
        parsing.declared_tools = Some(allowed.clone());
    }
    parsing.top_logprobs = sampling.logprobs.then(|| sampling.top_logprobs.unwrap_or(0));
    let (constraint, beside_calls) = constraint(&conversation, prepared.calls, prepared.unseen_format.as_ref());
    let asked = Asked {
        tools: asked_tools(&conversation, &prepared.custom_tools),
        beside_calls,
        format_path: prepared.format_path,
        is_format_strict: prepared.is_format_strict,
        is_continued: continued(&conversation).is_some_and(|turn| !turn.content.is_empty()),
    };
    let (token_ids, written) = match faithful {
        None => (draft_ids(&draft, &spellings, &tokenizer)?, Written::by_ids(draft)),
        Some(seal) => {
            let prompt = draft.into_prompt(&spellings);
            let replay = Replay::new(&prompt, &turns, seal, &spellings, &tokenizer);
            (prompt_ids(&prompt, &replay, &spellings, &tokenizer)?, Written::whole(prompt))
        }
    };
    Ok(Encoded {
        token_ids,
        constraint,
        asked,
        thinking: conversation.thinking,
        thinking_budget: prepared.thinking_budget.filter(|_| conversation.thinking),
        written,
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
        // An answer that goes on in a turn has stretches of text that begin in the prompt.
        seal: seal.filter(|_| continued(&conversation).is_none()),
        tokenizer,
        spellings,
        grammars: Arc::clone(&options.grammars),
    })
}

/// The ids of a prompt in pieces: control tokens by their own ids, each stretch of text between them on its own.
fn draft_ids(draft: &Draft<'_>, spellings: &Spellings, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
    let known = ControlIds::new(draft.specials(), spellings, tokenizer)?;
    let stretches = draft.stretches().map(|(text, special)| {
        let id = special.and_then(|special| known.of(special));
        Stretch::Text(text, id)
    });
    let mut ids = Vec::new();
    tokenizer.encode_stretches(stretches, &mut ids);
    Ok(ids)
}

/// The ids of a prompt, some of whose texts have ids of their own.
pub(crate) fn prompt_ids(
    prompt: &Prompt<'_>,
    replay: &Replay,
    spellings: &Spellings,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, Error> {
    let known = ControlIds::new(prompt.specials.iter().map(|span| span.special), spellings, tokenizer)?;
    let texts = prompt.texts().map(|(start, text, special)| {
        let id = special.and_then(|special| known.of(special));
        replay.at(start).map_or(Stretch::Text(text.into(), id), |ids| Stretch::Ids(ids, id))
    });
    // Each is gone through more than once, and looked for only here.
    let (stretches, mut ids) = (texts.collect::<Vec<_>>(), Vec::new());
    tokenizer.encode_stretches(stretches.iter().copied(), &mut ids);
    Ok(ids)
}

/// The ids of the control tokens that a prompt has.
struct ControlIds([Option<u32>; Special::ALL.len()]);

impl ControlIds {
    fn new(
        specials: impl Iterator<Item = Special>,
        spellings: &Spellings,
        tokenizer: &Tokenizer,
    ) -> Result<Self, Error> {
        let mut known = Self([None; Special::ALL.len()]);
        for special in specials {
            if known.0[special as usize].is_none() {
                let spelling = spellings.of(special);
                let id = tokenizer.special_id(spelling);
                let unknown = || Error::new(ErrorCode::UnknownControlToken, "", &[("found", &spelling)]);
                known.0[special as usize] = Some(id.ok_or_else(unknown)?);
            }
        }
        Ok(known)
    }

    fn of(&self, special: Special) -> Option<u32> {
        self.0[special as usize]
    }
}
