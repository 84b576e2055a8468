//! Pieces of JSON Schemas, for the types that describe themselves.

use crate::json::Value;

/// A schema from members.
pub(crate) fn schema_object<const N: usize>(members: [(&'static str, Value<'static>); N]) -> Value<'static> {
    Value::Object(members.into_iter().collect())
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
            let others = properties.into_iter().filter(|(key, _)| key != tag);
            (key, Value::Object([(tag.into(), constant())].into_iter().chain(others).collect()))
        }
        ("required", Value::Array(required)) => {
            let others = required.into_iter().filter(|key| key.as_str() != Some(tag));
            (key, Value::Array([tag.into()].into_iter().chain(others).collect()))
        }
        (_, value) => (key, value),
    });
    Value::Object(members.collect())
}

/// The schema of tagged objects of which nothing but the tag is read: those whose tag is none of `known`.
pub(crate) fn tagged_otherwise(tag: &'static str, known: &[&'static str]) -> Value<'static> {
    let words = known.iter().map(|word| Value::from(*word)).collect();
    let others = schema_object([("type", "string".into()), ("not", schema_object([("enum", Value::Array(words))]))]);
    schema_of_members(vec![(tag, true, others)])
}

/// The schema of objects that lack a member.
pub(crate) fn without(schema: Value<'static>, key: &'static str) -> Value<'static> {
    let lacks = schema_object([("required", Value::Array(vec![key.into()]))]);
    match schema {
        Value::Object(object) => Value::Object(object.into_iter().chain([("not".into(), lacks)]).collect()),
        other => other,
    }
}
