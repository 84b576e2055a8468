//! The codec's own JSON form of a conversation, for callers that have no protocol: what `encode_conversation` reads.
//!
//! It says directly what a [`Conversation`] holds; nothing is filled in, sorted or checked against anything else.

use std::borrow::Cow;

use crate::conversation::{
    AssistantMessage, Content, Conversation, Detail, Effort, ImageData, ImageSource, Message, Part, ResponseFormat,
    Tool, ToolCall, ToolChoice,
};
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::special::{Special, Spellings};
use crate::wire::{Node, Path, Wire, schema_object, wire_object, wire_tagged, wire_words};

wire_object! {
    /// A conversation. Members that are not listed are ignored.
    pub(crate) struct ConversationForm<'v> {
        /// The messages in order.
        messages: Vec<MessageForm<'v>>,
        /// Declared tools.
        tools: Option<Vec<ToolForm<'v>>>,
        /// Whether the model may, must or must not call tools; it may if this is absent.
        tool_choice: Option<ChoiceWord>,
        /// Whether the model thinks; it does if this is absent.
        thinking_mode: Option<bool>,
        /// How hard it thinks.
        reasoning_effort: Option<EffortForm>,
        /// Form of the answer, unless a schema or an expression gives it.
        response_format: Option<FormatWord>,
        /// JSON Schema of the answer.
        response_schema: Option<&'v Value<'v>>,
        /// Regular expression of the answer.
        response_regex: Option<&'v str>,
    }
}

wire_words! {
    /// Whether tools may be called.
    pub(crate) enum ChoiceWord {
        /// The model decides.
        Auto = "auto",
        /// No calls.
        None = "none",
        /// At least one call.
        Required = "required",
    }
}

wire_words! {
    /// How hard the model thinks.
    pub(crate) enum EffortForm {
        /// Briefly.
        Low = "low",
        /// The usual.
        High = "high",
        /// As `high`.
        ExtraHigh = "xhigh",
        /// As hard as it can.
        Max = "max",
    }
}

wire_words! {
    /// Form of the answer.
    pub(crate) enum FormatWord {
        /// Free text.
        Text = "text",
        /// Any JSON object.
        JsonObject = "json_object",
    }
}

wire_tagged! {
    /// A message.
    pub(crate) enum MessageForm<'v> by "role" {
        /// Instructions.
        System(SystemForm<'v>) = "system",
        /// The user.
        User(TextForm<'v>) = "user",
        /// The model.
        Assistant(AssistantForm<'v>) = "assistant",
        /// The result of a call.
        Tool(ResultForm<'v>) = "tool",
        /// A reminder just before the answer.
        LatestReminder(TextForm<'v>) = "latest_reminder",
    }
}

wire_object! {
    /// Instructions.
    pub(crate) struct SystemForm<'v> {
        /// The text. Spellings of the image token in it stand for the images, as far as there are any.
        content: Option<&'v str>,
        /// URLs of the images.
        images: Option<Vec<&'v str>>,
        /// Tools that this message adds.
        tools: Option<Vec<ToolForm<'v>>>,
    }
}

wire_object! {
    /// A message of text and images.
    pub(crate) struct TextForm<'v> {
        /// The text. Spellings of the image token in it stand for the images, as far as there are any.
        content: Option<&'v str>,
        /// URLs of the images.
        images: Option<Vec<&'v str>>,
    }
}

wire_object! {
    /// A turn of the model.
    pub(crate) struct AssistantForm<'v> {
        /// What it said.
        content: Option<&'v str>,
        /// URLs of the images.
        images: Option<Vec<&'v str>>,
        /// What it thought.
        reasoning_content: Option<&'v str>,
        /// Which tools it called.
        tool_calls: Option<Vec<CallForm<'v>>>,
        /// Whether the model is to continue this message.
        prefix: Option<bool>,
        /// The record that came with the message, a string; anything else is ignored.
        token_history: Option<&'v Value<'v>>,
    }
}

wire_object! {
    /// The result of a call.
    pub(crate) struct ResultForm<'v> {
        /// What the tool returned.
        content: Option<&'v str>,
        /// URLs of the images.
        images: Option<Vec<&'v str>>,
        /// Which call it answers.
        tool_call_id: Option<&'v str>,
    }
}

wire_object! {
    /// A tool.
    pub(crate) struct ToolForm<'v> {
        /// Its name.
        name: &'v str,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments; shown as `null` if it is absent.
        parameters: Option<&'v Value<'v>>,
        /// Whether arguments must follow the schema exactly.
        strict: Option<bool>,
        /// Whether its schema is shown only later.
        defer_loading: Option<bool>,
    }
}

wire_object! {
    /// A call with its parts named.
    pub(crate) struct NamedCall<'v> {
        /// Its id.
        id: Option<&'v str>,
        /// Name of the tool.
        name: &'v str,
        /// Its arguments, as JSON text.
        arguments: &'v str,
    }
}

/// A call: an object, or its three parts `[id, name, arguments]`.
#[derive(Debug, Clone)]
pub(crate) struct CallForm<'v>(NamedCall<'v>);

