//! JSON as the codec needs it: borrowed strings, key order kept, and every number with the client's own digits.
//!
//! Owns the value type and its accessors; `parse` reads it, `compact` and `python` print it. Knows no protocol. A general
//! library is not used here because the prompt depends on details that they hide: the spelling of numbers, the place of
//! a repeated key, and borrowed text.

mod compact;
mod escape;
mod parse;
mod pretty;
mod python;
mod strings;
mod unescape;

use std::borrow::Cow;
use std::collections::HashMap;

pub use compact::{write_compact, write_string};
pub(crate) use escape::{escape_into, escape_line_ends_into};
pub use parse::{MAX_DEPTH, parse, parse_into};
pub use pretty::write_pretty;
pub(crate) use python::write_python_watched;
pub use python::{FloatStyle, write_python, write_rewritten};

/// A JSON value. Strings without escapes borrow from the text they were read from.
// A tag as wide as what follows it keeps values aligned, of which a request has thousands that are moved about.
#[derive(Debug, Clone, PartialEq)]
#[repr(usize)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(Number<'a>),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object, in the order written.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if this is one.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The items, if this is an array.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The member `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object()?.get(key)
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(Number(literal)) => Value::Number(Number(Cow::Owned(literal.into_owned()))),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Object(object) => Value::Object(Object {
                entries: object
                    .entries
                    .into_iter()
                    .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                    .collect(),
            }),
        }
    }

    /// The same value borrowing from this one.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(*value),
            Value::Number(Number(literal)) => Value::Number(Number(Cow::Borrowed(literal))),
            Value::String(text) => Value::String(Cow::Borrowed(text)),
            Value::Array(items) => Value::Array(items.iter().map(Value::borrowed).collect()),
            Value::Object(object) => Value::Object(
                object.iter().map(|(key, value)| (Cow::Borrowed(key), value.borrowed())).collect::<Object<'_>>(),
            ),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::String(Cow::Owned(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Number(Number(Cow::Owned(value.to_string())))
    }
}

/// A number as written. Its value follows the reference's model: an integer literal within [-2^63, 2^64-1] is an integer;
/// anything else, the literal `-0` included, is an f64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number<'a>(Cow<'a, str>);

/// The value of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberValue {
    /// An integer of at least zero.
    Unsigned(u64),
    /// A negative integer.
    Negative(i64),
    /// Everything else.
    Float(f64),
}

impl Number<'_> {
    /// The digits as the client wrote them.
    pub fn literal(&self) -> &str {
        &self.0
    }

    /// The value.
    pub fn value(&self) -> NumberValue {
        if let Ok(value) = self.0.parse::<u64>() {
            return NumberValue::Unsigned(value);
        }
        match self.0.parse::<i64>() {
            Ok(value) if value != 0 => NumberValue::Negative(value),
            _ => NumberValue::Float(self.0.parse().unwrap_or(f64::NAN)),
        }
    }
}

impl From<f64> for Value<'_> {
    /// The shortest digits that read back as `value`; `null` for what JSON cannot say.
    fn from(value: f64) -> Self {
        if !value.is_finite() {
            return Value::Null;
        }
        Value::Number(Number(Cow::Owned(format!("{value:?}"))))
    }
}

/// Members of a JSON object in the order written. A repeated key keeps its first place and its last value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a, K: Into<Cow<'a, str>>> FromIterator<(K, Value<'a>)> for Object<'a> {
    fn from_iter<I: IntoIterator<Item = (K, Value<'a>)>>(members: I) -> Self {
        let mut builder = ObjectBuilder::default();
        for (key, value) in members {
            *builder.member(key.into()) = value;
        }
        builder.finish()
    }
}

/// Collects members; a repeated key is found in constant time however many there are.
#[derive(Default)]
struct ObjectBuilder<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Made once a scan would be slower.
    places: Option<HashMap<Cow<'a, str>, usize>>,
}

impl<'a> ObjectBuilder<'a> {
    /// Up to here a scan is faster than hashing.
    const SCAN_LIMIT: usize = 16;

    /// Where the value of the member `key` is to be.
    #[inline]
    fn member(&mut self, key: Cow<'a, str>) -> &mut Value<'a> {
        if let Some(place) = self.place(&key) {
            return &mut self.entries[place].1;
        }
        if let Some(places) = &mut self.places {
            places.insert(key.clone(), self.entries.len());
        }
        // What is surely there is written to at once.
        self.entries.reserve(1);
        &mut self.entries.push_mut((key, Value::Null)).1
    }

    fn place(&mut self, key: &str) -> Option<usize> {
        if self.entries.len() < Self::SCAN_LIMIT {
            return self.entries.iter().position(|(name, _)| name == key);
        }
        let entries = &self.entries;
        let index = || entries.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        self.places.get_or_insert_with(index).get(key).copied()
    }

    fn finish(self) -> Object<'a> {
        Object { entries: self.entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_follow_the_reference_model() {
        let number = |text: &str| match parse(text.as_bytes()).unwrap() {
            Value::Number(number) => number.value(),
            other => panic!("{other:?}"),
        };
        assert_eq!(number("18446744073709551615"), NumberValue::Unsigned(u64::MAX));
        assert_eq!(number("-9223372036854775808"), NumberValue::Negative(i64::MIN));
        assert_eq!(number("18446744073709551616"), NumberValue::Float(18_446_744_073_709_551_616.0));
        assert!(matches!(number("-0"), NumberValue::Float(zero) if zero.is_sign_negative()));
        assert_eq!(number("1e2"), NumberValue::Float(100.0));
    }

    #[test]
    fn a_repeated_key_keeps_its_first_place_and_last_value() {
        let object = value(r#"{"a": 1, "b": 2, "a": 3}"#);
        let members: Vec<_> = object.as_object().unwrap().iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(members, ["a", "b"]);
        assert_eq!(object.get("a"), Some(&value("3")));
    }

    #[test]
    fn many_repeated_keys_are_found_by_hash() {
        let members: Vec<String> = (0..100).map(|index| format!("\"k{}\": {index}", index % 50)).collect();
        let text = format!("{{{}}}", members.join(","));
        let object = value(&text);
        assert_eq!(object.as_object().unwrap().len(), 50);
        assert_eq!(object.get("k7"), Some(&value("57")));
    }
}
