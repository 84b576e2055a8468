//! `OpenAI` Chat Completions.

mod convert;
pub mod request;

pub(crate) use convert::read;
