//! Chat Completions request → conversation.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::conversation::{AssistantMessage, Content, Conversation, Message, Part, ResponseFormat, Tool, ToolCall};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::model::Version;
use crate::protocol::request::{Prepared, ReadOptions};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::sampling::{RequestedSampling, check_range, check_stop};
use crate::protocol::shared::tools::{Choice, Declaration};
use crate::protocol::shared::{images, schema, thinking, tools};
use crate::wire::{Node, Path, Wire};

use super::request::{self as wire, ChatMessage, ChatRequest, ChatToolChoice, ContentPart};

/// Most answers to one request.
const MOST_CHOICES: u8 = 1;
/// Most alternatives to a token.
const MOST_LOGPROBS: u8 = 20;

/// Reads and checks a request.
pub(crate) fn read<'v>(body: &'v Value<'v>, options: &ReadOptions) -> Result<Prepared<'v>, Error> {
    let node = Node { value: body, path: &Path::Root };
    let request = ChatRequest::read(node)?;
    let version = options.version(node, request.model)?;
    let (thinking, effort) =
        thinking::resolve(request.thinking.as_ref(), request.reasoning_effort, options.default_thinking);
    let messages = messages(&request, version)?;
    let mut conversation = Conversation { messages, thinking, effort, ..Conversation::default() };
    let declares_tools = request.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    thinking::settle_history(
        &mut conversation,
        options.missing_reasoning,
        declares_tools,
        "messages: reasoning_content",
    )?;
    check_prefix(&request)?;
    conversation.response_format = response_format(&request, node, &conversation)?;
    let choice = match &request.tool_choice {
        None | Some(ChatToolChoice::Auto) => Choice::Auto,
        Some(ChatToolChoice::None) => Choice::None,
        Some(ChatToolChoice::Required) => Choice::Required,
        Some(ChatToolChoice::Named(named)) => Choice::Named(named.function.name),
    };
    conversation.tools = declared_tools(&request, choice)?;
    tools::apply_choice(&mut conversation, choice, &Path::Key(&Path::Root, "tool_choice"))?;
    let path = Path::Key(&Path::Root, "tools");
    tools::check_strict_mix(&conversation.tools, request.response_format.is_some(), &path)?;
    Ok(Prepared {
        model: request.model,
        version,
        stream: request.stream.unwrap_or(false),
        include_usage: include_usage(&request)?,
        choices: check_range(node, "n", request.n, |n| (1..=MOST_CHOICES).contains(&n), "1")?.unwrap_or(1),
        sampling: sampling(&request, node, options.max_tokens_bound(thinking))?,
        stop_sequences: stop_sequences(&request)?,
        warnings: Vec::new(),
        custom_tools: Vec::new(),
        namespace_tools: Vec::new(),
        echo: None,
        conversation,
    })
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
    for (field, value) in
        [("presence_penalty", request.presence_penalty), ("frequency_penalty", request.frequency_penalty)]
    {
        check_range(node, field, value, |value| (-2.0..=2.0).contains(&value), "from -2 to 2")?;
    }
    if request.top_logprobs.is_some() && request.logprobs != Some(true) {
        return Err(Error::new(ErrorCode::Requires, "top_logprobs", &[("expected", &"logprobs: true")]));
    }
    let limits = format!("from 1 to {bound}");
    Ok(RequestedSampling {
        max_tokens: check_range(
            node,
            "max_tokens",
            request.max_tokens,
            |tokens| (1..=bound).contains(&tokens),
            &limits,
        )?,
        temperature: check_range(
            node,
            "temperature",
            request.temperature,
            |value| (0.0..=2.0).contains(&value),
            "from 0 to 2",
        )?,
        top_p: check_range(node, "top_p", request.top_p, |value| value > 0.0 && value <= 1.0, "above 0 and at most 1")?,
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

fn response_format<'v>(
    request: &ChatRequest<'v>,
    body: Node<'_, 'v>,
    conversation: &Conversation<'v>,
) -> Result<ResponseFormat<'v>, Error> {
    match &request.response_format {
        None | Some(wire::ResponseFormat::Text(_)) => Ok(ResponseFormat::Text),
        Some(wire::ResponseFormat::Regex(format)) => Ok(ResponseFormat::Regex(format.regex.into())),
        Some(wire::ResponseFormat::JsonSchema(format)) => {
            let (path, value) = (Path::Key(body.path, "response_format"), format.json_schema.schema);
            let wrapper = Path::Key(&path, "json_schema");
            let node = Node { value, path: &Path::Key(&wrapper, "schema") };
            schema::check_format(node, format.json_schema.strict)?;
            Ok(ResponseFormat::JsonSchema(Cow::Borrowed(value)))
        }
        Some(wire::ResponseFormat::JsonObject(_)) => {
            if !conversation.says("json") {
                return Err(Error::new(ErrorCode::JsonWordMissing, "response_format", &[]));
            }
            Ok(ResponseFormat::JsonObject)
        }
    }
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
    let convert = |(index, tool): (usize, &wire::ChatTool<'v>)| {
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

fn messages<'v>(request: &ChatRequest<'v>, version: Version) -> Result<Vec<Message<'v>>, Error> {
    let path = Path::Key(&Path::Root, "messages");
    if request.messages.is_empty() {
        return Err(Error::new(ErrorCode::EmptyArray, "messages", &[]));
    }
    let mut converted = Vec::with_capacity(request.messages.len());
    let mut open_calls = HashSet::new();
    for (index, message) in request.messages.iter().enumerate() {
        let place = MessagePlace { path: Path::Index(&path, index), index, version };
        if !matches!(message, ChatMessage::Tool(_)) {
            open_calls.clear();
        }
        match message {
            ChatMessage::System(message) => {
                let content = place.content(&message.content)?;
                if !content.is_empty() {
                    converted.push(Message::System { content, tools: Vec::new() });
                }
            }
            ChatMessage::User(message) => converted.push(Message::User { content: place.content(&message.content)? }),
            ChatMessage::LatestReminder(message) => {
                converted.push(Message::LatestReminder { content: message.content.into() });
            }
            ChatMessage::Assistant(message) => {
                let turn = place.assistant(message)?;
                open_calls = place.check_results(message, &request.messages[index + 1..])?;
                converted.push(Message::Assistant(turn));
            }
            ChatMessage::Tool(message) => {
                if !open_calls.remove(message.tool_call_id) {
                    return Err(place.fault("tool_call_id", ErrorCode::UnexpectedToolResult, &message.tool_call_id));
                }
                let content = place.content(&message.content)?;
                converted.push(Message::Tool { call_id: Some(message.tool_call_id.into()), content });
            }
        }
    }
    Ok(converted)
}

/// One message of the request and what is needed to read it.
struct MessagePlace<'p> {
    path: Path<'p>,
    index: usize,
    version: Version,
}

