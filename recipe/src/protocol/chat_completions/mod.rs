//! OpenAI Chat Completions.

mod choice;
mod content;
mod convert;
mod error;
mod messages;
mod request;
mod response;
mod stream;
mod structured;
mod tools;

pub(super) use convert::read;
pub(super) use error::write_error;
pub(super) use stream::ChatCompletionsWriter;

/// JSON Schema of a request body.
pub(super) fn request_schema() -> crate::json::Value<'static> {
    <request::ChatRequest<'_> as crate::wire::Wire<'_>>::schema()
}
