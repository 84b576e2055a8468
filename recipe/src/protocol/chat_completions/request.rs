//! The Chat Completions request body, field by field. The parts of content are in `content`, the tools in `tools`, the tool
//! choice in `choice`.

use std::borrow::Cow;

use crate::error::Error;
use crate::json::{Value, write_compact};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::thinking::{EffortWord, Thinking};
use crate::wire::{Node, Wire, schema_object, wire_object, wire_tagged};

use super::choice::ChatToolChoice;
use super::content::ContentPart;
use super::tools::{ChatTool, FunctionWord};

wire_object! {
    /// A Chat Completions request. Members that are not listed are ignored.
    pub(crate) struct ChatRequest<'v> {
        /// Name of a served model.
        model: &'v str,
        /// The conversation.
        messages: Vec<ChatMessage<'v>>,
        /// Most tokens to generate, by its older name.
        max_tokens: Option<u32>,
        /// Most tokens to generate; counts where both names are given.
        max_completion_tokens: Option<u32>,
        /// Sampling temperature, 0 to 2.
        temperature: Option<f32>,
        /// Nucleus sampling, above 0 and up to 1.
        top_p: Option<f32>,
        /// Number of answers, 1 to 8.
        n: Option<u8>,
        /// Up to 16 texts that end the answer.
        stop: Option<TextOr<'v, &'v str>>,
        /// Whether the answer is streamed.
        stream: Option<bool>,
        /// Settings of the stream.
        stream_options: Option<StreamOptions<'v>>,
        /// Tools the model may call.
        tools: Option<Vec<ChatTool<'v>>>,
        /// Whether it must, may or must not.
        tool_choice: Option<ChatToolChoice<'v>>,
        /// Whether several calls may be made in one turn; constrains the answer only.
        parallel_tool_calls: Option<bool>,
        /// Form of the answer.
        response_format: Option<ResponseFormat<'v>>,
        /// What the answer is held to without a word of it in the prompt, as other servers name it.
        structured_outputs: Option<StructuredOutputs<'v>>,
        /// How hard the model thinks.
        reasoning_effort: Option<EffortWord>,
        /// Whether it thinks.
        thinking: Option<Thinking<'v>>,
        /// Whether log probabilities are wanted.
        logprobs: Option<bool>,
        /// How many alternatives each has, up to 20.
        top_logprobs: Option<u8>,
        /// Makes sampling repeatable; below 2^63.
        seed: Option<u64>,
        /// What a token loses for each time it has come, from -2 to 2.
        frequency_penalty: Option<f32>,
        /// What a token loses once it has come, from -2 to 2.
        presence_penalty: Option<f32>,
        /// What is added to single tokens: ids to numbers from -100 to 100.
        logit_bias: Option<&'v Value<'v>>,
        /// Most tokens of reasoning, where `thinking` does not say.
        max_thinking_tokens: Option<u64>,
        /// Accepted, without effect: the codec has no template.
        chat_template_kwargs: Option<&'v Value<'v>>,
    }
}

wire_object! {
    /// Settings of a stream.
    pub(crate) struct StreamOptions<'v> {
        /// Whether a last chunk tells the usage.
        include_usage: Option<bool>,
    }
}

