//! OpenAI Responses.

mod convert;
mod custom_input;
mod echo;
mod error;
mod found_tools;
mod item;
mod items;
mod names;
mod parts;
mod request;
mod response;
mod stream;
mod toolbox;
mod tools;
mod transcript;

pub(super) use convert::read;
pub(super) use error::write_error;
pub(super) use stream::ResponsesWriter;

/// JSON Schema of a request body.
pub(super) fn request_schema() -> crate::json::Value<'static> {
    <request::ResponsesRequest<'_> as crate::wire::Wire<'_>>::schema()
}
