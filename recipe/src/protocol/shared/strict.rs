//! Strict tools: the part of JSON Schema that can be enforced, and the form in which the prompt shows it.

use std::collections::HashSet;

use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value};
use crate::wire::{Node, Path, describe};

const STRING_KEYS: &[&str] = &["type", "description", "pattern", "format", "enum"];
const NUMBER_KEYS: &[&str] =
    &["type", "description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const PLAIN_KEYS: &[&str] = &["type", "description"];
const FORMATS: &[&str] = &["email", "hostname", "ipv4", "ipv6", "uuid"];
const SCALAR_TYPES: &[&str] = &["string", "number", "integer", "boolean", "null"];

/// The schema of a strict tool as the prompt shows it: known keys only, in a fixed order, objects closed and all their
/// properties required.
pub(in crate::protocol) fn rewrite<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    match node.value.get("type") {
        Some(Value::String(kind)) if kind == "object" => object(node, true),
        _ => Err(fault(node, "the top level must have \"type\": \"object\"")),
    }
}

/// What a strict tool without parameters shows.
pub(in crate::protocol) fn no_parameters() -> Value<'static> {
    members([
        ("type", "object".into()),
        ("properties", Value::Object(Object::default())),
        ("additionalProperties", false.into()),
        ("required", Value::Array(Vec::new())),
    ])
}

fn members<'v, const N: usize>(members: [(&'static str, Value<'v>); N]) -> Value<'v> {
    Value::Object(members.into_iter().collect())
}

fn fault(node: Node<'_, '_>, detail: &str) -> Error {
    node.fault(ErrorCode::InvalidStrictSchema, &[("detail", &detail)])
}

fn rewrite_node<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    match (node.value.get("type"), node.value.get("anyOf"), node.value.get("$ref")) {
        (Some(Value::Array(kinds)), ..) => {
            match kinds.iter().find(|kind| !kind.as_str().is_some_and(|kind| SCALAR_TYPES.contains(&kind))) {
                None => Ok(keep(node, PLAIN_KEYS)),
                Some(kind) => Err(fault(node, &format!("a list of types may not hold {}", describe(kind)))),
            }
        }
        (Some(Value::String(kind)), ..) => match kind.as_ref() {
            "object" => object(node, false),
            "array" => array(node),
            "string" => string(node),
            "number" | "integer" => Ok(keep(node, NUMBER_KEYS)),
            "boolean" | "null" => Ok(keep(node, PLAIN_KEYS)),
            other => Err(fault(node, &format!("the type {other:?} is unknown"))),
        },
        (Some(_), ..) => Err(fault(node, "\"type\" must be a string or a list of strings")),
        (None, Some(_), _) => any_of(node),
        (None, None, Some(_)) => Ok(keep(node, &["$ref"])),
        (None, None, None) => Err(fault(node, "every schema needs \"type\", \"anyOf\" or \"$ref\"")),
    }
}

/// The members of this schema that are in `keys`, in that order.
fn keep<'v>(node: Node<'_, 'v>, keys: &[&'static str]) -> Value<'v> {
    let kept = keys.iter().filter_map(|key| Some((*key, node.value.get(key)?.borrowed())));
    Value::Object(kept.collect())
}

fn string<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    match node.value.get("format") {
        None | Some(Value::Null) => Ok(keep(node, STRING_KEYS)),
        Some(format) if format.as_str().is_some_and(|format| FORMATS.contains(&format)) => Ok(keep(node, STRING_KEYS)),
        Some(format) => Err(fault(node, &format!("the format {} is none of {}", describe(format), FORMATS.join(", ")))),
    }
}

fn array<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    let Some(items) = node.value.get("items") else { return Err(fault(node, "an array needs \"items\"")) };
    let items = rewrite_node(Node { value: items, path: &Path::Key(node.path, "items") })?;
    let kept = [("type", "array".into()), ("items", items)];
    Ok(with_description(node, kept.into()))
}

fn any_of<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    let path = Path::Key(node.path, "anyOf");
    let Some(Value::Array(choices)) = node.value.get("anyOf") else {
        return Err(fault(node, "\"anyOf\" must be a list"));
    };
    let rewrite = |(index, value)| rewrite_node(Node { value, path: &Path::Index(&path, index) });
    let choices = choices.iter().enumerate().map(rewrite).collect::<Result<_, _>>()?;
    Ok(with_description(node, vec![("anyOf", Value::Array(choices))]))
}

fn object<'v>(node: Node<'_, 'v>, root: bool) -> Result<Value<'v>, Error> {
    match node.value.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(_) => return Err(fault(node, "\"additionalProperties\" must be false")),
    }
    let path = Path::Key(node.path, "properties");
    let properties: Vec<(&'v str, &'v Value<'v>)> = match node.value.get("properties") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(properties)) => properties.iter().collect(),
        Some(_) => return Err(fault(node, "\"properties\" must be an object")),
    };
    if properties.is_empty() && !root {
        return Err(fault(node, "an object inside the parameters needs properties"));
    }
    check_required(node, &properties)?;
    let rewrite = |(key, value): &(&'v str, &'v Value<'v>)| {
        Ok((*key, rewrite_node(Node { value, path: &Path::Key(&path, key) })?))
    };
    let rewritten: Object<'v> =
        properties.iter().map(rewrite).collect::<Result<Vec<_>, Error>>()?.into_iter().collect();
    let required = properties.iter().map(|(key, _)| Value::from(*key)).collect();
    let kept = [
        ("type", "object".into()),
        ("properties", Value::Object(rewritten)),
        ("additionalProperties", false.into()),
        ("required", Value::Array(required)),
    ];
    Ok(with_description(node, kept.into()))
}

/// `required` may be left out; given, it must name every property and nothing else.
fn check_required(node: Node<'_, '_>, properties: &[(&str, &Value<'_>)]) -> Result<(), Error> {
    let required = match node.value.get("required") {
        None | Some(Value::Null) => return Ok(()),
        Some(value) => value.as_array().ok_or_else(|| fault(node, "\"required\" must be a list"))?,
    };
    let names: HashSet<&str> = required.iter().filter_map(Value::as_str).collect();
    let known: HashSet<&str> = properties.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = names.difference(&known).next() {
        return Err(fault(node, &format!("\"required\" names {unknown:?}, which is no property")));
    }
    match properties.iter().find(|(name, _)| !names.contains(name)) {
        Some((missing, _)) => {
            Err(fault(node, &format!("\"required\" must name every property; {missing:?} is missing")))
        }
        None => Ok(()),
    }
}

fn with_description<'v>(node: Node<'_, 'v>, mut kept: Vec<(&'static str, Value<'v>)>) -> Value<'v> {
    if let Some(description) = node.value.get("description") {
        kept.push(("description", description.borrowed()));
    }
    Value::Object(kept.into_iter().collect())
}
