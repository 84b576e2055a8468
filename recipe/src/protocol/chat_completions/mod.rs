//! `OpenAI` Chat Completions.

mod convert;
mod error;
mod request;
mod response;
mod stream;

pub(crate) use convert::read;
pub(super) use error::write_error;
pub(super) use stream::ChatCompletionsWriter;
