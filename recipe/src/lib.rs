//! Codec between chat protocols and DeepSeek V4 / V4.1 token ids.

pub mod conversation;
pub mod error;
pub mod event;
pub mod json;
pub mod output;
pub mod protocol;
pub mod special;
