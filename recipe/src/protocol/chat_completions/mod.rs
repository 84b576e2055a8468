//! `OpenAI` Chat Completions.

mod convert;
mod request;

pub(crate) use convert::read;
