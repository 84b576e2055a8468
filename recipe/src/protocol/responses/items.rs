//! The input items of the Responses protocol, field by field.

use std::borrow::Cow;

use crate::error::Error;
use crate::json::{Object, Value};
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images::DetailWord;
use crate::wire::{Node, Wire, schema_object, tagged, tagged_otherwise, wire_object, wire_tagged, wire_words, without};

use super::stored::reference;
use super::tools::{Execution, ResponsesTool};

/// An input item. Kinds that are not known are kept by their word only.
#[derive(Debug, Clone)]
pub(crate) enum InputItem<'v> {
    /// A message; the kind of an item that has a role and no type.
    Message(MessageItem<'v>),
    /// What the model thought.
    Reasoning(ReasoningItem<'v>),
    /// A call of a function.
    FunctionCall(FunctionCallItem<'v>),
    /// A call of a tool that takes free text.
    CustomToolCall(CustomToolCallItem<'v>),
    /// The result of a call.
    Output(OutputItem<'v>),
    /// A search for tools.
    ToolSearchCall(ToolSearchCallItem<'v>),
    /// What a search for tools found.
    ToolSearchOutput(ToolSearchOutputItem<'v>),
    /// A search that the server ran.
    WebSearchCall,
    /// An item that stands for a stored one; its id.
    Reference(&'v str),
    /// Another kind; its word.
    Unknown(&'v str),
}

impl<'v> Wire<'v> for InputItem<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        let members = node.object()?;
        if members.get("type").is_none() && members.get("role").is_some() {
            return MessageItem::read(node).map(Self::Message);
        }
        match node.member::<&str>("type")? {
            "message" => MessageItem::read(node).map(Self::Message),
            "reasoning" => ReasoningItem::read(node).map(Self::Reasoning),
            "function_call" => FunctionCallItem::read(node).map(Self::FunctionCall),
            "custom_tool_call" => CustomToolCallItem::read(node).map(Self::CustomToolCall),
            "function_call_output" => OutputItem::read(node).map(Self::Output),
            "custom_tool_call_output" => CustomOutputItem::read(node).map(|item| Self::Output(item.into())),
            "tool_search_call" => ToolSearchCallItem::read(node).map(Self::ToolSearchCall),
            "tool_search_output" => ToolSearchOutputItem::read(node).map(Self::ToolSearchOutput),
            "web_search_call" => Ok(Self::WebSearchCall),
            kind => Ok(reference(node.value).map_or(Self::Unknown(kind), Self::Reference)),
        }
    }

    fn schema() -> Value<'static> {
        let kinds = [
            ("message", MessageItem::schema()),
            ("reasoning", ReasoningItem::schema()),
            ("function_call", FunctionCallItem::schema()),
            ("custom_tool_call", CustomToolCallItem::schema()),
            ("function_call_output", OutputItem::schema()),
            ("custom_tool_call_output", CustomOutputItem::schema()),
            ("tool_search_call", ToolSearchCallItem::schema()),
            ("tool_search_output", ToolSearchOutputItem::schema()),
        ];
        let others = tagged_otherwise("type", &kinds.each_ref().map(|(word, _)| *word));
        let known = kinds.into_iter().map(|(word, schema)| tagged(schema, "type", word));
        let untagged = without(MessageItem::schema(), "type");
        schema_object([("anyOf", Value::Array(known.chain([untagged, others]).collect()))])
    }
}

wire_object! {
    /// A message.
    pub(crate) struct MessageItem<'v> {
        /// Who speaks.
        role: ItemRole,
        /// What was said.
        content: TextOr<'v, ContentPart<'v>>,
    }
}

wire_words! {
    /// Who speaks.
    pub(crate) enum ItemRole {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// Instructions.
        System = "system",
        /// Instructions; V4 reads them as the user's.
        Developer = "developer",
    }
}

wire_tagged! {
    /// A piece of a message.
    pub(crate) enum ContentPart<'v> by "type" {
        /// Text.
        InputText(TextPart<'v>) = "input_text",
        /// Text of the model.
        OutputText(TextPart<'v>) = "output_text",
        /// An image.
        InputImage(ImagePart<'v>) = "input_image",
        /// A file; only that there was one is shown.
        InputFile(InputFile<'v>) = "input_file",
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
    /// An image.
    pub(crate) struct ImagePart<'v> {
        /// `http`, `https`, or `data` in base64.
        image_url: Option<&'v str>,
        /// Not supported.
        file_id: Option<&'v str>,
        /// How finely it is looked at.
        detail: Option<DetailWord>,
    }
}

wire_object! {
    /// A file, of which nothing is read.
    pub(crate) struct InputFile<'v> {}
}

wire_object! {
    /// What the model thought.
    pub(crate) struct ReasoningItem<'v> {
        /// The text, whatever the types of its parts.
        content: Option<Vec<TextPart<'v>>>,
        /// A summary; read where there is no text.
        summary: Option<&'v Value<'v>>,
        /// The record that came with it, or any text, which is then without effect.
        encrypted_content: Option<&'v str>,
    }
}

wire_object! {
    /// A call of a function.
    pub(crate) struct FunctionCallItem<'v> {
        /// Its id.
        call_id: &'v str,
        /// Name of the function.
        name: &'v str,
        /// Its arguments, as JSON text.
        arguments: &'v str,
        /// Namespace of the function.
        namespace: Option<&'v str>,
    }
}

wire_object! {
    /// A call of a tool that takes free text.
    pub(crate) struct CustomToolCallItem<'v> {
        /// Its id.
        call_id: &'v str,
        /// Name of the tool.
        name: &'v str,
        /// The text.
        input: &'v str,
    }
}

wire_object! {
    /// The result of a call.
    pub(crate) struct OutputItem<'v> {
        /// Which call it answers; one that answers none stands for itself.
        call_id: Option<&'v str>,
        /// What the tool returned.
        output: TextOr<'v, OutputPart<'v>>,
    }
}

wire_object! {
    /// The result of a call of a tool that takes free text.
    pub(crate) struct CustomOutputItem<'v> {
        /// Which call it answers.
        call_id: &'v str,
        /// What the tool returned; nothing if this is absent.
        output: Option<TextOr<'v, OutputPart<'v>>>,
    }
}

impl<'v> From<CustomOutputItem<'v>> for OutputItem<'v> {
    fn from(item: CustomOutputItem<'v>) -> Self {
        let output = item.output.unwrap_or(TextOr::Text(""));
        Self { call_id: Some(item.call_id), output, _body: item._body }
    }
}

wire_tagged! {
    /// A piece of a result.
    pub(crate) enum OutputPart<'v> by "type" {
        /// Text.
        Text(TextPart<'v>) = "input_text",
        /// An image.
        Image(ImagePart<'v>) = "input_image",
        /// A file; only that there was one is shown.
        File(InputFile<'v>) = "input_file",
    }
}

wire_object! {
    /// A search for tools.
    pub(crate) struct ToolSearchCallItem<'v> {
        /// Its id.
        call_id: &'v str,
        /// What is searched for.
        arguments: &'v Object<'v>,
        /// Who searched; accepted, without effect.
        execution: Option<Execution>,
    }
}

wire_object! {
    /// What a search for tools found.
    pub(crate) struct ToolSearchOutputItem<'v> {
        /// Which search it answers.
        call_id: &'v str,
        /// The tools.
        tools: Vec<ResponsesTool<'v>>,
        /// Who searched; accepted, without effect.
        execution: Option<Execution>,
    }
}

impl<'v> ReasoningItem<'v> {
    /// The text, or the summary where there is no content: the parts joined by line feeds.
    pub(super) fn text(&self) -> Cow<'v, str> {
        let texts: Vec<&'v str> = match self.content.as_deref() {
            None | Some([]) => {
                let summary = self.summary.and_then(Value::as_array).unwrap_or_default();
                summary.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            Some(parts) => parts.iter().map(|part| part.text).collect(),
        };
        match texts[..] {
            [text] => text.into(),
            _ => texts.join("\n").into(),
        }
    }
}
