//! Codec between chat protocols and DeepSeek V4 / V4.1 token ids.

pub mod codec;
pub mod conversation;
pub mod error;
pub mod event;
pub mod json;
pub mod model;
pub mod output;
pub mod prompt;
pub mod protocol;
pub mod special;
pub mod tokenizer;
mod wire;
