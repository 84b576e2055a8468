//! Typed reading of request bodies: one declaration gives a struct, its reader, and its JSON Schema.
//!
//! Readers borrow from the parsed body and name the JSON path of whatever is wrong. Knows JSON and errors, no protocol.

use std::collections::HashMap;
use std::fmt;

use crate::error::{Error, ErrorCode};
use crate::json::{NumberValue, Object, Value, write_compact};

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

/// A schema from members.
pub(crate) fn schema_object<const N: usize>(members: [(&'static str, Value<'static>); N]) -> Value<'static> {
    Value::Object(members.into_iter().collect())
}

impl<'v, T: Wire<'v>> Wire<'v> for Option<T> {
    /// `null` is the same as absent.
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::Null => Ok(None),
            _ => T::read(node).map(Some),
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn schema() -> Value<'static> {
        schema_object([("anyOf", Value::Array(vec![T::schema(), schema_object([("type", "null".into())])]))])
    }
}

impl<'v, T: Wire<'v>> Wire<'v> for Vec<T> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        let items = node.array()?;
        let read = |(index, value)| T::read(Node { value, path: &Path::Index(node.path, index) });
        items.iter().enumerate().map(read).collect()
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "array".into()), ("items", T::schema())])
    }
}

impl<'v> Wire<'v> for &'v str {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        node.string()
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "string".into())])
    }
}

impl<'v> Wire<'v> for bool {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        match node.value {
            Value::Bool(value) => Ok(*value),
            _ => Err(node.wrong_type("true or false")),
        }
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "boolean".into())])
    }
}

/// Any JSON value.
impl<'v> Wire<'v> for &'v Value<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        Ok(node.value)
    }

    fn schema() -> Value<'static> {
        schema_object([])
    }
}

/// A JSON object with any members.
impl<'v> Wire<'v> for &'v Object<'v> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        node.object()
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "object".into())])
    }
}

macro_rules! unsigned {
    ($($type:ty, $expected:literal;)*) => {$(
        impl<'v> Wire<'v> for $type {
            fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
                let Value::Number(number) = node.value else { return Err(node.wrong_type("an integer")) };
                match number.value() {
                    NumberValue::Unsigned(value) => value.try_into().map_err(|_| node.out_of_range($expected)),
                    NumberValue::Negative(_) => Err(node.out_of_range($expected)),
                    NumberValue::Float(_) => Err(node.wrong_type("an integer")),
                }
            }

            fn schema() -> Value<'static> {
                let maximum = u64::from(<$type>::MAX);
                schema_object([("type", "integer".into()), ("minimum", 0.into()), ("maximum", maximum.into())])
            }
        }
    )*};
}

unsigned! {
    u8, "an integer from 0 to 255";
    u32, "an integer from 0 to 4294967295";
    u64, "an integer from 0 to 18446744073709551615";
}

/// A number; rounded to single precision, as the model's service does.
impl<'v> Wire<'v> for f32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "single precision is what is wanted"
    )]
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        let Value::Number(number) = node.value else { return Err(node.wrong_type("a number")) };
        Ok(match number.value() {
            NumberValue::Unsigned(value) => value as f32,
            NumberValue::Negative(value) => value as f32,
            NumberValue::Float(value) => value as f32,
        })
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "number".into())])
    }
}

impl<'v, T: Wire<'v>> Wire<'v> for HashMap<&'v str, T> {
    fn read(node: Node<'_, 'v>) -> Result<Self, Error> {
        let read = |(key, value)| Ok((key, T::read(Node { value, path: &Path::Key(node.path, key) })?));
        node.object()?.iter().map(read).collect()
    }

    fn schema() -> Value<'static> {
        schema_object([("type", "object".into()), ("additionalProperties", T::schema())])
    }
}

