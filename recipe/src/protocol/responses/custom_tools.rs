//! Responses: tools that take free text, as the model sees them: functions with that text as their one parameter.

use crate::conversation::Tool;
use crate::error::Error;
use crate::json::{Object, Value, parse};
use crate::model::Version;
use crate::wire::{Node, Path, Wire as _};

use super::tools::{CustomFormat, CustomTool, Grammar, Syntax};

/// The tool that edits files: its description and schema are the model's own, whatever the request says.
const APPLY_PATCH: &str = "apply_patch";
/// Its schema in the prompt.
const APPLY_PATCH_PARAMETERS: &str = include_str!("../../../data/apply_patch_parameters.json");
/// What the parameter of any other tool is.
const INPUT: &str = "The entire input of the tool, as plain text.";
/// The member of the constraint's schema that holds the grammar; no keyword of JSON Schema.
const GRAMMAR: &str = "x-grammar";

/// What the model sees of a tool declared at `item`.
pub(super) fn custom_tool<'v>(tool: &CustomTool<'v>, item: &Path<'_>, version: Version) -> Result<Tool<'v>, Error> {
    if tool.name == APPLY_PATCH {
        return Ok(Tool {
            name: APPLY_PATCH.into(),
            description: Some(version.apply_patch_description().into()),
            parameters: parse(APPLY_PATCH_PARAMETERS.as_bytes())?,
            enforced: None,
            strict: None,
            deferred: false,
            path: item.to_string(),
        });
    }
    let description = match tool.description {
        Some(value) => Option::<&str>::read(Node { value, path: &Path::Key(item, "description") })?,
        None => None,
    };
    let format = match tool.format {
        Some(value) => Option::<CustomFormat<'_>>::read(Node { value, path: &Path::Key(item, "format") })?,
        None => None,
    };
    let grammar = match &format {
        Some(CustomFormat::Grammar(grammar)) => Some(grammar),
        None | Some(CustomFormat::Text(_)) => None,
    };
    let pieces: Vec<String> = description.map(str::to_owned).into_iter().chain(grammar.map(described)).collect();
    Ok(Tool {
        name: tool.name.into(),
        description: (!pieces.is_empty()).then(|| pieces.join("\n\n").into()),
        parameters: parameters(None),
        enforced: grammar.map(|grammar| parameters(Some(grammar))),
        strict: None,
        deferred: false,
        path: Path::Key(&Path::Key(item, "format"), "definition").to_string(),
    })
}

/// The grammar in the description, in words and whole.
fn described(grammar: &Grammar<'_>) -> String {
    let kind = match grammar.syntax {
        Syntax::Lark => "Lark grammar",
        Syntax::Regex => "regular expression",
    };
    format!("The input must match this {kind}:\n{}", grammar.definition)
}

/// The schema of the arguments; the one that the answer is held to has the grammar in it.
fn parameters<'v>(grammar: Option<&Grammar<'v>>) -> Value<'v> {
    let grammar = grammar.map(|grammar| {
        let syntax = match grammar.syntax {
            Syntax::Lark => "lark",
            Syntax::Regex => "regex",
        };
        (GRAMMAR, object([("syntax", syntax.into()), ("definition", grammar.definition.into())]))
    });
    let input = [("type", "string".into()), ("description", INPUT.into())];
    object([
        ("type", "object".into()),
        ("additionalProperties", Value::Bool(false)),
        ("properties", object([("input", object(input.into_iter().chain(grammar)))])),
        ("required", Value::Array(vec!["input".into()])),
    ])
}

fn object<'v>(members: impl IntoIterator<Item = (&'v str, Value<'v>)>) -> Value<'v> {
    Value::Object(Object::from_iter(members))
}
