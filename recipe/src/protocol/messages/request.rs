//! The Messages request body, field by field. What messages hold is in `blocks`.

use crate::json::Value;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::thinking::{EffortWord, Thinking};
use crate::wire::{wire_object, wire_tagged, wire_words};

use super::blocks::{Block, TextBlock};

wire_object! {
    /// A Messages request. Members that are not listed are ignored.
    pub(crate) struct MessagesRequest<'v> {
        /// Name of a served model.
        model: &'v str,
        /// The conversation.
        messages: Vec<MessagesMessage<'v>>,
        /// Most tokens to generate; lowered to what the model can do.
        max_tokens: Option<u32>,
        /// Instructions.
        system: Option<TextOr<'v, SystemBlock<'v>>>,
        /// Sampling temperature, 0 to 2.
        temperature: Option<f32>,
        /// Nucleus sampling, above 0 and up to 1.
        top_p: Option<f32>,
        /// Up to 16 texts that end the answer.
        stop_sequences: Option<Vec<&'v str>>,
        /// Whether the answer is streamed.
        stream: Option<bool>,
        /// Tools the model may call.
        tools: Option<Vec<MessagesTool<'v>>>,
        /// Whether it must, may or must not.
        tool_choice: Option<MessagesToolChoice<'v>>,
        /// Whether the model thinks.
        thinking: Option<Thinking<'v>>,
        /// Accepted, without effect.
        metadata: Option<Metadata<'v>>,
        /// Settings of the answer.
        output_config: Option<OutputConfig<'v>>,
    }
}

wire_object! {
    /// A message.
    pub(crate) struct MessagesMessage<'v> {
        /// Who speaks.
        role: Role,
        /// What was said.
        content: TextOr<'v, Block<'v>>,
    }
}

wire_words! {
    /// Who speaks.
    pub(crate) enum Role {
        /// The user, and results of tools.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// Later instructions.
        System = "system",
    }
}

wire_tagged! {
    /// A block of the instructions.
    pub(crate) enum SystemBlock<'v> by "type" {
        /// Text.
        Text(TextBlock<'v>) = "text",
    }
}

wire_object! {
    /// A declared tool.
    pub(crate) struct MessagesTool<'v> {
        /// Only server tools have a type.
        kind as "type": Option<&'v str>,
        /// Up to 128 letters, digits, `_` and `-`.
        name: Option<&'v Value<'v>>,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments; required but for server tools.
        input_schema: Option<&'v Value<'v>>,
        /// Whether its schema is shown only when something refers to it.
        defer_loading: Option<bool>,
    }
}

wire_object! {
    /// Whether the model must, may or must not call tools.
    pub(crate) struct MessagesToolChoice<'v> {
        /// The kind of choice.
        kind as "type": ChoiceType,
        /// Which tool, for the kind `tool`.
        name: Option<&'v str>,
        /// Accepted, without effect.
        disable_parallel_tool_use: Option<bool>,
    }
}

wire_words! {
    /// Kinds of tool choice.
    pub(crate) enum ChoiceType {
        /// The model decides.
        Auto = "auto",
        /// As `auto`.
        Any = "any",
        /// The named one.
        Tool = "tool",
        /// None.
        None = "none",
    }
}

wire_object! {
    /// Who is asking.
    pub(crate) struct Metadata<'v> {
        /// The end user.
        user_id: Option<&'v str>,
    }
}

wire_object! {
    /// Settings of the answer.
    pub(crate) struct OutputConfig<'v> {
        /// How hard the model thinks.
        effort: Option<EffortWord>,
        /// Form of the answer.
        format: Option<OutputFormat<'v>>,
    }
}

wire_tagged! {
    /// Form of the answer.
    pub(crate) enum OutputFormat<'v> by "type" {
        /// JSON that follows a schema.
        JsonSchema(SchemaFormat<'v>) = "json_schema",
    }
}

wire_object! {
    /// A format given by a schema.
    pub(crate) struct SchemaFormat<'v> {
        /// The schema.
        schema: &'v Value<'v>,
    }
}
