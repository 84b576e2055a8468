//! Typed reading of request bodies: one declaration gives a struct, its reader, and its JSON Schema.
//!
//! Readers borrow from the parsed body and name the JSON path of whatever is wrong. Knows JSON and errors, no protocol.

mod macros;
mod schema;
mod types;

use std::fmt;

use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value, write_compact};

pub(crate) use macros::{wire_object, wire_tagged, wire_words};
pub(crate) use schema::{described, schema_object, schema_of_members, tagged, tagged_otherwise, without};

/// A place in the body, as a chain of steps that lives on the stack; it becomes text only for an error.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'p> {
    /// The whole body.
    Root,
    /// A member of an object.
    Key(&'p Path<'p>, &'p str),
    /// An item of an array.
    Index(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => formatter.write_str(key),
            Path::Key(parent, key) => write!(formatter, "{parent}.{key}"),
            Path::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'p, 'v> {
    /// The value.
    pub(crate) value: &'v Value<'v>,
    /// Its place.
    pub(crate) path: &'p Path<'p>,
}

impl<'v> Node<'_, 'v> {
    /// An error of kind `code` here.
    pub(crate) fn fault(&self, code: ErrorCode, values: &[(&str, &dyn fmt::Display)]) -> Error {
        Error::new(code, self.path.to_string(), values)
    }

    /// The error for a value of the wrong type.
    pub(crate) fn wrong_type(&self, expected: &str) -> Error {
        self.fault(ErrorCode::InvalidType, &[("expected", &expected), ("found", &describe(self.value))])
    }

    /// The error for a value that is none of the known ones.
    pub(crate) fn unknown(&self, expected: &str) -> Error {
        self.fault(ErrorCode::UnknownValue, &[("expected", &expected), ("found", &describe(self.value))])
    }

    /// The error for a number outside its range.
    pub(crate) fn out_of_range(&self, expected: &str) -> Error {
        self.fault(ErrorCode::OutOfRange, &[("expected", &expected), ("found", &describe(self.value))])
    }

    /// The string here.
    pub(crate) fn string(&self) -> Result<&'v str, Error> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    /// The items here.
    pub(crate) fn array(&self) -> Result<&'v [Value<'v>], Error> {
        self.value.as_array().ok_or_else(|| self.wrong_type("an array"))
    }

    /// The object here.
    pub(crate) fn object(&self) -> Result<&'v Object<'v>, Error> {
        self.value.as_object().ok_or_else(|| self.wrong_type("an object"))
    }

    /// Reads a member of the object here; one that is absent reads as the type's absent value, if it has one.
    pub(crate) fn member<T: Wire<'v>>(&self, key: &str) -> Result<T, Error> {
        let path = Path::Key(self.path, key);
        match self.object()?.get(key) {
            Some(value) => T::read(Node { value, path: &path }),
            None => T::absent().ok_or_else(|| Error::new(ErrorCode::MissingField, path.to_string(), &[])),
        }
    }

    /// An error made at a member that is known to be there.
    pub(crate) fn member_node(&self, key: &str, fault: impl Fn(Node<'_, 'v>) -> Error) -> Error {
        match self.value.get(key) {
            Some(value) => fault(Node { value, path: &Path::Key(self.path, key) }),
            None => self.wrong_type("an object"),
        }
    }
}

/// What a value is, for an error message.
pub(crate) fn describe(value: &Value<'_>) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => {
            let mut text = String::new();
            write_compact(scalar, &mut text);
            text
        }
    }
}

/// A type that can be read from a body and described by a JSON Schema.
pub(crate) trait Wire<'v>: Sized {
    /// Reads the value.
    fn read(node: Node<'_, 'v>) -> Result<Self, Error>;

    /// The value of an absent member; `None` for a required one.
    fn absent() -> Option<Self> {
        None
    }

    /// JSON Schema of what `read` accepts.
    fn schema() -> Value<'static>;
}
