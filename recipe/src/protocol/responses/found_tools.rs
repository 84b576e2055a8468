//! Responses: what the model reads of tools that a search found.

use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value, write_rewritten};
use crate::wire::Path;

use super::tools::{
    Amount, Execution, FunctionTool, NamespaceMember, NamespaceTool, ResponsesTool, ToolSearchTool, UserLocation,
    WebSearchTool,
};

/// A JSON array of the declarations, each with all members of its kind.
pub(super) fn found_tools(tools: &[ResponsesTool<'_>], path: &Path<'_>) -> Result<String, Error> {
    let mut found = Vec::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        match tool {
            ResponsesTool::Function(tool) => found.push(object(function(tool))),
            ResponsesTool::Namespace(namespace) => {
                for member in &namespace.tools {
                    if let NamespaceMember::Function(tool) = member {
                        found.push(object(function(tool).into_iter().chain([("namespace", name(namespace))])));
                    }
                }
            }
            ResponsesTool::Custom(tool) => found.push(object([("type", "custom".into()), ("name", tool.name.into())])),
            ResponsesTool::WebSearch(tool) => found.push(object(web_search(tool))),
            ResponsesTool::ToolSearch(tool) => found.push(object(tool_search(tool))),
            ResponsesTool::Unknown(kind) => {
                let found = format!("the tool {kind} as the result of a search");
                return Err(Error::new(
                    ErrorCode::Unsupported,
                    Path::Index(path, index).to_string(),
                    &[("found", &found)],
                ));
            }
        }
    }
    let mut text = String::new();
    write_rewritten(&Value::Array(found), &mut text);
    Ok(text)
}

type Member<'v> = (&'v str, Value<'v>);

fn object<'v>(members: impl IntoIterator<Item = Member<'v>>) -> Value<'v> {
    Value::Object(Object::from_iter(members))
}

fn text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Null, Value::from)
}

fn schema<'v>(schema: Option<&'v Value<'v>>) -> Value<'v> {
    schema.map_or(Value::Null, Value::borrowed)
}

fn function<'v>(tool: &FunctionTool<'v>) -> [Member<'v>; 5] {
    [
        ("type", "function".into()),
        ("name", tool.name.into()),
        ("description", text(tool.description)),
        ("parameters", schema(tool.parameters)),
        ("strict", tool.strict.map_or(Value::Null, Value::from)),
    ]
}

fn name<'v>(namespace: &NamespaceTool<'v>) -> Value<'v> {
    object([("name", namespace.name.into()), ("description", namespace.description.unwrap_or_default().into())])
}

fn web_search<'v>(tool: &WebSearchTool<'v>) -> [Member<'v>; 3] {
    let amount = tool.search_context_size.map(|amount| match amount {
        Amount::Low => "low",
        Amount::Medium => "medium",
        Amount::High => "high",
    });
    let location = |place: &UserLocation<'v>| {
        object([
            ("city", text(place.city)),
            ("country", text(place.country)),
            ("region", text(place.region)),
            ("timezone", text(place.timezone)),
        ])
    };
    [
        ("type", tool.kind.into()),
        ("search_context_size", text(amount)),
        ("user_location", tool.user_location.as_ref().map_or(Value::Null, location)),
    ]
}

fn tool_search<'v>(tool: &ToolSearchTool<'v>) -> [Member<'v>; 4] {
    let execution = tool.execution.map(|execution| match execution {
        Execution::Client => "client",
        Execution::Server => "server",
    });
    [
        ("type", "tool_search".into()),
        ("execution", text(execution)),
        ("description", text(tool.description)),
        ("parameters", schema(tool.parameters)),
    ]
}
