//! Model output → events: one parser for every way the tokens may arrive.

mod options;

pub use options::{InitialStage, ParsingOptions, QuotedCalls};
