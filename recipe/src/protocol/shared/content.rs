//! Content that is either text or a list of something: the shape that the protocols share.

use crate::error::Error;
use crate::json::Value;
use crate::wire::{Node, Wire, schema_object};

/// Text, or a list of parts.
#[derive(Debug, Clone)]
pub(in crate::protocol) enum TextOr<'v, T> {
    /// Text.
    Text(&'v str),
    /// Parts.
    Parts(Vec<T>),
}

impl<'v, T: Wire<'v>> Wire<'v> for TextOr<'v, T> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::String(text) => Ok(TextOr::Text(text)),
            Value::Array(_) => Vec::read(node).map(TextOr::Parts),
            _ => Err(node.wrong_type("a string or an array")),
        }
    }

    fn schema() -> Value<'static> {
        schema_object([("anyOf", Value::Array(vec![<&str>::schema(), Vec::<T>::schema()]))])
    }
}
