//! Chat Completions: what an answer is held to, by `response_format` or by `structured_outputs`.
//!
//! The first is shown in the prompt, the second is not.

use std::borrow::Cow;

use crate::conversation::{Conversation, ResponseFormat};
use crate::error::{Error, ErrorCode};
use crate::json::{Value, parse};
use crate::protocol::shared::schema;
use crate::wire::{Node, Path};

use super::request::{self as wire, ChatRequest, StructuredOutputs};

const STRUCTURED_OUTPUTS: &str = "structured_outputs";

/// The form of the answer that the prompt shows.
pub(super) fn response_format<'v>(
    request: &ChatRequest<'v>,
    body: Node<'_, 'v>,
    conversation: &Conversation<'v>,
) -> Result<ResponseFormat<'v>, Error> {
    match &request.response_format {
        None | Some(wire::ResponseFormat::Text(_)) => Ok(ResponseFormat::Text),
        Some(wire::ResponseFormat::Regex(format)) => Ok(ResponseFormat::Regex(format.regex.into())),
        Some(wire::ResponseFormat::JsonSchema(format)) => {
            let (path, value) = (Path::Key(body.path, "response_format"), format.json_schema.schema);
            let wrapper = Path::Key(&path, "json_schema");
            let node = Node { value, path: &Path::Key(&wrapper, "schema") };
            schema::check_format(node, format.json_schema.strict)?;
            Ok(ResponseFormat::JsonSchema(Cow::Borrowed(value)))
        }
        Some(wire::ResponseFormat::JsonObject(_)) => {
            if !conversation.says("json") {
                return Err(Error::new(ErrorCode::JsonWordMissing, "response_format", &[]));
            }
            Ok(ResponseFormat::JsonObject)
        }
    }
}

/// The form of the answer that the prompt does not show.
pub(super) fn unseen_format<'v>(request: &ChatRequest<'v>) -> Result<Option<ResponseFormat<'v>>, Error> {
    let Some(wanted) = &request.structured_outputs else { return Ok(None) };
    if request.response_format.is_some() {
        let expected = "response_format, structured_outputs";
        return Err(Error::new(ErrorCode::ExactlyOne, "", &[("expected", &expected)]));
    }
    let forms = [
        wanted.json.filter(|value| **value != Value::Null).map(json).transpose()?,
        wanted.regex.map(|pattern| ResponseFormat::Regex(pattern.into())),
        wanted.grammar.map(|grammar| ResponseFormat::Lark(grammar.into())),
        wanted.choice.as_ref().map(|texts| choice(texts)).transpose()?,
        (wanted.json_object == Some(true)).then_some(ResponseFormat::JsonObject),
    ];
    let mut forms = forms.into_iter().flatten();
    match (forms.next(), forms.next()) {
        (Some(form), None) => Ok(Some(form)),
        _ => {
            let expected = "json, regex, grammar, choice, json_object";
            Err(Error::new(ErrorCode::ExactlyOne, STRUCTURED_OUTPUTS, &[("expected", &expected)]))
        }
    }
}

fn json<'v>(value: &'v Value<'v>) -> Result<ResponseFormat<'v>, Error> {
    let path = Path::Key(&Path::Root, STRUCTURED_OUTPUTS);
    let node = Node { value, path: &Path::Key(&path, "json") };
    let Value::String(text) = value else {
        schema::check_format(node, None)?;
        return Ok(ResponseFormat::JsonSchema(Cow::Borrowed(value)));
    };
    let parsed = parse(text.as_bytes())
        .map_err(|error| node.fault(ErrorCode::InvalidSchema, &[("detail", &error.message())]))?;
    schema::check_format(Node { value: &parsed, ..node }, None)?;
    Ok(ResponseFormat::JsonSchema(Cow::Owned(parsed)))
}

fn choice<'v>(texts: &[&'v str]) -> Result<ResponseFormat<'v>, Error> {
    if texts.is_empty() {
        return Err(Error::new(ErrorCode::EmptyArray, "structured_outputs.choice", &[]));
    }
    Ok(ResponseFormat::Choice(texts.to_vec()))
}

/// Where the request gives the form of the answer.
pub(super) fn path(request: &ChatRequest<'_>) -> &'static str {
    match (&request.response_format, &request.structured_outputs) {
        (Some(wire::ResponseFormat::JsonSchema(_)), _) => "response_format.json_schema.schema",
        (Some(wire::ResponseFormat::Regex(_)), _) => "response_format.regex",
        (Some(_), _) => "response_format",
        (None, Some(StructuredOutputs { json: Some(_), .. })) => "structured_outputs.json",
        (None, Some(StructuredOutputs { regex: Some(_), .. })) => "structured_outputs.regex",
        (None, Some(StructuredOutputs { grammar: Some(_), .. })) => "structured_outputs.grammar",
        (None, _) => STRUCTURED_OUTPUTS,
    }
}

/// Whether the form of the answer is strict.
pub(super) fn is_strict(request: &ChatRequest<'_>) -> bool {
    match &request.response_format {
        Some(wire::ResponseFormat::JsonSchema(format)) => format.json_schema.strict == Some(true),
        _ => false,
    }
}
