//! Model output → events: one parser for every way the tokens may arrive.
//!
//! Owns [`OutputParser`]: bytes become characters, characters become text and marks (`lexer`), and these become
//! steps of the answer (`machine`), which leave as [`Event`](crate::event::Event)s at the end of each push. Knows no
//! protocol and no vocabulary.
//!
//! The result does not depend on how the output was cut. Of pushed text, no spelling of a control token is shown, whatever
//! stood inside it (`spelled`). Text leaves as soon as it is decided. Cost is constant and
//! amortised per byte and token; what is held is bounded: a few bytes of a mark or stop sequence, a counter of newlines,
//! a value that must be checked (1 MiB), and markup that may still be text (`region`; 128 KiB before a call, 1 MiB for a
//! call in reasoning or a block in a code fence). Prose in a call waits for the call's end, a call's body that is an object
//! for its own; both are held whole, because dropping either would lose what the client is to receive.

mod calls;
mod fence;
mod finish;
mod json_mode;
mod lexer;
mod machine;
mod markup;
mod matcher;
mod options;
mod parser;
mod piece;
mod prose;
mod region;
mod run;
mod sink;
mod spelled;
mod stop;
mod tag;
mod thinking;
mod tokens;
mod values;

pub use options::{InitialStage, ParsingOptions, QuotedCalls};
pub use parser::OutputParser;
pub use piece::{OutputPiece, OutputSpecial};