/// Declares an object: a struct whose fields are its members, each read by its own type. Other members are ignored.
macro_rules! wire_object {
    ($(#[$doc:meta])* $visibility:vis struct $name:ident<$life:lifetime> {
        $($(#[doc = $field_doc:literal])* $field:ident $(as $key:literal)?: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[allow(dead_code, reason = "some members are only checked")]
        $visibility struct $name<$life> {
            $($(#[doc = $field_doc])* $visibility $field: $type,)*
            #[doc(hidden)]
            _body: std::marker::PhantomData<&$life ()>,
        }

        impl<$life> $crate::wire::Wire<$life> for $name<$life> {
            fn read(node: $crate::wire::Node<'_, $life>) -> Result<Self, $crate::error::Error> {
                node.object()?;
                Ok(Self {
                    $($field: node.member($crate::wire::wire_object!(@key $field $($key)?))?,)*
                    _body: std::marker::PhantomData,
                })
            }

            fn schema() -> $crate::json::Value<'static> {
                $crate::wire::schema_of_members(vec![$((
                    $crate::wire::wire_object!(@key $field $($key)?),
                    <$type as $crate::wire::Wire<'_>>::absent().is_none(),
                    $crate::wire::described(<$type as $crate::wire::Wire<'_>>::schema(), concat!("" $(, $field_doc)*)),
                ),)*])
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

/// Declares a set of words.
macro_rules! wire_words {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name { $($(#[$variant_doc])* $variant,)* }

        impl<'v> $crate::wire::Wire<'v> for $name {
            fn read(node: $crate::wire::Node<'_, 'v>) -> Result<Self, $crate::error::Error> {
                match node.string()? {
                    $($word => Ok($name::$variant),)*
                    _ => Err(node.unknown([$($word),*].join(", ").as_str())),
                }
            }

            fn schema() -> $crate::json::Value<'static> {
                let words = vec![$($crate::json::Value::from($word)),*];
                $crate::wire::schema_object([("type", "string".into()), ("enum", $crate::json::Value::Array(words))])
            }
        }
    };
}

/// Declares objects told apart by the word in one member.
macro_rules! wire_tagged {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident<$life:lifetime> by $tag:literal {
        $($(#[$variant_doc:meta])* $variant:ident($type:ty) = $word:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[allow(dead_code, reason = "some variants are only checked")]
        $visibility enum $name<$life> { $($(#[$variant_doc])* $variant($type),)* }

        impl<$life> $crate::wire::Wire<$life> for $name<$life> {
            fn read(node: $crate::wire::Node<'_, $life>) -> Result<Self, $crate::error::Error> {
                match node.member::<&str>($tag)? {
                    $($word => <$type as $crate::wire::Wire<'_>>::read(node).map($name::$variant),)*
                    _ => Err(node.member_node($tag, |tag| tag.unknown([$($word),*].join(", ").as_str()))),
                }
            }

            fn schema() -> $crate::json::Value<'static> {
                let variants = vec![$(
                    $crate::wire::tagged(<$type as $crate::wire::Wire<'_>>::schema(), $tag, $word),
                )*];
                $crate::wire::schema_object([("oneOf", $crate::json::Value::Array(variants))])
            }
        }
    };
}

pub(crate) use {wire_object, wire_tagged, wire_words};

impl<'v> Node<'_, 'v> {
    /// An error made at a member that is known to be there.
    pub(crate) fn member_node(&self, key: &str, fault: impl Fn(Node<'_, 'v>) -> Error) -> Error {
        match self.value.get(key) {
            Some(value) => fault(Node { value, path: &Path::Key(self.path, key) }),
            None => self.wrong_type("an object"),
        }
    }
}

/// The schema of an object from its members: name, whether it is required, schema.
pub(crate) fn schema_of_members(members: Vec<(&'static str, bool, Value<'static>)>) -> Value<'static> {
    let required = members.iter().filter(|(_, required, _)| *required).map(|(key, ..)| Value::from(*key)).collect();
    let properties = members.into_iter().map(|(key, _, schema)| (key, schema)).collect();
    schema_object([
        ("type", "object".into()),
        ("properties", Value::Object(properties)),
        ("required", Value::Array(required)),
    ])
}

/// Adds a description to a schema.
pub(crate) fn described(schema: Value<'static>, description: &'static str) -> Value<'static> {
    match schema {
        Value::Object(object) => {
            let description = ("description".into(), Value::from(description.trim()));
            Value::Object(object.into_iter().chain([description]).collect())
        }
        other => other,
    }
}

/// Adds the member that tells a variant of a tagged object apart.
pub(crate) fn tagged(schema: Value<'static>, tag: &'static str, word: &'static str) -> Value<'static> {
    let Value::Object(object) = schema else { return schema };
    let constant = || schema_object([("const", Value::from(word))]);
    let members = object.into_iter().map(|(key, value)| match (key.as_ref(), value) {
        ("properties", Value::Object(properties)) => {
            let properties = [(tag.into(), constant())].into_iter().chain(properties).collect();
            (key, Value::Object(properties))
        }
        ("required", Value::Array(mut required)) => {
            required.insert(0, tag.into());
            (key, Value::Array(required))
        }
        (_, value) => (key, value),
    });
    Value::Object(members.collect())
}
