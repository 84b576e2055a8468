//! OpenAI Responses.

mod choice;
mod convert;
mod custom_input;
mod custom_tools;
mod echo;
mod error;
mod found_tools;
mod item;
mod items;
mod names;
mod parts;
mod request;
mod response;
mod stored;
mod stream;
mod toolbox;
mod tools;
mod transcript;

pub(super) use convert::read;
pub(super) use error::write_error;
pub(super) use stored::find_stored;
pub(crate) use stored::reference;
pub(super) use stream::ResponsesWriter;

/// JSON Schema of a request body.
pub(super) fn request_schema() -> crate::json::Value<'static> {
    <request::ResponsesRequest<'_> as crate::wire::Wire<'_>>::schema()
}
