//! `OpenAI` Responses.

mod convert;
mod echo;
pub mod items;
mod names;
mod parts;
pub mod request;
mod toolbox;
pub mod tools;
mod transcript;

pub(crate) use convert::read;
