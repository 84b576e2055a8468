//! The Chat Completions request body, field by field. The tools are in `tools`.

use crate::json::Value;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images::DetailWord;
use crate::protocol::shared::thinking::{EffortWord, Thinking};
use crate::wire::{wire_object, wire_tagged};

use super::tools::{ChatTool, ChatToolChoice, FunctionWord};

wire_object! {
    /// A Chat Completions request. Members that are not listed are ignored.
    pub(crate) struct ChatRequest<'v> {
        /// Name of a served model.
        model: &'v str,
        /// The conversation.
        messages: Vec<ChatMessage<'v>>,
        /// Most tokens to generate.
        max_tokens: Option<u32>,
        /// Sampling temperature, 0 to 2.
        temperature: Option<f32>,
        /// Nucleus sampling, above 0 and up to 1.
        top_p: Option<f32>,
        /// Number of answers.
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
        /// Whether several calls may be made in one turn.
        parallel_tool_calls: Option<bool>,
        /// Form of the answer.
        response_format: Option<ResponseFormat<'v>>,
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
        /// Accepted from -2 to 2.
        frequency_penalty: Option<f32>,
        /// Accepted from -2 to 2.
        presence_penalty: Option<f32>,
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
        /// Which tools it called.
        tool_calls: Option<Vec<ChatToolCall<'v>>>,
        /// Whether the model is to continue this message.
        prefix: Option<bool>,
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
        content: &'v str,
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
        /// Its arguments, as JSON text.
        arguments: &'v str,
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

wire_tagged! {
    /// A piece of content.
    pub(crate) enum ContentPart<'v> by "type" {
        /// Text.
        Text(TextPart<'v>) = "text",
        /// An image by its URL.
        ImageUrl(ImagePart<'v>) = "image_url",
        /// An image as a file.
        File(FilePart<'v>) = "file",
    }
}

wire_object! {
    /// Text.
    pub(crate) struct TextPart<'v> {
        /// The text.
        text: &'v str,
    }
}

wire_object! {
    /// An image by its URL.
    pub(crate) struct ImagePart<'v> {
        /// The URL in its wrapper.
        image_url: ImageUrl<'v>,
    }
}

wire_object! {
    /// An image's URL.
    pub(crate) struct ImageUrl<'v> {
        /// `http`, `https`, or `data` in base64.
        url: &'v str,
        /// How finely it is looked at.
        detail: Option<DetailWord>,
    }
}

wire_object! {
    /// An image as a file.
    pub(crate) struct FilePart<'v> {
        /// Not supported.
        file_id: Option<&'v str>,
        /// A data URL in base64.
        file_data: Option<&'v str>,
        /// Accepted, without effect.
        filename: Option<&'v str>,
    }
}
