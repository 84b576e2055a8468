//! Strict schemas: the part of JSON Schema that can be enforced, and the form in which the prompt shows it.
//!
//! What is not in the tables below is left out of a strict tool (`title`, `$defs`, `minLength`, …), and so are members that
//! are null.

use std::collections::HashSet;

use crate::error::{Error, ErrorCode};
use crate::json::{NumberValue, Object, Value};
use crate::wire::{Node, Path, describe};

/// What the value of a kept member must be.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Format,
    Number,
    Integer,
}

type Table = &'static [(&'static str, Kind)];

const PLAIN: Table = &[("description", Kind::Text)];
const STRING: Table =
    &[("description", Kind::Text), ("pattern", Kind::Text), ("format", Kind::Format), ("enum", Kind::Texts)];
const NUMBER: Table = &[
    ("description", Kind::Text),
    ("const", Kind::Number),
    ("default", Kind::Number),
    ("minimum", Kind::Number),
    ("maximum", Kind::Number),
    ("exclusiveMinimum", Kind::Number),
    ("exclusiveMaximum", Kind::Number),
    ("multipleOf", Kind::Number),
];
const INTEGER: Table = &[
    ("description", Kind::Text),
    ("const", Kind::Integer),
    ("default", Kind::Integer),
    ("minimum", Kind::Integer),
    ("maximum", Kind::Integer),
    ("exclusiveMinimum", Kind::Integer),
    ("exclusiveMaximum", Kind::Integer),
    ("multipleOf", Kind::Integer),
];
const FORMATS: &[&str] = &["email", "hostname", "ipv4", "ipv6", "uuid"];
const SCALAR_TYPES: &[&str] = &["string", "number", "integer", "boolean", "null"];

/// Whether an object without properties may stand somewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Allowed,
    Refused,
}

/// The parameters of a strict tool as the prompt shows them: known members in a fixed order, objects closed and all their
/// properties required.
pub(in crate::protocol) fn rewrite<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    top_level(node, Empty::Allowed)
}

/// Checks a strict response format. The prompt shows its schema as the client wrote it.
pub(in crate::protocol) fn check_format(node: Node<'_, '_>) -> Result<(), Error> {
    top_level(node, Empty::Refused).map(drop)
}

/// What a strict tool without parameters shows.
pub(in crate::protocol) fn no_parameters() -> Value<'static> {
    Value::Object(closed_object(Object::default()).into_iter().collect())
}

fn fault(node: Node<'_, '_>, detail: &str) -> Error {
    node.fault(ErrorCode::InvalidStrictSchema, &[("detail", &detail)])
}

fn top_level<'v>(node: Node<'_, 'v>, empty: Empty) -> Result<Value<'v>, Error> {
    match node.value.get("type").and_then(Value::as_str) {
        Some("object") => object(node, empty),
        _ => Err(fault(node, "the top level must have \"type\": \"object\"")),
    }
}

fn schema<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    match (node.value.get("type"), node.value.get("anyOf"), node.value.get("$ref")) {
        (Some(Value::Array(kinds)), ..) => types(node, kinds),
        (Some(Value::String(kind)), ..) => typed(node, kind),
        (Some(_), ..) => Err(fault(node, "\"type\" must be a string or a list of strings")),
        (None, Some(choices), _) => any_of(node, choices),
        (None, None, Some(Value::String(reference))) => {
            Ok(Value::Object([("$ref", Value::from(reference.as_ref()))].into_iter().collect()))
        }
        (None, None, Some(_)) => Err(fault(node, "\"$ref\" must be a string")),
        (None, None, None) => Err(fault(node, "every schema needs \"type\", \"anyOf\" or \"$ref\"")),
    }
}

/// A schema of one type.
fn typed<'v>(node: Node<'_, 'v>, kind: &str) -> Result<Value<'v>, Error> {
    match kind {
        "object" => object(node, Empty::Refused),
        "array" => array(node),
        "string" => keep(node, STRING),
        "number" => keep(node, NUMBER),
        "integer" => keep(node, INTEGER),
        "boolean" | "null" => keep(node, PLAIN),
        other => Err(fault(node, &format!("the type {other:?} is unknown"))),
    }
}

