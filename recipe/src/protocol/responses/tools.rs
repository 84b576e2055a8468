//! The tools of the Responses protocol, field by field.

use crate::error::Error;
use crate::json::Value;
use crate::wire::{Node, Wire, schema_object, tagged, tagged_otherwise, wire_object, wire_tagged, wire_words};

/// A declared tool. Kinds that are not known are kept by their word only.
#[derive(Debug, Clone)]
pub(crate) enum ResponsesTool<'v> {
    /// A function.
    Function(FunctionTool<'v>),
    /// A tool that takes free text.
    Custom(CustomTool<'v>),
    /// Functions under a common name.
    Namespace(NamespaceTool<'v>),
    /// Web search by the server.
    WebSearch(WebSearchTool<'v>),
    /// Search for further tools.
    ToolSearch(ToolSearchTool<'v>),
    /// Another kind; its word.
    Unknown(&'v str),
}

impl<'v> Wire<'v> for ResponsesTool<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.member::<&str>("type")? {
            "function" => FunctionTool::read(node).map(Self::Function),
            "custom" => CustomTool::read(node).map(Self::Custom),
            "namespace" => NamespaceTool::read(node).map(Self::Namespace),
            "web_search" | "web_search_2025_08_26" => WebSearchTool::read(node).map(Self::WebSearch),
            "tool_search" => ToolSearchTool::read(node).map(Self::ToolSearch),
            kind => Ok(Self::Unknown(kind)),
        }
    }

    fn schema() -> Value<'static> {
        let kinds = [
            ("function", FunctionTool::schema()),
            ("custom", CustomTool::schema()),
            ("namespace", NamespaceTool::schema()),
            ("tool_search", ToolSearchTool::schema()),
            ("web_search", WebSearchTool::schema()),
            ("web_search_2025_08_26", WebSearchTool::schema()),
        ];
        let others = tagged_otherwise("type", &kinds.each_ref().map(|(word, _)| *word));
        let known = kinds.into_iter().map(|(word, schema)| tagged(schema, "type", word));
        schema_object([("anyOf", Value::Array(known.chain([others]).collect()))])
    }
}

wire_object! {
    /// Web search by the server. Its settings are accepted, without effect.
    pub(crate) struct WebSearchTool<'v> {
        /// Which.
        kind as "type": &'v str,
        /// How much of what is found the model sees.
        search_context_size: Option<Amount>,
        /// Where the user is.
        user_location: Option<UserLocation<'v>>,
    }
}

wire_words! {
    /// How much.
    pub(crate) enum Amount {
        /// Little.
        Low = "low",
        /// The usual.
        Medium = "medium",
        /// Much.
        High = "high",
    }
}

wire_object! {
    /// Where the user is, roughly.
    pub(crate) struct UserLocation<'v> {
        /// City.
        city: Option<&'v str>,
        /// Country, in two letters.
        country: Option<&'v str>,
        /// Region.
        region: Option<&'v str>,
        /// Time zone.
        timezone: Option<&'v str>,
    }
}

impl<'v> ResponsesTool<'v> {
    /// The word in the member `type`.
    pub(super) fn kind(&self) -> &'v str {
        match self {
            Self::Function(_) => "function",
            Self::Custom(_) => "custom",
            Self::Namespace(_) => "namespace",
            Self::WebSearch(search) => search.kind,
            Self::ToolSearch(_) => "tool_search",
            Self::Unknown(kind) => kind,
        }
    }
}

wire_object! {
    /// A function.
    pub(crate) struct FunctionTool<'v> {
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

wire_object! {
    /// A tool that takes free text.
    pub(crate) struct CustomTool<'v> {
        /// Up to 128 letters, digits, `_` and `-`.
        name: &'v str,
        /// What it does.
        description: Option<&'v Value<'v>>,
        /// What its text is like; any text if this is absent.
        format: Option<&'v Value<'v>>,
    }
}

wire_tagged! {
    /// What the text of a custom tool is like.
    pub(crate) enum CustomFormat<'v> by "type" {
        /// Any text.
        Text(AnyText<'v>) = "text",
        /// Text that follows a grammar.
        Grammar(Grammar<'v>) = "grammar",
    }
}

wire_object! {
    /// Text without a grammar.
    pub(crate) struct AnyText<'v> {}
}

wire_object! {
    /// A grammar.
    pub(crate) struct Grammar<'v> {
        /// What it is written in.
        syntax: Syntax,
        /// The grammar itself.
        definition: &'v str,
    }
}

wire_words! {
    /// What a grammar is written in.
    pub(crate) enum Syntax {
        /// Lark.
        Lark = "lark",
        /// A regular expression.
        Regex = "regex",
    }
}

wire_object! {
    /// Functions under a common name.
    pub(crate) struct NamespaceTool<'v> {
        /// Up to 128 letters, digits, `_` and `-`.
        name: &'v str,
        /// What they have in common.
        description: Option<&'v str>,
        /// The functions.
        tools: Vec<NamespaceMember<'v>>,
    }
}

wire_tagged! {
    /// A tool in a namespace.
    pub(crate) enum NamespaceMember<'v> by "type" {
        /// A function.
        Function(FunctionTool<'v>) = "function",
        /// Not supported.
        Custom(CustomTool<'v>) = "custom",
    }
}

wire_object! {
    /// Search for further tools.
    pub(crate) struct ToolSearchTool<'v> {
        /// Who searches; the server if this is absent.
        execution: Option<Execution>,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments.
        parameters: Option<&'v Value<'v>>,
    }
}

wire_words! {
    /// Who runs a tool.
    pub(crate) enum Execution {
        /// The server.
        Server = "server",
        /// The client.
        Client = "client",
    }
}
