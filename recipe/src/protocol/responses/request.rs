//! The Responses request body, field by field. What the input holds is in `items`, the tools are in `tools`.

use crate::error::Error;
use crate::json::Value;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::thinking::EffortWord;
use crate::wire::{Node, Wire, wire_object, wire_tagged, wire_words};

use super::choice::ResponsesToolChoice;
use super::items::InputItem;
use super::tools::{Amount, ResponsesTool};

wire_object! {
    /// A Responses request. Members that are not listed are ignored.
    pub(crate) struct ResponsesRequest<'v> {
        /// Name of a served model.
        model: &'v str,
        /// What was said: text, or items.
        input: Option<TextOr<'v, InputItem<'v>>>,
        /// Instructions.
        instructions: Option<&'v str>,
        /// Most tokens to generate.
        max_output_tokens: Option<u32>,
        /// Sampling temperature, 0 to 2.
        temperature: Option<f32>,
        /// Nucleus sampling, above 0 and up to 1.
        top_p: Option<f32>,
        /// How many alternatives each token has, up to 20.
        top_logprobs: Option<u8>,
        /// Whether the answer is streamed.
        stream: Option<bool>,
        /// Tools the model may call.
        tools: Option<Vec<ResponsesTool<'v>>>,
        /// Whether it must, may or must not.
        tool_choice: Option<ResponsesToolChoice<'v>>,
        /// Form of the answer.
        text: Option<TextConfig<'v>>,
        /// How the model thinks.
        reasoning: Option<ReasoningConfig<'v>>,
        /// The end user; repeated in the answer.
        user: Option<&'v str>,
        /// The response that this request goes on from, where the caller keeps responses.
        previous_response_id: Option<&'v str>,
        /// Most tokens of reasoning, as other servers name it.
        max_thinking_tokens: Option<u64>,
        /// Whether several calls may be made in one turn; constrains the answer only.
        parallel_tool_calls: Option<bool>,
    }
}

wire_object! {
    /// Form of the answer.
    pub(crate) struct TextConfig<'v> {
        /// Text or JSON; may be left out, but not null.
        format: GivenFormat<'v>,
        /// Accepted, without effect.
        verbosity: Option<Amount>,
    }
}

/// A format that may be left out, but not null.
#[derive(Debug, Clone)]
pub(crate) struct GivenFormat<'v>(pub Option<TextFormat<'v>>);

impl<'v> Wire<'v> for GivenFormat<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        TextFormat::read(node).map(|format| Self(Some(format)))
    }

    fn absent() -> Option<Self> {
        Some(Self(None))
    }

    fn schema() -> Value<'static> {
        TextFormat::schema()
    }
}

wire_tagged! {
    /// Text or JSON.
    pub(crate) enum TextFormat<'v> by "type" {
        /// Free text.
        Text(PlainFormat<'v>) = "text",
        /// JSON that follows a schema.
        JsonSchema(SchemaFormat<'v>) = "json_schema",
        /// Any JSON object.
        JsonObject(PlainFormat<'v>) = "json_object",
    }
}

wire_object! {
    /// A format without settings.
    pub(crate) struct PlainFormat<'v> {}
}

wire_object! {
    /// A format given by a schema.
    pub(crate) struct SchemaFormat<'v> {
        /// Accepted, without effect.
        name: &'v str,
        /// Accepted, without effect.
        description: Option<&'v str>,
        /// The schema.
        schema: &'v Value<'v>,
        /// Whether the schema must be one that can be enforced.
        strict: Option<bool>,
    }
}

wire_object! {
    /// How the model thinks.
    pub(crate) struct ReasoningConfig<'v> {
        /// How hard.
        effort: Option<EffortWord>,
        /// Accepted, without effect.
        summary: Option<SummaryWord>,
        /// Accepted, without effect.
        generate_summary: Option<SummaryWord>,
    }
}

wire_words! {
    /// How reasoning is summed up.
    pub(crate) enum SummaryWord {
        /// As the model sees fit.
        Auto = "auto",
        /// Briefly.
        Concise = "concise",
        /// At length.
        Detailed = "detailed",
    }
}
