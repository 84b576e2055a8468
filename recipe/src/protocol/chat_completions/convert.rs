//! Chat Completions request → conversation: the settings and the tools. The messages are in `messages`.

use std::borrow::Cow;

use crate::conversation::{Conversation, Tool};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::protocol::request::{Prepared, ReadOptions};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::sampling::{RequestedSampling, check_logit_bias, check_range, check_stop};
use crate::protocol::shared::tools::{CallRules, Choice, Declaration};
use crate::protocol::shared::{thinking, tools};
use crate::wire::{Node, Path, Wire};

use super::choice::ChatToolChoice;
use super::request::{self as wire, ChatMessage, ChatRequest};
use super::tools::ChatTool;
use super::{messages, structured};

/// Most answers to one request.
const MOST_CHOICES: u8 = 8;
/// Most alternatives to a token.
const MOST_LOGPROBS: u8 = 20;

/// Reads and checks a request.
pub(crate) fn read<'v>(body: &'v Value<'v>, options: &ReadOptions) -> Result<Prepared<'v>, Error> {
    let node = Node { value: body, path: &Path::Root };
    let request = ChatRequest::read(node)?;
    let version = options.version(node, request.model)?;
    let (thinking, effort) =
        thinking::resolve(request.thinking.as_ref(), request.reasoning_effort, options.default_thinking);
    let messages = messages::read(&request, version)?;
    let mut conversation = Conversation { messages, thinking, effort, ..Conversation::default() };
    let declares_tools = request.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    thinking::settle_history(
        &mut conversation,
        options.missing_reasoning,
        declares_tools,
        "messages: reasoning_content",
    )?;
    check_prefix(&request)?;
    conversation.response_format = structured::response_format(&request, node, &conversation)?;
    let choice = request.tool_choice.as_ref().map_or(Choice::Auto, ChatToolChoice::choice);
    conversation.tools = declared_tools(&request, choice)?;
    let calls = call_rules(&request, &mut conversation, options)?;
    let path = Path::Key(&Path::Root, "tools");
    let has_format = request.response_format.is_some() || request.structured_outputs.is_some();
    tools::check_strict_mix(&conversation.tools, has_format, &path)?;
    Ok(Prepared {
        stream: request.stream.unwrap_or(false),
        include_usage: include_usage(&request)?,
        choices: check_range(node, "n", request.n, |n| (1..=MOST_CHOICES).contains(&n), "from 1 to 8")?.unwrap_or(1),
        sampling: sampling(&request, node, options.max_tokens_bound(thinking))?,
        calls,
        unseen_format: structured::unseen_format(&request)?,
        format_path: structured::path(&request),
        is_format_strict: structured::is_strict(&request),
        thinking_budget: thinking::budget(request.thinking.as_ref(), request.max_thinking_tokens),
        stop_sequences: stop_sequences(&request)?,
        warnings: warnings(&request),
        ..Prepared::new(request.model, version, conversation)
    })
}

/// Applies the tool choice.
fn call_rules(
    request: &ChatRequest<'_>,
    conversation: &mut Conversation<'_>,
    options: &ReadOptions,
) -> Result<CallRules, Error> {
    let path = Path::Key(&Path::Root, "tool_choice");
    let choice = request.tool_choice.as_ref().map_or(Choice::Auto, ChatToolChoice::choice);
    let mut rules = tools::apply_choice(conversation, choice, options.required_choice_while_thinking, &path)?;
    if let Some(allowed) = request.tool_choice.as_ref().and_then(|choice| choice.allowed(&path)) {
        tools::allow(&mut rules, conversation, &allowed)?;
    }
    rules.single = request.parallel_tool_calls == Some(false);
    Ok(rules)
}

/// What is accepted and has no effect, though the client may expect one.
fn warnings(request: &ChatRequest<'_>) -> Vec<String> {
    let ignored = request.chat_template_kwargs.map(|_| {
        "chat_template_kwargs: has no effect; thinking and reasoning_effort set how the model thinks".to_owned()
    });
    ignored.into_iter().collect()
}

fn include_usage(request: &ChatRequest<'_>) -> Result<Option<bool>, Error> {
    match &request.stream_options {
        Some(_) if request.stream != Some(true) => {
            Err(Error::new(ErrorCode::Requires, "stream_options", &[("expected", &"stream: true")]))
        }
        Some(options) => Ok(options.include_usage),
        None => Ok(None),
    }
}

fn stop_sequences(request: &ChatRequest<'_>) -> Result<Vec<String>, Error> {
    let path = Path::Key(&Path::Root, "stop");
    match &request.stop {
        None => Ok(Vec::new()),
        Some(TextOr::Text("")) => Err(Error::new(ErrorCode::EmptyString, "stop", &[])),
        Some(TextOr::Text(text)) => Ok(vec![(*text).to_owned()]),
        Some(TextOr::Parts(texts)) => check_stop(texts.clone(), &path),
    }
}

