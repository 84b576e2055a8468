//! Anthropic Messages.

mod assistant;
pub mod blocks;
mod convert;
mod parts;
pub mod request;
mod tools;
mod transcript;

pub(crate) use convert::read;
