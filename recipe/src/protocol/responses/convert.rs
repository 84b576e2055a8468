//! Responses request → conversation: the settings. The input items are in `transcript`, the tools in `toolbox`.

use std::borrow::Cow;

use crate::conversation::{Conversation, Message, ResponseFormat};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::protocol::request::{Prepared, ReadOptions, ServerTools, Stored};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::sampling::{RequestedSampling, check_range};
use crate::protocol::shared::tools::Choice;
use crate::protocol::shared::{schema, thinking, tools as shared_tools};
use crate::wire::{Node, Path, Wire};

use super::choice::{ChosenTool, ResponsesToolChoice};
use super::echo::echo;
use super::items::InputItem;
use super::request::{ResponsesRequest, TextFormat};
use super::toolbox::Toolbox;
use super::transcript::Transcript;

/// Most alternatives to a token.
const MOST_LOGPROBS: u8 = 20;
/// Where the schema of the answer stands.
const FORMAT_PATH: &str = "text.format.schema";

/// Reads and checks a request.
pub(crate) fn read<'v>(body: &'v Value<'v>, stored: &'v Stored, options: &ReadOptions) -> Result<Prepared<'v>, Error> {
    let node = Node { value: body, path: &Path::Root };
    let request = ResponsesRequest::read(node)?;
    let version = options.version(node, request.model)?;
    let effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort);
    let (thinking, effort) = thinking::resolve(None, effort, options.default_thinking);
    let choice = choice(&request, options.responses_web_search)?;
    let tool_choice = Path::Key(&Path::Root, "tool_choice");
    let mut toolbox = Toolbox::new(version, options.responses_web_search, choice == Choice::None);
    let declared = request.tools.as_deref().unwrap_or_default();
    toolbox.declare(declared, &Path::Key(&Path::Root, "tools"))?;
    let messages = messages(&request, stored, Transcript::new(version, &mut toolbox, instructions(&request)))?;
    let mut conversation = Conversation { messages, thinking, effort, ..Conversation::default() };
    let reasoning = "input: content[].text of reasoning";
    thinking::settle_history(&mut conversation, options.missing_reasoning, toolbox.has_tools(), reasoning)?;
    conversation.tools = toolbox.tools;
    let while_thinking = options.required_choice_while_thinking;
    let mut calls = shared_tools::apply_choice(&mut conversation, choice, while_thinking, &tool_choice)?;
    calls.single = request.parallel_tool_calls == Some(false);
    if let Some(ResponsesToolChoice::Allowed(allowed)) = &request.tool_choice {
        let (named, left_out) = allowed.named(&tool_choice);
        shared_tools::allow(&mut calls, &conversation, &named)?;
        toolbox.warnings.extend(left_out);
    }
    shared_tools::filter_added(&mut conversation, choice);
    conversation.response_format = response_format(&request, &conversation)?;
    let has_format = conversation.response_format != ResponseFormat::Text;
    shared_tools::check_strict_mix(&conversation.tools, has_format, &Path::Key(&Path::Root, "tools"))?;
    Ok(Prepared {
        stream: request.stream.unwrap_or(false),
        sampling: sampling(&request, node, options.max_tokens_bound(thinking))?,
        calls,
        format_path: FORMAT_PATH,
        is_format_strict: is_format_strict(&request),
        thinking_budget: request.max_thinking_tokens,
        warnings: toolbox.warnings,
        custom_tools: toolbox.custom_tools,
        namespace_tools: toolbox.namespace_tools,
        echo: Some(echo(body)),
        ..Prepared::new(request.model, version, conversation)
    })
}

fn instructions<'v>(request: &ResponsesRequest<'v>) -> Vec<Message<'v>> {
    let text = request.instructions.filter(|text| !text.is_empty());
    text.map(|text| Message::System { content: text.into(), tools: Vec::new() }).into_iter().collect()
}

