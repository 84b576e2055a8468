//! The tool choice of the Responses protocol.

use crate::error::Error;
use crate::json::{Object, Value};
use crate::protocol::shared::tools::AllowedMode;
use crate::wire::{Node, Path, Wire, schema_object, tagged, wire_object, wire_tagged};

/// The type of a choice of some tools.
const ALLOWED: &str = "allowed_tools";

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone)]
pub(crate) enum ResponsesToolChoice<'v> {
    /// It decides.
    Auto,
    /// It must not.
    None,
    /// It must.
    Required,
    /// It must call this one.
    Named(ChosenTool<'v>),
    /// It may call, or must call, some of them.
    Allowed(AllowedChoice<'v>),
}

wire_object! {
    /// A choice of some tools.
    pub(crate) struct AllowedChoice<'v> {
        /// Whether one of them must be called.
        mode: AllowedMode,
        /// The tools. Only functions and custom tools can be called here.
        tools: Vec<AllowedTool<'v>>,
    }
}

wire_object! {
    /// One of some tools.
    pub(crate) struct AllowedTool<'v> {
        /// Its kind.
        kind as "type": &'v str,
        /// Its name; that of a tool in a namespace is the one in the prompt.
        name: Option<&'v str>,
    }
}

impl<'v> AllowedChoice<'v> {
    /// The tools that have names, each with its place in the request, and a warning for each of the others.
    pub(super) fn named(&self, path: &Path<'_>) -> (Vec<(String, &'v str)>, Vec<String>) {
        let list = Path::Key(path, "tools");
        let (mut named, mut left_out) = (Vec::new(), Vec::new());
        for (index, tool) in self.tools.iter().enumerate() {
            let item = Path::Index(&list, index);
            match (tool.kind, tool.name) {
                ("function" | "custom", Some(name)) => named.push((Path::Key(&item, "name").to_string(), name)),
                (kind, _) => left_out.push(format!("{item}: the tool {kind} was left out")),
            }
        }
        (named, left_out)
    }
}

wire_tagged! {
    /// A choice of one tool.
    pub(crate) enum ChosenTool<'v> by "type" {
        /// A function.
        Function(ToolName<'v>) = "function",
        /// A tool that takes free text.
        Custom(ToolName<'v>) = "custom",
        /// Web search by the server.
        WebSearch(AnyChoice<'v>) = "web_search",
        /// Web search by the server, by its dated name.
        DatedWebSearch(AnyChoice<'v>) = "web_search_2025_08_26",
    }
}

wire_object! {
    /// The name of a tool.
    pub(crate) struct ToolName<'v> {
        /// Its name; that of a tool in a namespace is the one in the prompt.
        name: &'v str,
    }
}

wire_object! {
    /// A choice without settings.
    pub(crate) struct AnyChoice<'v> {}
}

impl<'v> Wire<'v> for ResponsesToolChoice<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::String(word) => match word.as_ref() {
                "auto" => Ok(Self::Auto),
                "none" => Ok(Self::None),
                "required" => Ok(Self::Required),
                _ => Err(node.unknown("none, auto, required")),
            },
            Value::Object(choice) if choice.get("type").and_then(Value::as_str) == Some(ALLOWED) => {
                AllowedChoice::read(node).map(Self::Allowed)
            }
            Value::Object(_) => ChosenTool::read(node).map(Self::Named),
            _ => Err(node.wrong_type("a string or a tool")),
        }
    }

    fn schema() -> Value<'static> {
        let words = ["none", "auto", "required"].map(Value::from).into();
        let word = Object::from_iter([("type", "string".into()), ("enum", Value::Array(words))]);
        let allowed = tagged(AllowedChoice::schema(), "type", ALLOWED);
        schema_object([("anyOf", Value::Array(vec![Value::Object(word), ChosenTool::schema(), allowed]))])
    }
}