wire_tagged! {
    /// A message.
    pub(crate) enum ChatMessage<'v> by "role" {
        /// Instructions.
        System(TextMessage<'v>) = "system",
        /// Instructions, by their newer name.
        Developer(TextMessage<'v>) = "developer",
        /// The user.
        User(TextMessage<'v>) = "user",
        /// The model.
        Assistant(AssistantMessage<'v>) = "assistant",
        /// The result of a call.
        Tool(ToolMessage<'v>) = "tool",
        /// A reminder just before the answer.
        LatestReminder(ReminderMessage<'v>) = "latest_reminder",
    }
}

wire_object! {
    /// A message of text and images.
    pub(crate) struct TextMessage<'v> {
        /// What was said.
        content: TextOr<'v, ContentPart<'v>>,
        /// Accepted, without effect.
        name: Option<&'v str>,
    }
}

wire_object! {
    /// A turn of the model.
    pub(crate) struct AssistantMessage<'v> {
        /// What it said; may be left out beside calls.
        content: Option<TextOr<'v, ContentPart<'v>>>,
        /// What it thought.
        reasoning_content: Option<&'v str>,
        /// What it thought, as other servers name it; read where `reasoning_content` is absent and this is text.
        reasoning: Option<&'v Value<'v>>,
        /// Which tools it called.
        tool_calls: Option<Vec<ChatToolCall<'v>>>,
        /// Whether the model is to continue this message.
        prefix: Option<bool>,
        /// The record that came with the message, a string; anything else is ignored.
        token_history: Option<&'v Value<'v>>,
        /// Accepted, without effect.
        name: Option<&'v str>,
    }
}

wire_object! {
    /// The result of a call.
    pub(crate) struct ToolMessage<'v> {
        /// What the tool returned.
        content: TextOr<'v, ContentPart<'v>>,
        /// Which call it answers.
        tool_call_id: &'v str,
    }
}

wire_object! {
    /// A reminder.
    pub(crate) struct ReminderMessage<'v> {
        /// Its text.
        content: TextOr<'v, ContentPart<'v>>,
    }
}

wire_object! {
    /// A call the model made.
    pub(crate) struct ChatToolCall<'v> {
        /// Its id.
        id: &'v str,
        /// Always `function`.
        kind as "type": FunctionWord,
        /// What was called.
        function: CalledFunction<'v>,
    }
}

wire_object! {
    /// A called function.
    pub(crate) struct CalledFunction<'v> {
        /// Its name.
        name: &'v str,
        /// Its arguments.
        arguments: CallArguments<'v>,
    }
}

/// Arguments of a call: JSON text, or the object itself. Nothing, null and empty text are a call without arguments.
#[derive(Debug, Clone)]
pub(crate) struct CallArguments<'v>(pub Cow<'v, str>);

impl CallArguments<'_> {
    const NONE: Self = Self(Cow::Borrowed("{}"));
}

impl<'v> Wire<'v> for CallArguments<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::Null => Ok(Self::NONE),
            Value::String(text) if text.is_empty() => Ok(Self::NONE),
            Value::String(text) => Ok(Self(Cow::Borrowed(text))),
            Value::Object(_) => {
                let mut text = String::new();
                write_compact(node.value, &mut text);
                Ok(Self(text.into()))
            }
            _ => Err(node.wrong_type("a string or an object")),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::NONE)
    }

    fn schema() -> Value<'static> {
        let kinds = ["string", "object", "null"].map(Value::from).into();
        schema_object([("type", Value::Array(kinds))])
    }
}

wire_tagged! {
    /// Form of the answer.
    pub(crate) enum ResponseFormat<'v> by "type" {
        /// Free text.
        Text(TextFormat<'v>) = "text",
        /// Any JSON object.
        JsonObject(TextFormat<'v>) = "json_object",
        /// JSON that follows a schema.
        JsonSchema(JsonSchemaFormat<'v>) = "json_schema",
        /// Text that matches a regular expression.
        Regex(RegexFormat<'v>) = "regex",
    }
}

wire_object! {
    /// A format without settings.
    pub(crate) struct TextFormat<'v> {}
}

wire_object! {
    /// A format given by a schema.
    pub(crate) struct JsonSchemaFormat<'v> {
        /// The schema in its wrapper.
        json_schema: JsonSchema<'v>,
    }
}

wire_object! {
    /// The wrapper of a schema.
    pub(crate) struct JsonSchema<'v> {
        /// Accepted, without effect.
        name: Option<&'v str>,
        /// The schema.
        schema: &'v Value<'v>,
        /// Whether the schema must be one that can be enforced in full.
        strict: Option<bool>,
    }
}

wire_object! {
    /// A format given by a regular expression.
    pub(crate) struct RegexFormat<'v> {
        /// The expression.
        regex: &'v str,
    }
}

wire_object! {
    /// What an answer is held to: exactly one of these.
    pub(crate) struct StructuredOutputs<'v> {
        /// A JSON Schema, or its text.
        json: Option<&'v Value<'v>>,
        /// A regular expression that all of the answer matches.
        regex: Option<&'v str>,
        /// A Lark grammar.
        grammar: Option<&'v str>,
        /// Texts, one of which is the answer.
        choice: Option<Vec<&'v str>>,
        /// Any JSON object, if true.
        json_object: Option<bool>,
    }
}
