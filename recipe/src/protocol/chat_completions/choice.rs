//! The tool choice of the Chat Completions protocol.

use crate::error::Error;
use crate::json::Value;
use crate::protocol::shared::tools::{AllowedMode, Choice};
use crate::wire::{Node, Path, Wire, schema_object, wire_object, wire_tagged};

use super::request::FunctionWord;

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
    /// It may call, or must call, some of them.
    Allowed(AllowedChoice<'v>),
}

wire_tagged! {
    /// A choice of certain tools.
    pub(crate) enum ToolChoiceObject<'v> by "type" {
        /// One of them.
        Function(NamedChoice<'v>) = "function",
        /// Some of them.
        AllowedTools(AllowedChoice<'v>) = "allowed_tools",
    }
}

wire_object! {
    /// A choice of some tools.
    pub(crate) struct AllowedChoice<'v> {
        /// The tools in their wrapper.
        allowed_tools: AllowedTools<'v>,
    }
}

wire_object! {
    /// Some tools.
    pub(crate) struct AllowedTools<'v> {
        /// Whether one of them must be called.
        mode: AllowedMode,
        /// The tools.
        tools: Vec<NamedChoice<'v>>,
    }
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
            Value::Object(_) => Ok(match ToolChoiceObject::read(node)? {
                ToolChoiceObject::Function(choice) => ChatToolChoice::Named(choice),
                ToolChoiceObject::AllowedTools(choice) => ChatToolChoice::Allowed(choice),
            }),
            _ => Err(node.wrong_type("a string or a tool")),
        }
    }

    fn schema() -> Value<'static> {
        let words = ["none", "auto", "required"].map(Value::from).into();
        let word = schema_object([("type", "string".into()), ("enum", Value::Array(words))]);
        schema_object([("anyOf", Value::Array(vec![word, ToolChoiceObject::schema()]))])
    }
}

impl<'v> ChatToolChoice<'v> {
    /// The choice in the protocols' common terms. A call of some tools is forced by the constraint alone.
    pub(super) fn choice(&self) -> Choice<'v> {
        match self {
            ChatToolChoice::Auto => Choice::Auto,
            ChatToolChoice::None => Choice::None,
            ChatToolChoice::Required => Choice::Required,
            ChatToolChoice::Named(named) => Choice::Named(named.function.name),
            ChatToolChoice::Allowed(allowed) => allowed.allowed_tools.mode.choice(),
        }
    }

    /// The tools that may be called, if that is said, each with its place in the request.
    pub(super) fn allowed(&self, path: &Path<'_>) -> Option<Vec<(String, &'v str)>> {
        let ChatToolChoice::Allowed(allowed) = self else { return None };
        let wrapper = Path::Key(path, "allowed_tools");
        let list = Path::Key(&wrapper, "tools");
        let named = |(index, tool): (usize, &NamedChoice<'v>)| {
            let item = Path::Index(&list, index);
            let function = Path::Key(&item, "function");
            (Path::Key(&function, "name").to_string(), tool.function.name)
        };
        Some(allowed.allowed_tools.tools.iter().enumerate().map(named).collect())
    }
}
