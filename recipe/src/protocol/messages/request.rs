//! The Messages request body, field by field. What messages hold is in `blocks`.

use crate::error::Error;
use crate::json::Value;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::thinking::{EffortWord, Thinking};
use crate::wire::{Node, Wire, schema_object, wire_object, wire_tagged, wire_words};

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
        /// Most likely tokens that are kept; 0 for all.
        top_k: Option<u32>,
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
        /// Most tokens of reasoning, where `thinking` does not say.
        max_thinking_tokens: Option<u64>,
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

/// The type of tools that the client runs; it may be left out.
const CUSTOM: &str = "custom";

/// A declared tool.
#[derive(Debug, Clone)]
pub(crate) enum MessagesTool<'v> {
    /// A tool that the client runs.
    Client(ClientTool<'v>),
    /// A tool that a server runs: one of another type than `custom`.
    Server(ServerTool<'v>),
}

impl<'v> Wire<'v> for MessagesTool<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.object()?.get("type") {
            None | Some(Value::Null) => ClientTool::read(node).map(Self::Client),
            Some(Value::String(kind)) if kind == CUSTOM => ClientTool::read(node).map(Self::Client),
            Some(_) => ServerTool::read(node).map(Self::Server),
        }
    }

    fn schema() -> Value<'static> {
        schema_object([("anyOf", Value::Array(vec![ClientTool::schema(), ServerTool::schema()]))])
    }
}

wire_object! {
    /// A tool that the client runs.
    pub(crate) struct ClientTool<'v> {
        /// Up to 128 letters, digits, `_` and `-`.
        name: &'v str,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments; may be left out only if the choice hides the tools.
        input_schema: Option<&'v Value<'v>>,
        /// Whether its schema is shown only when something refers to it.
        defer_loading: Option<bool>,
        /// Whether arguments must follow the schema exactly; constrains the answer only.
        strict: Option<bool>,
    }
}

wire_object! {
    /// A tool that a server runs.
    pub(crate) struct ServerTool<'v> {
        /// Which tool, with a date.
        kind as "type": &'v str,
        /// Accepted, without effect.
        name: Option<&'v str>,
    }
}

wire_tagged! {
    /// Whether the model must, may or must not call tools.
    pub(crate) enum MessagesToolChoice<'v> by "type" {
        /// The model decides.
        Auto(OpenChoice<'v>) = "auto",
        /// One must be called; the prompt is that of `auto`.
        Any(OpenChoice<'v>) = "any",
        /// The named one.
        Tool(NamedChoice<'v>) = "tool",
        /// None.
        None(NoChoice<'v>) = "none",
    }
}

wire_object! {
    /// A choice among all tools.
    pub(crate) struct OpenChoice<'v> {
        /// Whether there may be one call at most.
        disable_parallel_tool_use: Option<bool>,
    }
}

wire_object! {
    /// A choice of one tool.
    pub(crate) struct NamedChoice<'v> {
        /// Which tool.
        name: &'v str,
        /// Whether there may be one call at most.
        disable_parallel_tool_use: Option<bool>,
    }
}

wire_object! {
    /// The choice of no tool.
    pub(crate) struct NoChoice<'v> {}
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
