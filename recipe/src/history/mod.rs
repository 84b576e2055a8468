//! Token-faithful history: what carries the ids of an answer to the next turn.
//!
//! The ids of a text are not unique, and a model does not always write those that the tokenizer makes of its text. A client
//! sends the text back, so the next prompt differs from what the model saw, and the prefix cache ends there. A record
//! travels with the answer and back: where the answer's ids differ from those of its text, and by which ids.
//!
//! Owns the form of a record (`seal`: its authentication and spelling; `stretch`: the differences), its making while an
//! answer is decoded (`recorder`), and its use when a prompt is tokenised (`replay`); `chain` tells both the same text. Knows no protocol. A record that is
//! forged, damaged, foreign or stale is ignored. One that is used changes neither the prompt's text nor any control token:
//! it can only cut the same bytes of one stretch of text in other places.

mod chain;
mod recorder;
mod replay;
mod seal;
mod stretch;
mod trimmed;

pub use recorder::Recorder;
pub(crate) use replay::Replay;
pub use seal::{HistoryKey, Seal, is_record};
