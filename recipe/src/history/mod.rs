//! Token-faithful history: what carries the ids of an answer to the next turn.
//!
//! The ids of a text are not unique, and a model does not always write those that the tokenizer makes of its text, nor always
//! the text that the next prompt prints for its message. A client sends the message back, so the next prompt differs from
//! what the model saw, and the prefix cache ends there. A record travels with the answer and back: where the answer's ids
//! differ from those that the next prompt would have, and by which ids.
//!
//! Owns the form of a record (`seal`: its authentication and spelling; `edits`: the differences), its making while an
//! answer is decoded (`recorder`), and its use when a prompt is tokenised (`replay`); `part` tells both what ids say. Knows
//! no protocol. A record that is forged, damaged, foreign or stale is ignored. One that is used changes neither the message
//! nor any control token: the output parser reads from the restored ids what the prompt says.

mod edits;
mod part;
mod recorder;
mod replay;
mod seal;

pub(crate) use edits::{Step, steps};
pub use recorder::Recorder;
pub(crate) use replay::Replay;
pub use seal::{HistoryKey, Seal, is_record};