impl MessagePlace<'_> {
    fn fault(&self, key: &str, code: ErrorCode, found: &dyn std::fmt::Display) -> Error {
        Error::new(code, Path::Key(&self.path, key).to_string(), &[("found", found)])
    }

    fn assistant<'v>(&self, message: &wire::AssistantMessage<'v>) -> Result<AssistantMessage<'v>, Error> {
        if message.tool_calls.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::new(ErrorCode::EmptyArray, Path::Key(&self.path, "tool_calls").to_string(), &[]));
        }
        let content = match &message.content {
            Some(content) => self.content(content)?,
            None if message.tool_calls.is_some() => Content::EMPTY,
            None => return Err(Error::new(ErrorCode::MissingContent, self.path.to_string(), &[])),
        };
        if content.0.iter().any(|part| matches!(part, Part::Image(_))) {
            return Err(Error::new(ErrorCode::MisplacedImage, Path::Key(&self.path, "content").to_string(), &[]));
        }
        let calls = message.tool_calls.iter().flatten().map(|call| ToolCall {
            id: Some(call.id.into()),
            name: call.function.name.into(),
            arguments: call.function.arguments.into(),
        });
        Ok(AssistantMessage {
            content,
            reasoning: message.reasoning_content.map(Cow::Borrowed),
            calls: calls.collect(),
            prefix: message.prefix == Some(true),
            thinking_closed: false,
        })
    }

    /// Checks that the calls of a message have their results right after it, and gives the ids of the calls.
    fn check_results<'v>(
        &self,
        message: &wire::AssistantMessage<'v>,
        after: &[ChatMessage<'v>],
    ) -> Result<HashSet<&'v str>, Error> {
        let calls = message.tool_calls.as_deref().unwrap_or_default();
        let mut ids = HashSet::with_capacity(calls.len());
        for call in calls {
            if !ids.insert(call.id) {
                return Err(self.fault("tool_calls", ErrorCode::DuplicateCallId, &call.id));
            }
        }
        let results = after.iter().map_while(|message| match message {
            ChatMessage::Tool(result) => Some(result.tool_call_id),
            _ => None,
        });
        let answered: HashSet<&str> = results.take(calls.len()).collect();
        match calls.iter().find(|call| !answered.contains(call.id)) {
            Some(call) => Err(self.fault("tool_calls", ErrorCode::MissingToolResult, &call.id)),
            None => Ok(ids),
        }
    }

    fn content<'v>(&self, content: &TextOr<'v, ContentPart<'v>>) -> Result<Content<'v>, Error> {
        let parts = match content {
            TextOr::Text(text) => return Ok((*text).into()),
            TextOr::Parts(parts) => parts,
        };
        let path = Path::Key(&self.path, "content");
        let convert = |(index, part)| self.part(part, &Path::Index(&path, index));
        Ok(Content::joined(parts.iter().enumerate().map(convert).collect::<Result<Vec<_>, _>>()?))
    }

    fn part<'v>(&self, part: &ContentPart<'v>, path: &Path<'_>) -> Result<Part<'v>, Error> {
        let place = format!(".messages[{}]", self.index);
        match part {
            ContentPart::Text(part) => Ok(Part::Text(part.text.into())),
            ContentPart::ImageUrl(part) => {
                let wrapper = Path::Key(path, "image_url");
                let url = images::Location { text: part.image_url.url, path: &Path::Key(&wrapper, "url") };
                images::from_url(url, part.image_url.detail.into(), place, self.version)
            }
            ContentPart::File(part) => {
                let data = Path::Key(path, "file_data");
                let file = images::File {
                    id: part.file_id,
                    data: part.file_data.map(|text| images::Location { text, path: &data }),
                };
                images::from_file(&file, path, place, self.version)
            }
        }
    }
}
