//! Responses.

mod custom_input;
mod error;
mod item;
mod response;
mod stream;

pub(super) use error::write_error;
pub(super) use stream::ResponsesWriter;