/// What was said: stored items first, then the request's own, in which stored ones may be named.
fn messages<'v>(
    request: &ResponsesRequest<'v>,
    stored: &'v Stored,
    mut transcript: Transcript<'_, 'v>,
) -> Result<Vec<Message<'v>>, Error> {
    let previous = Path::Key(&Path::Root, "previous_response_id");
    for (index, value) in stored.earlier.iter().enumerate() {
        let path = Path::Index(&previous, index);
        transcript.item(&InputItem::read(Node { value, path: &path })?, &path)?;
    }
    let says_nothing = stored.earlier.is_empty() && request.instructions.is_none_or(str::is_empty);
    let items = match &request.input {
        None if says_nothing => return Err(Error::new(ErrorCode::MissingField, "input", &[])),
        None => return transcript.finish(),
        Some(TextOr::Text(text)) => {
            let mut messages = transcript.finish()?;
            messages.push(Message::User { content: (*text).into() });
            return Ok(messages);
        }
        Some(TextOr::Parts(items)) if items.is_empty() => {
            return Err(Error::new(ErrorCode::EmptyArray, "input", &[]));
        }
        Some(TextOr::Parts(items)) => items,
    };
    let input = Path::Key(&Path::Root, "input");
    for (index, item) in items.iter().enumerate() {
        let path = Path::Index(&input, index);
        let named = match item {
            InputItem::Reference(id) => stored.referenced.get(*id),
            _ => None,
        };
        match named {
            None => transcript.item(item, &path)?,
            Some(named) => {
                for value in named {
                    transcript.item(&InputItem::read(Node { value, path: &path })?, &path)?;
                }
            }
        }
    }
    transcript.finish()
}

/// The tool choice. Choosing a search that is left out is no choice.
fn choice<'v>(request: &ResponsesRequest<'v>, web_search: ServerTools) -> Result<Choice<'v>, Error> {
    Ok(match &request.tool_choice {
        None | Some(ResponsesToolChoice::Auto) => Choice::Auto,
        Some(ResponsesToolChoice::None) => Choice::None,
        Some(ResponsesToolChoice::Allowed(allowed)) => allowed.mode.choice(),
        Some(ResponsesToolChoice::Required) => Choice::Required,
        Some(ResponsesToolChoice::Named(ChosenTool::Function(tool) | ChosenTool::Custom(tool))) => {
            Choice::Named(tool.name)
        }
        Some(ResponsesToolChoice::Named(ChosenTool::WebSearch(_) | ChosenTool::DatedWebSearch(_))) => {
            if web_search == ServerTools::Reject {
                return Err(Error::new(ErrorCode::Unsupported, "tool_choice.type", &[("found", &"web search")]));
            }
            Choice::Auto
        }
    })
}

fn response_format<'v>(
    request: &ResponsesRequest<'v>,
    conversation: &Conversation<'v>,
) -> Result<ResponseFormat<'v>, Error> {
    match request.text.as_ref().and_then(|text| text.format.0.as_ref()) {
        None | Some(TextFormat::Text(_)) => Ok(ResponseFormat::Text),
        Some(TextFormat::JsonObject(_)) if conversation.says("json") => Ok(ResponseFormat::JsonObject),
        Some(TextFormat::JsonObject(_)) => Err(Error::new(ErrorCode::JsonWordMissing, "text.format", &[])),
        Some(TextFormat::JsonSchema(format)) => {
            let text = Path::Key(&Path::Root, "text");
            let path = Path::Key(&text, "format");
            let node = Node { value: format.schema, path: &Path::Key(&path, "schema") };
            schema::check_format(node, format.strict)?;
            Ok(ResponseFormat::JsonSchema(Cow::Borrowed(format.schema)))
        }
    }
}

fn is_format_strict(request: &ResponsesRequest<'_>) -> bool {
    match request.text.as_ref().and_then(|text| text.format.0.as_ref()) {
        Some(TextFormat::JsonSchema(format)) => format.strict == Some(true),
        _ => false,
    }
}

fn sampling(request: &ResponsesRequest<'_>, node: Node<'_, '_>, bound: u32) -> Result<RequestedSampling, Error> {
    let limits = format!("from 1 to {bound}");
    let temperature =
        check_range(node, "temperature", request.temperature, |value| (0.0..=2.0).contains(&value), "from 0 to 2")?;
    let top_p =
        check_range(node, "top_p", request.top_p, |value| value > 0.0 && value <= 1.0, "above 0 and at most 1")?;
    let top_logprobs =
        check_range(node, "top_logprobs", request.top_logprobs, |top| top <= MOST_LOGPROBS, "from 0 to 20")?;
    let fits = |tokens| (1..=bound).contains(&tokens);
    Ok(RequestedSampling {
        max_tokens: check_range(node, "max_output_tokens", request.max_output_tokens, fits, &limits)?,
        temperature,
        top_p,
        logprobs: top_logprobs.is_some(),
        top_logprobs,
        ..RequestedSampling::default()
    })
}
