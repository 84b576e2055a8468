//! Whether a value is a JSON Schema, as far as a library can tell. References to other documents are never fetched.

use crate::error::{Error, ErrorCode};
use crate::json::{NumberValue, Value};
use crate::wire::Node;

use super::plain_schema::is_plain;
use super::strict;

/// Checks the schema here: its form, its references within itself, its regular expressions.
///
/// `$schema` may name draft 4, 6, 7, 2019-09 or 2020-12; without it the latest applies.
fn check_schema(node: Node<'_, '_>) -> Result<(), Error> {
    if is_plain(node.value) {
        return Ok(());
    }
    match jsonschema::validator_for(&to_library(node.value)) {
        Ok(_) => Ok(()),
        Err(error) => Err(node.fault(ErrorCode::InvalidSchema, &[("detail", &error)])),
    }
}

/// Checks the schema of a response format.
pub(in crate::protocol) fn check_format(node: Node<'_, '_>, strict: Option<bool>) -> Result<(), Error> {
    if strict == Some(true) { strict::check_format(node) } else { check_schema(node) }
}

/// Checks the parameters of a tool: a schema whose top level is an object.
pub(in crate::protocol) fn check_parameters(node: Node<'_, '_>) -> Result<(), Error> {
    check_schema(node)?;
    match node.value.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(()),
        _ => Err(node.fault(ErrorCode::InvalidSchema, &[("detail", &"the top level must have \"type\": \"object\"")])),
    }
}

pub(super) fn to_library(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.value() {
            NumberValue::Unsigned(value) => value.into(),
            NumberValue::Negative(value) => value.into(),
            NumberValue::Float(value) => value.into(),
        },
        Value::String(text) => text.as_ref().into(),
        Value::Array(items) => items.iter().map(to_library).collect(),
        Value::Object(object) => {
            let members = object.iter().map(|(key, value)| (key.to_owned(), to_library(value)));
            serde_json::Value::Object(members.collect())
        }
    }
}
