//! Chat Completions request → conversation: the messages, and that every call has its result right after it.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::conversation::{AssistantMessage, Content, Message, Part, ToolCall};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::model::Version;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images;
use crate::wire::Path;

use super::content::ContentPart;
use super::request::{self as wire, ChatMessage, ChatRequest};

/// How instructions begin if their first line is meant for billing.
const BILLING: &str = "x-anthropic-billing-header";

/// Reads what `request` says.
pub(super) fn read<'v>(request: &ChatRequest<'v>, version: Version) -> Result<Vec<Message<'v>>, Error> {
    let path = Path::Key(&Path::Root, "messages");
    if request.messages.is_empty() {
        return Err(Error::new(ErrorCode::EmptyArray, "messages", &[]));
    }
    let mut converted = Vec::with_capacity(request.messages.len());
    let (mut open_calls, mut answered) = (HashSet::new(), HashSet::new());
    for (index, message) in request.messages.iter().enumerate() {
        let place = MessagePlace { path: Path::Index(&path, index), index, version };
        if !matches!(message, ChatMessage::Tool(_)) {
            open_calls.clear();
        }
        match message {
            ChatMessage::System(message) | ChatMessage::Developer(message) => {
                let content = without_billing(place.content(&message.content)?);
                if !content.is_empty() {
                    converted.push(Message::System { content, tools: Vec::new() });
                }
            }
            ChatMessage::User(message) => converted.push(Message::User { content: place.content(&message.content)? }),
            ChatMessage::LatestReminder(message) => {
                converted.push(Message::LatestReminder { content: place.content(&message.content)? });
            }
            ChatMessage::Assistant(message) => {
                let turn = place.assistant(message)?;
                place.open_calls(message, &mut open_calls)?;
                place.check_results(message, &request.messages[index + 1..], &mut answered)?;
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
            arguments: call.function.arguments.0.clone().into(),
        });
        Ok(AssistantMessage {
            content,
            reasoning: message
                .reasoning_content
                .or_else(|| message.reasoning.and_then(Value::as_str))
                .map(Cow::Borrowed),
            calls: calls.collect(),
            prefix: message.prefix == Some(true),
            thinking_closed: false,
            records: message.token_history.and_then(Value::as_str).into_iter().collect(),
        })
    }

    /// Notes the ids of a message's calls.
    fn open_calls<'v>(&self, message: &wire::AssistantMessage<'v>, open: &mut HashSet<&'v str>) -> Result<(), Error> {
        match message.tool_calls.iter().flatten().find(|call| !open.insert(call.id)) {
            Some(call) => Err(self.fault("tool_calls", ErrorCode::DuplicateCallId, &call.id)),
            None => Ok(()),
        }
    }

    /// Checks that the calls of a message have their results right after it. What `answered` holds is lost.
    fn check_results<'v>(
        &self,
        message: &wire::AssistantMessage<'v>,
        after: &[ChatMessage<'v>],
        answered: &mut HashSet<&'v str>,
    ) -> Result<(), Error> {
        let calls = message.tool_calls.as_deref().unwrap_or_default();
        let results = after.iter().map_while(|message| match message {
            ChatMessage::Tool(result) => Some(result.tool_call_id),
            _ => None,
        });
        answered.clear();
        answered.extend(results.take(calls.len()));
        match calls.iter().find(|call| !answered.contains(call.id)) {
            Some(call) => Err(self.fault("tool_calls", ErrorCode::MissingToolResult, &call.id)),
            None => Ok(()),
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
            ContentPart::Text(part) | ContentPart::InputText(part) | ContentPart::OutputText(part) => {
                Ok(Part::Text(part.text.into()))
            }
            ContentPart::Refusal(part) => Ok(Part::Text(part.refusal.into())),
            ContentPart::ImageUrl(part) => {
                let wrapper = Path::Key(path, "image_url");
                let url = images::Location { text: part.image_url.url, path: &Path::Key(&wrapper, "url") };
                images::from_url(url, part.image_url.detail.into(), place, self.version)
            }
            ContentPart::File(part) => {
                let wrapper = Path::Key(path, "file");
                let (id, text, path) = match &part.file {
                    Some(file) if part.file_id.is_none() && part.file_data.is_none() => {
                        (file.file_id, file.file_data, &wrapper)
                    }
                    _ => (part.file_id, part.file_data, path),
                };
                let data = Path::Key(path, "file_data");
                let file = images::File { id, data: text.map(|text| images::Location { text, path: &data }) };
                images::from_file(&file, path, place, self.version)
            }
        }
    }
}

/// Instructions without their first line, if that is meant for billing and not for the model.
fn without_billing(content: Content<'_>) -> Content<'_> {
    if !matches!(content.0.first(), Some(Part::Text(text)) if text.starts_with(BILLING)) {
        return content;
    }
    let mut in_header = true;
    let mut kept = Vec::new();
    for part in content.0 {
        // Borrowed from the request, all text of Chat Completions is.
        let Part::Text(Cow::Borrowed(text)) = part else {
            kept.push(part);
            continue;
        };
        if !kept.is_empty() {
            kept.push(part);
            continue;
        }
        let after = if in_header { text.split_once('\n').map(|(_, after)| after) } else { Some(text) };
        let Some(after) = after else { continue };
        in_header = false;
        let after = after.trim_start();
        if !after.is_empty() {
            kept.push(Part::Text(after.into()));
        }
    }
    Content(kept)
}
