//! Responses: the settings that the answer repeats, with the client's own digits.

use std::borrow::Cow;

use crate::json::{Object, Value};

/// The members of the response object that repeat `body`; what the request leaves out has its default value.
pub(super) fn echo(body: &Value<'_>) -> Value<'static> {
    let given = |key: &str| body.get(key).filter(|value| **value != Value::Null).cloned().map(Value::into_owned);
    let or_null = |key: &str| given(key).unwrap_or(Value::Null);
    let members: [(&'static str, Value<'static>); 12] = [
        ("instructions", or_null("instructions")),
        ("max_output_tokens", or_null("max_output_tokens")),
        ("parallel_tool_calls", given("parallel_tool_calls").unwrap_or(Value::Bool(true))),
        ("previous_response_id", or_null("previous_response_id")),
        ("reasoning", settings(body.get("reasoning"), ["effort", "summary"], Value::Null)),
        ("temperature", given("temperature").unwrap_or_else(|| 1.0.into())),
        ("text", settings(body.get("text"), ["format", "verbosity"], object([("type", "text".into())]))),
        ("tool_choice", given("tool_choice").unwrap_or_else(|| "auto".into())),
        ("tools", tools(body.get("tools"))),
        ("top_logprobs", given("top_logprobs").unwrap_or_else(|| 0.into())),
        ("top_p", given("top_p").unwrap_or_else(|| 1.0.into())),
        ("user", or_null("user")),
    ];
    object(members)
}

fn object<const N: usize>(members: [(&'static str, Value<'static>); N]) -> Value<'static> {
    Value::Object(members.into_iter().collect())
}

/// Two settings of an object; the first is `default` where it is left out, the second null.
fn settings(given: Option<&Value<'_>>, keys: [&'static str; 2], default: Value<'static>) -> Value<'static> {
    let member = |key| given.and_then(|given| given.get(key)).cloned().map(Value::into_owned);
    let [first, second] = keys;
    object([(first, member(first).unwrap_or(default)), (second, member(second).unwrap_or(Value::Null))])
}

fn tools(given: Option<&Value<'_>>) -> Value<'static> {
    let tools = given.and_then(Value::as_array).unwrap_or_default();
    Value::Array(tools.iter().map(tool).collect())
}

/// A tool as it was declared; functions show which of their members were left out.
fn tool(tool: &Value<'_>) -> Value<'static> {
    if tool.get("type").and_then(Value::as_str) != Some("function") {
        return tool.clone().into_owned();
    }
    let known = ["type", "name", "description", "parameters", "strict"];
    let member =
        |key: &'static str| (Cow::Borrowed(key), tool.get(key).cloned().map_or(Value::Null, Value::into_owned));
    let others = tool.as_object().into_iter().flat_map(Object::iter).filter(|(key, _)| !known.contains(key));
    let others = others.map(|(key, value)| (Cow::Owned(key.to_owned()), value.clone().into_owned()));
    Value::Object(known.map(member).into_iter().chain(others).collect())
}
