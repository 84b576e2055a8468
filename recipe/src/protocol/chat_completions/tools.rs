//! The tools and the tool choice of the Chat Completions request, field by field.

use crate::error::Error;
use crate::json::Value;
use crate::wire::{Node, Wire, schema_object, wire_object, wire_words};

wire_words! {
    /// The one type of tools.
    pub(crate) enum FunctionWord {
        /// A function.
        Function = "function",
    }
}

wire_object! {
    /// A declared tool.
    pub(crate) struct ChatTool<'v> {
        /// Always `function`.
        kind as "type": FunctionWord,
        /// The function.
        function: DeclaredFunction<'v>,
    }
}

wire_object! {
    /// A declared function.
    pub(crate) struct DeclaredFunction<'v> {
        /// Up to 128 letters, digits, `_` and `-`.
        name: &'v str,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments.
        parameters: Option<&'v Value<'v>>,
        /// Whether arguments must follow the schema exactly.
        strict: Option<bool>,
    }
}

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone)]
pub(crate) enum ChatToolChoice<'v> {
    /// It decides.
    Auto,
    /// It must not.
    None,
    /// It must.
    Required,
    /// It must call this one.
    Named(NamedChoice<'v>),
}

wire_object! {
    /// A choice of one tool.
    pub(crate) struct NamedChoice<'v> {
        /// Always `function`.
        kind as "type": FunctionWord,
        /// The tool in its wrapper.
        function: NamedFunction<'v>,
    }
}

wire_object! {
    /// The name of a tool.
    pub(crate) struct NamedFunction<'v> {
        /// The name.
        name: &'v str,
    }
}

impl<'v> Wire<'v> for ChatToolChoice<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::String(word) => match word.as_ref() {
                "auto" => Ok(ChatToolChoice::Auto),
                "none" => Ok(ChatToolChoice::None),
                "required" => Ok(ChatToolChoice::Required),
                _ => Err(node.unknown("none, auto, required")),
            },
            Value::Object(_) => NamedChoice::read(node).map(ChatToolChoice::Named),
            _ => Err(node.wrong_type("a string or a tool")),
        }
    }

    fn schema() -> Value<'static> {
        let words = ["none", "auto", "required"].map(Value::from).into();
        let word = schema_object([("type", "string".into()), ("enum", Value::Array(words))]);
        schema_object([("anyOf", Value::Array(vec![word, NamedChoice::schema()]))])
    }
}