fn types<'v>(node: Node<'_, 'v>, kinds: &'v [Value<'v>]) -> Result<Value<'v>, Error> {
    match kinds.iter().find(|kind| !kind.as_str().is_some_and(|kind| SCALAR_TYPES.contains(&kind))) {
        None => keep(node, PLAIN),
        Some(kind) => Err(fault(node, &format!("a list of types cannot hold {}", describe(kind)))),
    }
}

/// The type of this schema and those of its members that are in `table`, in that order.
fn keep<'v>(node: Node<'_, 'v>, table: Table) -> Result<Value<'v>, Error> {
    let kind = node.value.get("type").map(|kind| ("type", kind.borrowed()));
    let mut members: Vec<_> = kind.into_iter().collect();
    for (key, kind) in table {
        match node.value.get(key) {
            None | Some(Value::Null) => {}
            Some(value) if fits(value, *kind) => members.push((*key, value.borrowed())),
            Some(value) => return Err(fault(node, &format!("{key:?} cannot be {}", describe(value)))),
        }
    }
    Ok(Value::Object(members.into_iter().collect()))
}

fn fits(value: &Value<'_>, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Text, Value::String(_)) | (Kind::Number, Value::Number(_)) => true,
        (Kind::Texts, Value::Array(items)) => items.iter().all(|item| item.as_str().is_some()),
        (Kind::Format, Value::String(format)) => FORMATS.contains(&format.as_ref()),
        (Kind::Integer, Value::Number(number)) => match number.value() {
            NumberValue::Unsigned(value) => i64::try_from(value).is_ok(),
            NumberValue::Negative(_) => true,
            NumberValue::Float(_) => false,
        },
        _ => false,
    }
}

fn array<'v>(node: Node<'_, 'v>) -> Result<Value<'v>, Error> {
    let Some(items) = node.value.get("items") else { return Err(fault(node, "an array needs \"items\"")) };
    let items = schema(Node { value: items, path: &Path::Key(node.path, "items") })?;
    with_description(node, vec![("type", "array".into()), ("items", items)])
}

fn any_of<'v>(node: Node<'_, 'v>, choices: &'v Value<'v>) -> Result<Value<'v>, Error> {
    let path = Path::Key(node.path, "anyOf");
    let Value::Array(choices) = choices else { return Err(fault(node, "\"anyOf\" must be a list")) };
    let rewrite = |(index, value): (usize, &'v Value<'v>)| {
        let node = Node { value, path: &Path::Index(&path, index) };
        match value.get("type").and_then(Value::as_str) {
            Some(kind) => typed(node, kind),
            None => Err(fault(node, "every choice of \"anyOf\" needs one \"type\"")),
        }
    };
    let choices = choices.iter().enumerate().map(rewrite).collect::<Result<_, _>>()?;
    with_description(node, vec![("anyOf", Value::Array(choices))])
}

fn object<'v>(node: Node<'_, 'v>, empty: Empty) -> Result<Value<'v>, Error> {
    match node.value.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(_) => return Err(fault(node, "\"additionalProperties\" must be false")),
    }
    let properties: Vec<(&'v str, &'v Value<'v>)> = match node.value.get("properties") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(properties)) => properties.iter().collect(),
        Some(_) => return Err(fault(node, "\"properties\" must be an object")),
    };
    if properties.is_empty() && empty == Empty::Refused {
        return Err(fault(node, "an object needs properties here"));
    }
    check_required(node, &properties)?;
    let path = Path::Key(node.path, "properties");
    let rewrite =
        |(key, value): (&'v str, &'v Value<'v>)| Ok((key, schema(Node { value, path: &Path::Key(&path, key) })?));
    let rewritten = properties.into_iter().map(rewrite).collect::<Result<Vec<_>, Error>>()?;
    with_description(node, closed_object(rewritten.into_iter().collect()))
}

fn closed_object(properties: Object<'_>) -> Vec<(&'static str, Value<'_>)> {
    let required = properties.iter().map(|(key, _)| Value::from(key.to_owned())).collect();
    vec![
        ("type", "object".into()),
        ("properties", Value::Object(properties)),
        ("additionalProperties", false.into()),
        ("required", Value::Array(required)),
    ]
}

/// `required` may be left out; given, it must name every property once and nothing else.
fn check_required(node: Node<'_, '_>, properties: &[(&str, &Value<'_>)]) -> Result<(), Error> {
    let required = match node.value.get("required") {
        None | Some(Value::Null) => return Ok(()),
        Some(value) => value.as_array().ok_or_else(|| fault(node, "\"required\" must be a list"))?,
    };
    let known: HashSet<&str> = properties.iter().map(|(name, _)| *name).collect();
    let mut named = HashSet::new();
    for item in required {
        let Some(name) = item.as_str() else { return Err(fault(node, "\"required\" must hold strings")) };
        if !known.contains(name) {
            return Err(fault(node, &format!("\"required\" names {name:?}, which is no property")));
        }
        if !named.insert(name) {
            return Err(fault(node, &format!("\"required\" names {name:?} more than once")));
        }
    }
    match properties.iter().find(|(name, _)| !named.contains(name)) {
        Some((missing, _)) => {
            Err(fault(node, &format!("\"required\" must name every property; {missing:?} is missing")))
        }
        None => Ok(()),
    }
}

fn with_description<'v>(node: Node<'_, 'v>, mut members: Vec<(&'static str, Value<'v>)>) -> Result<Value<'v>, Error> {
    match node.value.get("description") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => members.push(("description", Value::from(text.as_ref()))),
        Some(_) => return Err(fault(node, "\"description\" must be a string")),
    }
    Ok(Value::Object(members.into_iter().collect()))
}
