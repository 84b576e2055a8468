//! Sampling settings: their ranges, and what the service makes of them.

use crate::conversation::{Conversation, Effort};
use crate::error::{Error, ErrorCode};
use crate::model::Version;
use crate::wire::{Node, Path, Wire as _};

/// Settings as the request gave them, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestedSampling {
    /// Most tokens to generate.
    pub max_tokens: Option<u32>,
    /// Temperature.
    pub temperature: Option<f32>,
    /// Nucleus.
    pub top_p: Option<f32>,
    /// Most likely tokens that are kept.
    pub top_k: Option<u32>,
    /// What a token loses for each time it has come.
    pub frequency_penalty: Option<f32>,
    /// What a token loses once it has come.
    pub presence_penalty: Option<f32>,
    /// What is added to single tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed.
    pub seed: Option<u64>,
    /// Whether log probabilities are wanted.
    pub logprobs: bool,
    /// How many alternatives each has.
    pub top_logprobs: Option<u8>,
}

/// Settings that the engine is to use.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Most tokens to generate, if the request says; else see [`Sampling::resolve_max_tokens`].
    pub max_tokens: Option<u32>,
    /// Temperature.
    pub temperature: f32,
    /// Nucleus.
    pub top_p: f32,
    /// Most likely tokens that are kept; `None` for all.
    pub top_k: Option<u32>,
    /// What the logit of a token loses for each time it has come.
    pub frequency_penalty: f32,
    /// What the logit of a token loses once it has come.
    pub presence_penalty: f32,
    /// What is added to the logits of single tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed.
    pub seed: Option<u64>,
    /// Whether log probabilities are wanted.
    pub logprobs: bool,
    /// How many alternatives each has.
    pub top_logprobs: Option<u8>,
    default_max_tokens: u32,
}

/// Checks that the number at `field`, if there is one, satisfies `fits`.
pub(in crate::protocol) fn check_range<T>(
    body: Node<'_, '_>,
    field: &str,
    value: Option<T>,
    fits: impl Fn(T) -> bool,
    expected: &str,
) -> Result<Option<T>, Error>
where
    T: Copy,
{
    match value {
        Some(number) if !fits(number) => Err(body.member_node(field, |node| node.out_of_range(expected))),
        _ => Ok(value),
    }
}

/// Most stop sequences a request may have.
const STOP_LIMIT: usize = 16;

/// Checks stop sequences: not too many, none empty.
pub(in crate::protocol) fn check_stop(stop: Vec<&str>, path: &Path<'_>) -> Result<Vec<String>, Error> {
    if stop.len() > STOP_LIMIT {
        let values: [(&str, &dyn std::fmt::Display); 2] = [("limit", &STOP_LIMIT), ("found", &stop.len())];
        return Err(Error::new(ErrorCode::ArrayTooLong, path.to_string(), &values));
    }
    if let Some(index) = stop.iter().position(|text| text.is_empty()) {
        return Err(Error::new(ErrorCode::EmptyString, Path::Index(path, index).to_string(), &[]));
    }
    Ok(stop.into_iter().map(str::to_owned).collect())
}

/// Biases of single tokens: an object from ids to numbers.
pub(in crate::protocol) fn check_logit_bias(node: Node<'_, '_>) -> Result<Vec<(u32, f32)>, Error> {
    let bias = |(key, value)| {
        let node = Node { value, path: &Path::Key(node.path, key) };
        let id = key.parse().map_err(|_| node.fault(ErrorCode::InvalidTokenId, &[("found", &key)]))?;
        let bias = f32::read(node)?;
        if (-100.0..=100.0).contains(&bias) { Ok((id, bias)) } else { Err(node.out_of_range("from -100 to 100")) }
    };
    node.object()?.iter().map(bias).collect()
}

impl Sampling {
    /// What the service makes of the settings: a thinking model samples at temperature 1, and how far `top_p` counts
    /// depends on the version.
    pub fn resolve(requested: &RequestedSampling, conversation: &Conversation<'_>, version: Version) -> Self {
        let (temperature, top_p) = match (conversation.thinking, version) {
            (true, Version::V4) => (1.0, if conversation.uses_tools() { 0.95 } else { 1.0 }),
            (true, Version::V41) => (1.0, requested.top_p.map_or(1.0, |top_p| top_p.max(0.95))),
            (false, Version::V4) => (requested.temperature.unwrap_or(1.0), requested.top_p.unwrap_or(1.0)),
            (false, Version::V41) => (requested.temperature.unwrap_or(1.0), 1.0),
        };
        let default_max_tokens = match (conversation.thinking, conversation.effort) {
            (false, _) => 8192,
            (true, Some(Effort::Max)) => 131_072,
            (true, _) => 65_536,
        };
        Self {
            max_tokens: requested.max_tokens,
            temperature,
            top_p,
            top_k: requested.top_k.filter(|top_k| *top_k > 0),
            frequency_penalty: requested.frequency_penalty.unwrap_or(0.0),
            presence_penalty: requested.presence_penalty.unwrap_or(0.0),
            logit_bias: requested.logit_bias.clone(),
            seed: requested.seed,
            logprobs: requested.logprobs,
            top_logprobs: requested.top_logprobs,
            default_max_tokens,
        }
    }

    /// Most tokens to generate after `prompt_tokens` in a context of `context_length`.
    ///
    /// What the request asks for is kept if it fits and refused if it does not; without a wish, as much as is usual and fits.
    pub fn resolve_max_tokens(&self, prompt_tokens: u32, context_length: u32) -> Result<u32, Error> {
        let room = context_length.checked_sub(prompt_tokens);
        match (self.max_tokens, room) {
            (Some(wish), Some(room)) if wish <= room => Ok(wish),
            (None, Some(room)) => Ok(self.default_max_tokens.min(room).max(1)),
            (wish, _) => {
                let wish = wish.unwrap_or(0);
                let values: [(&str, &dyn std::fmt::Display); 4] = [
                    ("limit", &context_length),
                    ("sum", &(u64::from(prompt_tokens) + u64::from(wish))),
                    ("prompt", &prompt_tokens),
                    ("completion", &wish),
                ];
                Err(Error::new(ErrorCode::ContextLengthExceeded, "", &values))
            }
        }
    }
}
