//! The types of JSON Schema, as a set.

use std::ops::{BitAnd, BitOr};

use crate::json::Value;

use super::number::Decimal;

/// Some of the types. Numbers are two: integers, and those with a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Types = Types(0);
    pub(super) const NULL: Types = Types(1);
    pub(super) const BOOLEAN: Types = Types(1 << 1);
    pub(super) const INTEGER: Types = Types(1 << 2);
    pub(super) const FRACTION: Types = Types(1 << 3);
    pub(super) const NUMBER: Types = Types(Self::INTEGER.0 | Self::FRACTION.0);
    pub(super) const STRING: Types = Types(1 << 4);
    pub(super) const ARRAY: Types = Types(1 << 5);
    pub(super) const OBJECT: Types = Types(1 << 6);
    pub(super) const ALL: Types = Types((1 << 7) - 1);
    pub(super) const NOT_STRING: Types = Types(Self::ALL.0 & !Self::STRING.0);

    /// The types that a schema's word means.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Whether any of `other` is among these.
    pub(super) fn holds(self, other: Self) -> bool {
        !(self & other).is_empty()
    }
}

impl BitAnd for Types {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The type of a value.
pub(super) fn type_of(value: &Value<'_>) -> Types {
    match value {
        Value::Null => Types::NULL,
        Value::Bool(_) => Types::BOOLEAN,
        Value::Number(number) => match Decimal::read(number.literal()) {
            Some(value) if !value.is_integer() => Types::FRACTION,
            _ => Types::INTEGER,
        },
        Value::String(_) => Types::STRING,
        Value::Array(_) => Types::ARRAY,
        Value::Object(_) => Types::OBJECT,
    }
}
