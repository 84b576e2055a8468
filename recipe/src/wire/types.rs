//! The types that members of bodies have, besides those that are declared by macros.

use crate::error::Error;
use crate::json::{NumberValue, Object, Value};

use super::{Node, Path, Wire, schema_object};

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
        let mut all = Vec::with_capacity(items.len());
        for (index, value) in items.iter().enumerate() {
            all.push(T::read(Node { value, path: &Path::Index(node.path, index) })?);
        }
        Ok(all)
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
