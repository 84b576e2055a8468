//! Anthropic Messages.

mod error;
mod response;
mod stream;

pub(super) use error::write_error;
pub(super) use stream::MessagesWriter;
