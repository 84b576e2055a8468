//! Anthropic Messages.

mod assistant;
mod blocks;
mod convert;
mod error;
mod parts;
mod request;
mod response;
mod stream;
mod tools;
mod transcript;

pub(super) use convert::read;
pub(super) use error::write_error;
pub(super) use stream::MessagesWriter;

/// JSON Schema of a request body.
pub(super) fn request_schema() -> crate::json::Value<'static> {
    <request::MessagesRequest<'_> as crate::wire::Wire<'_>>::schema()
}