fn sampling(request: &ChatRequest<'_>, node: Node<'_, '_>, bound: u32) -> Result<RequestedSampling, Error> {
    let penalty =
        |field, value| check_range(node, field, value, |value: f32| (-2.0..=2.0).contains(&value), "from -2 to 2");
    let presence_penalty = penalty("presence_penalty", request.presence_penalty)?;
    let frequency_penalty = penalty("frequency_penalty", request.frequency_penalty)?;
    if request.top_logprobs.is_some() && request.logprobs != Some(true) {
        return Err(Error::new(ErrorCode::Requires, "top_logprobs", &[("expected", &"logprobs: true")]));
    }
    let limits = format!("from 1 to {bound}");
    let (field, max_tokens) = match request.max_completion_tokens {
        None => ("max_tokens", request.max_tokens),
        newer => ("max_completion_tokens", newer),
    };
    let logit_bias = request
        .logit_bias
        .map_or(Ok(Vec::new()), |value| check_logit_bias(Node { value, path: &Path::Key(node.path, "logit_bias") }))?;
    Ok(RequestedSampling {
        max_tokens: check_range(node, field, max_tokens, |tokens| (1..=bound).contains(&tokens), &limits)?,
        temperature: check_range(
            node,
            "temperature",
            request.temperature,
            |value| (0.0..=2.0).contains(&value),
            "from 0 to 2",
        )?,
        top_p: check_range(node, "top_p", request.top_p, |value| value > 0.0 && value <= 1.0, "above 0 and at most 1")?,
        top_k: None,
        frequency_penalty,
        presence_penalty,
        logit_bias,
        seed: check_range(node, "seed", request.seed, |seed| seed < 1 << 63, "below 2^63")?,
        logprobs: request.logprobs.unwrap_or(false),
        top_logprobs: check_range(
            node,
            "top_logprobs",
            request.top_logprobs,
            |top| top <= MOST_LOGPROBS,
            "from 0 to 20",
        )?,
    })
}

fn check_prefix(request: &ChatRequest<'_>) -> Result<(), Error> {
    let messages = Path::Key(&Path::Root, "messages");
    for (index, message) in request.messages.iter().enumerate() {
        let ChatMessage::Assistant(wire::AssistantMessage { prefix: Some(true), .. }) = message else { continue };
        let message = Path::Index(&messages, index);
        let path = Path::Key(&message, "prefix").to_string();
        if index + 1 != request.messages.len() {
            return Err(Error::new(ErrorCode::PrefixNotLast, path, &[]));
        }
        if request.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return Err(Error::new(ErrorCode::PrefixConflict, path, &[("found", &"tools")]));
        }
        let calls = |message: &ChatMessage<'_>| match message {
            ChatMessage::Assistant(message) => message.tool_calls.is_some(),
            _ => false,
        };
        if request.messages.iter().any(calls) {
            return Err(Error::new(ErrorCode::PrefixConflict, path, &[("found", &"tool calls")]));
        }
        if matches!(request.response_format, Some(wire::ResponseFormat::JsonObject(_))) {
            return Err(Error::new(ErrorCode::PrefixConflict, path, &[("found", &"response_format json_object")]));
        }
    }
    Ok(())
}

/// The declared tools. The form of names is checked whatever the choice; all else only if the tools are to be shown.
fn declared_tools<'v>(request: &ChatRequest<'v>, choice: Choice<'_>) -> Result<Vec<Tool<'v>>, Error> {
    let path = Path::Key(&Path::Root, "tools");
    let declared = request.tools.as_deref().unwrap_or_default();
    for (index, tool) in declared.iter().enumerate() {
        let item = Path::Index(&path, index);
        let function = Path::Key(&item, "function");
        tools::check_name(tool.function.name, &Path::Key(&function, "name"))?;
    }
    if choice == Choice::None {
        return Ok(Vec::new());
    }
    tools::check_unique(declared.iter().map(|tool| tool.function.name), &path)?;
    let convert = |(index, tool): (usize, &ChatTool<'v>)| {
        let item = Path::Index(&path, index);
        let function = Path::Key(&item, "function");
        let parameters = Path::Key(&function, "parameters");
        Declaration {
            name: tool.function.name.into(),
            description: tool.function.description.map(Cow::Borrowed),
            parameters: tool.function.parameters.map(|value| Node { value, path: &parameters }),
            strict: tool.function.strict,
            deferred: false,
        }
        .into_tool()
    };
    declared.iter().enumerate().map(convert).collect()
}
