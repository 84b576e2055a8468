//! Codec between chat protocols and DeepSeek V4 / V4.1 token ids.

pub mod codec;
pub mod constraint;
pub mod conversation;
pub mod conversation_json;
pub mod decoder;
pub mod encoded;
pub mod error;
pub mod event;
pub mod explain;
pub mod fork;
pub mod history;
pub mod json;
pub mod model;
pub mod output;
pub mod prompt;
pub mod protocol;
pub mod schema;
pub mod special;
pub mod tokenizer;
mod wire;
