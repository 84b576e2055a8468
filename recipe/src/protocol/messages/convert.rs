//! Messages request → conversation: the settings. The messages themselves are in `transcript`.

use std::borrow::Cow;

use crate::conversation::{Content, Conversation, Message, Part, ResponseFormat};
use crate::error::Error;
use crate::json::Value;
use crate::protocol::request::{Prepared, ReadOptions};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::sampling::{RequestedSampling, check_range, check_stop};
use crate::protocol::shared::tools::{self as shared_tools, CallRules};
use crate::protocol::shared::{schema, thinking};
use crate::wire::{Node, Path, Wire};

use super::blocks::Block;
use super::request::{MessagesMessage, MessagesRequest, OutputFormat, Role, SystemBlock};
use super::tools::{self, DeclaredTools};
use super::transcript;

/// How the first block of the instructions begins if it is meant for billing and not for the model.
const BILLING: &str = "x-anthropic-billing-header";

/// Reads and checks a request.
pub(crate) fn read<'v>(body: &'v Value<'v>, options: &ReadOptions) -> Result<Prepared<'v>, Error> {
    let node = Node { value: body, path: &Path::Root };
    let request = MessagesRequest::read(node)?;
    let version = options.version(node, request.model)?;
    let effort = request.output_config.as_ref().and_then(|config| config.effort);
    let (thinking, effort) = thinking::resolve(request.thinking.as_ref(), effort, options.default_thinking);
    let web_search = options.messages_web_search;
    let choice = tools::choice(&request, web_search);
    let mut warnings = Vec::new();
    let declared = DeclaredTools::read(&request, version, web_search, choice, &mut warnings)?;
    let mut messages: Vec<Message<'v>> = request.system.as_ref().map(instructions).into_iter().collect();
    transcript::Reader { version, options, tools: &declared, warnings: &mut warnings }
        .read(&request.messages, &mut messages)?;
    let mut conversation = Conversation { messages, thinking, effort, ..Conversation::default() };
    let declares_tools = request.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let reasoning = "messages: content[].thinking";
    thinking::settle_history(&mut conversation, options.missing_reasoning, declares_tools, reasoning)?;
    continue_last(&mut conversation, &request);
    conversation.response_format = response_format(&request)?;
    conversation.tools = declared.tools;
    let path = Path::Key(&Path::Root, "tool_choice");
    let while_thinking = options.required_choice_while_thinking;
    let calls = shared_tools::apply_choice(&mut conversation, choice, while_thinking, &path)?;
    shared_tools::filter_added(&mut conversation, choice);
    let stop = request.stop_sequences.clone().unwrap_or_default();
    Ok(Prepared {
        stream: request.stream.unwrap_or(false),
        stop_sequences: check_stop(stop, &Path::Key(&Path::Root, "stop_sequences"))?,
        sampling: sampling(&request, node, options.max_tokens_bound(thinking))?,
        calls: CallRules { single: tools::single_call(&request), ..calls },
        format_path: "output_config.format.schema",
        thinking_budget: thinking::budget(request.thinking.as_ref(), request.max_thinking_tokens),
        warnings,
        ..Prepared::new(request.model, version, conversation)
    })
}

/// A last message of the model is one that it is to continue: in its reasoning, if that is what it ends with.
fn continue_last(conversation: &mut Conversation<'_>, request: &MessagesRequest<'_>) {
    let says = |message: &&MessagesMessage<'_>| transcript::lone_records(message).is_none();
    let last = request.messages.iter().rev().find(says);
    let Some(last) = last.filter(|message| message.role == Role::Assistant) else { return };
    if let Some(Message::Assistant(turn)) = conversation.messages.last_mut() {
        turn.prefix = true;
        turn.thinking_closed = match &last.content {
            TextOr::Text(_) => true,
            TextOr::Parts(blocks) => !matches!(blocks.last(), Some(Block::Thinking(_))),
        };
    }
}

fn response_format<'v>(request: &MessagesRequest<'v>) -> Result<ResponseFormat<'v>, Error> {
    let Some(OutputFormat::JsonSchema(format)) =
        request.output_config.as_ref().and_then(|config| config.format.as_ref())
    else {
        return Ok(ResponseFormat::Text);
    };
    let config = Path::Key(&Path::Root, "output_config");
    let path = Path::Key(&config, "format");
    schema::check_format(Node { value: format.schema, path: &Path::Key(&path, "schema") }, None)?;
    Ok(ResponseFormat::JsonSchema(Cow::Borrowed(format.schema)))
}

/// The system message of the instructions; there is one even if they are empty.
fn instructions<'v>(system: &TextOr<'v, SystemBlock<'v>>) -> Message<'v> {
    let content = match system {
        TextOr::Text(text) => (*text).into(),
        TextOr::Parts(blocks) => {
            let mut texts = blocks.iter().map(|SystemBlock::Text(block)| block.text).peekable();
            texts.next_if(|text| text.get(..BILLING.len()).is_some_and(|start| start.eq_ignore_ascii_case(BILLING)));
            Content::joined(texts.map(|text| Part::Text(Cow::Borrowed(text))))
        }
    };
    Message::System { content, tools: Vec::new() }
}

fn sampling(request: &MessagesRequest<'_>, node: Node<'_, '_>, bound: u32) -> Result<RequestedSampling, Error> {
    let temperature =
        check_range(node, "temperature", request.temperature, |value| (0.0..=2.0).contains(&value), "from 0 to 2")?;
    let top_p =
        check_range(node, "top_p", request.top_p, |value| value > 0.0 && value <= 1.0, "above 0 and at most 1")?;
    let max_tokens = check_range(node, "max_tokens", request.max_tokens, |tokens| tokens > 0, "at least 1")?;
    Ok(RequestedSampling {
        max_tokens: max_tokens.map(|tokens| tokens.min(bound)),
        temperature,
        top_p,
        top_k: request.top_k,
        ..RequestedSampling::default()
    })
}