impl<'v> Wire<'v> for CallForm<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        let Value::Array(parts) = node.value else { return NamedCall::read(node).map(CallForm) };
        let [id, name, arguments] = parts.as_slice() else { return Err(node.wrong_type("id, name and arguments")) };
        let part = |index, value| Node { value, path: &Path::Index(node.path, index) }.string();
        let id = if *id == Value::Null { None } else { Some(part(0, id)?) };
        let call =
            NamedCall { id, name: part(1, name)?, arguments: part(2, arguments)?, _body: std::marker::PhantomData };
        Ok(CallForm(call))
    }

    fn schema() -> Value<'static> {
        let parts = schema_object([("type", "array".into()), ("minItems", 3.into()), ("maxItems", 3.into())]);
        schema_object([("anyOf", Value::Array(vec![NamedCall::schema(), parts]))])
    }
}

/// Reads a conversation. `spellings` tell what stands for an image in text.
pub(crate) fn read<'v>(body: &'v Value<'v>, spellings: &Spellings) -> Result<Conversation<'v>, Error> {
    let form = ConversationForm::read(Node { value: body, path: &Path::Root })?;
    let image = spellings.of(Special::Image);
    let thinking = form.thinking_mode.unwrap_or(true);
    Ok(Conversation {
        messages: form.messages.iter().map(|message| convert_message(message, image)).collect(),
        tools: convert_tools(form.tools.as_deref(), "tools"),
        tool_choice: match form.tool_choice {
            None | Some(ChoiceWord::Auto) => ToolChoice::Auto,
            Some(ChoiceWord::None) => ToolChoice::None,
            Some(ChoiceWord::Required) => ToolChoice::Required,
        },
        thinking,
        effort: form.reasoning_effort.filter(|_| thinking).map(|effort| match effort {
            EffortForm::Low => Effort::Low,
            EffortForm::High => Effort::High,
            EffortForm::ExtraHigh => Effort::ExtraHigh,
            EffortForm::Max => Effort::Max,
        }),
        response_format: response_format(&form)?,
    })
}

fn response_format<'v>(form: &ConversationForm<'v>) -> Result<ResponseFormat<'v>, Error> {
    let wants_object = form.response_format == Some(FormatWord::JsonObject);
    match (form.response_schema, form.response_regex) {
        (None, None) if wants_object => Ok(ResponseFormat::JsonObject),
        (None, None) => Ok(ResponseFormat::Text),
        (Some(schema), None) if !wants_object => Ok(ResponseFormat::JsonSchema(Cow::Borrowed(schema))),
        (None, Some(regex)) if !wants_object => Ok(ResponseFormat::Regex(regex.into())),
        _ => {
            let expected = "json_object in response_format, response_schema, response_regex";
            Err(Error::new(ErrorCode::ExactlyOne, "", &[("expected", &expected)]))
        }
    }
}

fn convert_message<'v>(message: &MessageForm<'v>, image: &str) -> Message<'v> {
    let content = |text: Option<&'v str>, images: Option<&Vec<&'v str>>| place_images(text, images, image);
    match message {
        MessageForm::System(message) => Message::System {
            content: content(message.content, message.images.as_ref()),
            tools: convert_tools(message.tools.as_deref(), "messages: tools"),
        },
        MessageForm::User(message) => Message::User { content: content(message.content, message.images.as_ref()) },
        MessageForm::LatestReminder(message) => {
            Message::LatestReminder { content: content(message.content, message.images.as_ref()) }
        }
        MessageForm::Tool(message) => Message::Tool {
            call_id: message.tool_call_id.map(Cow::Borrowed),
            content: content(message.content, message.images.as_ref()),
        },
        MessageForm::Assistant(message) => Message::Assistant(AssistantMessage {
            content: content(message.content, message.images.as_ref()),
            reasoning: message.reasoning_content.map(Cow::Borrowed),
            calls: message.tool_calls.iter().flatten().map(convert_call).collect(),
            prefix: message.prefix == Some(true),
            thinking_closed: false,
            records: message.token_history.and_then(Value::as_str).into_iter().collect(),
        }),
    }
}

fn convert_call<'v>(CallForm(call): &CallForm<'v>) -> ToolCall<'v> {
    ToolCall { id: call.id.map(Cow::Borrowed), name: call.name.into(), arguments: call.arguments.into() }
}

fn convert_tools<'v>(tools: Option<&[ToolForm<'v>]>, path: &str) -> Vec<Tool<'v>> {
    let convert = |(index, tool): (usize, &ToolForm<'v>)| Tool {
        name: tool.name.into(),
        description: tool.description.map(Cow::Borrowed),
        parameters: tool.parameters.map_or(Value::Null, Value::borrowed),
        enforced: None,
        strict: tool.strict,
        deferred: tool.defer_loading == Some(true),
        path: format!("{path}[{index}].parameters"),
    };
    tools.unwrap_or_default().iter().enumerate().map(convert).collect()
}

/// Puts the first images where the text spells the image token; images that are left have no place.
fn place_images<'v>(text: Option<&'v str>, images: Option<&Vec<&'v str>>, spelling: &str) -> Content<'v> {
    let source = |url: &&'v str| {
        let data = ImageData::Url((*url).into());
        ImageSource { data, detail: Detail::High, path: String::new() }
    };
    let mut sources = images.into_iter().flatten().map(source);
    let mut rest = text.unwrap_or_default();
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once(spelling) {
        let Some(source) = sources.next() else { break };
        parts.extend([Part::Text(before.into()), Part::Image(source)]);
        rest = after;
    }
    parts.push(Part::Text(rest.into()));
    parts.extend(sources.map(Part::UnplacedImage));
    Content(parts)
}
