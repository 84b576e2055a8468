//! Schemas of which a look tells that they are sound: those that nearly all tools have.
//!
//! Knows a part of JSON Schema in which nothing refers to anything and nothing is compiled; it means the same in drafts 7 and
//! 2020-12. What is not in this part may be as sound. Cost: one pass, while a library takes hundreds of times as long.

use crate::json::{NumberValue, Value};

/// Drafts that have this part, as `$schema` names them.
const DRAFTS: &[&str] = &["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"];
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];
/// Texts that must not repeat are compared with each other up to here.
const MOST_NAMES: usize = 32;

/// Whether a schema is surely sound.
pub(super) fn is_plain(schema: &Value<'_>) -> bool {
    let is_known = |draft: &Value<'_>| draft.as_str().is_some_and(|draft| DRAFTS.contains(&draft));
    schema.get("$schema").is_none_or(is_known) && is_sound(schema, true)
}

fn is_sound(schema: &Value<'_>, is_top: bool) -> bool {
    let Value::Object(members) = schema else { return matches!(schema, Value::Bool(_)) };
    members.iter().all(|(key, value)| match key {
        "$schema" => is_top,
        "type" => match value {
            Value::String(kind) => TYPES.contains(&kind.as_ref()),
            kinds => are_names(kinds, |kind| TYPES.contains(&kind)) && kinds.as_array() != Some(&[]),
        },
        "description" | "title" => value.as_str().is_some(),
        "properties" => value.as_object().is_some_and(|properties| {
            properties.iter().all(|(name, schema)| !name.starts_with('$') && is_sound(schema, false))
        }),
        "required" => are_names(value, |_| true),
        "items" | "additionalProperties" => is_sound(value, false),
        "anyOf" | "oneOf" | "allOf" => match value {
            Value::Array(schemas) => !schemas.is_empty() && schemas.iter().all(|schema| is_sound(schema, false)),
            _ => false,
        },
        "enum" => are_names(value, |_| true) && value.as_array() != Some(&[]),
        "default" => !matches!(value, Value::Array(_) | Value::Object(_)),
        "minimum" | "maximum" => matches!(value, Value::Number(_)),
        "minLength" | "maxLength" | "minItems" | "maxItems" => match value {
            Value::Number(number) => matches!(number.value(), NumberValue::Unsigned(_)),
            _ => false,
        },
        _ => false,
    })
}

/// Whether this is a list of texts that `is_known` knows, none of them twice.
fn are_names(value: &Value<'_>, is_known: impl Fn(&str) -> bool) -> bool {
    let Value::Array(names) = value else { return false };
    let is_new = |(place, name): (usize, &Value<'_>)| {
        let before = names.get(..place).unwrap_or_default();
        name.as_str().is_some_and(&is_known) && !before.contains(name)
    };
    names.len() <= MOST_NAMES && names.iter().enumerate().all(is_new)
}

#[cfg(test)]
mod tests {
    use super::super::schema::to_library;
    use super::is_plain;
    use crate::json::parse;
    use proptest::prelude::*;

    #[test]
    fn what_tools_declare_is_plain() {
        let schema = br#"{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","required":["path"],
            "additionalProperties":false,"properties":{"path":{"type":"string","description":"Where.","minLength":1},
            "mode":{"enum":["a","b"],"default":"a"},"edits":{"type":"array","items":{"type":"object","properties":
            {"count":{"type":["integer","null"],"minimum":1}}}},"any":{"anyOf":[{"type":"null"},true]}}}"#;
        assert!(is_plain(&parse(schema).unwrap()));
        for other in
            ["{\"$ref\":\"#\"}", "{\"pattern\":\"(\"}", "{\"required\":[\"a\",\"a\"]}", "[]", "{\"type\":\"x\"}"]
        {
            assert!(!is_plain(&parse(other.as_bytes()).unwrap()), "{other}");
        }
    }

    const TEXTS: &str = r#""(a|\(|string|null|object|\$ref|http://json-schema.org/draft-0[4-7]/schema#|https://json-schema.org/draft/20(20-12|19-09)/schema|)""#;
    const SCALARS: &str = r"(null|true|false|0|1|-1|1\.0|1e300|18446744073709551616|\{\}|\[\])";

    /// Text of a value that may be a sound schema, or nearly one.
    fn schemas() -> impl Strategy<Value = String> {
        let list =
            |of: BoxedStrategy<String>| prop::collection::vec(of, 0..4).prop_map(|all| format!("[{}]", all.join(",")));
        let object = |of: BoxedStrategy<String>| {
            prop::collection::vec(of, 0..4).prop_map(|all| format!("{{{}}}", all.join(",")))
        };
        let member = |keys: Vec<&'static str>, value: BoxedStrategy<String>| {
            (prop::sample::select(keys), value).prop_map(|(key, value)| format!("\"{key}\":{value}")).boxed()
        };
        let scalars = prop_oneof![TEXTS, SCALARS].boxed();
        prop_oneof![2 => Just("{}".to_owned()), 1 => SCALARS].prop_recursive(4, 32, 4, move |inner| {
            let inner = inner.boxed();
            let properties = object(member(vec!["a", "b", "$ref", "$id"], inner.clone())).boxed();
            let texts = list(TEXTS.boxed()).boxed();
            object(
                prop_oneof![
                    member(
                        vec!["type", "description", "title", "$schema", "$ref", "$id", "pattern", "format"],
                        TEXTS.boxed()
                    ),
                    member(vec!["type", "required", "enum", "default"], texts),
                    member(
                        vec!["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default"],
                        scalars.clone()
                    ),
                    member(vec!["properties", "$defs"], properties),
                    member(vec!["items", "additionalProperties"], inner.clone()),
                    member(vec!["anyOf", "oneOf", "allOf"], list(inner).boxed()),
                ]
                .boxed(),
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_library_takes_whatever_is_plain(text in schemas()) {
            let Ok(value) = parse(text.as_bytes()) else { return Ok(()) };
            if is_plain(&value) {
                let found = jsonschema::validator_for(&to_library(&value));
                prop_assert!(found.is_ok(), "{text}: {:?}", found.err());
            }
        }
    }
}
