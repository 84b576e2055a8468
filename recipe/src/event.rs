//! What a model said, event by event: the one form between the output parser and every protocol's writer.
//!
//! Owns the event types. Block indexes, item ids and sequence numbers are each writer's own small state, because only that
//! protocol wants them.

/// One step of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// More reasoning.
    Reasoning(Delta),
    /// More answer text.
    Text(Delta),
    /// A tool call begins. Calls count from 0 and never overlap.
    CallStart {
        /// Number of the call.
        index: usize,
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments' JSON text. The fragments of a complete call join to valid JSON.
    CallArguments {
        /// Number of the call.
        index: usize,
        /// A fragment; escapes are never split.
        fragment: String,
    },
    /// A call's markup repeated a parameter; the repetition was left out of the arguments.
    CallParameterDropped {
        /// Number of the call.
        index: usize,
        /// Name of the parameter.
        name: String,
        /// The value that was left out, as the model wrote it.
        value: String,
    },
    /// A tool call ends.
    CallEnd {
        /// Number of the call.
        index: usize,
        /// Whether its arguments are whole. Those of a cut call are a prefix of valid JSON.
        complete: bool,
    },
    /// The answer ends. Always the last event.
    Finish(Finish),
}

/// Text that became visible, with the log probabilities of the tokens that became visible with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// The text; empty only where an entry becomes visible without text of its own.
    pub text: String,
    /// One entry per visible token, each token once.
    pub logprobs: Vec<TokenLogprob>,
}

/// Log probability of a token of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token's id.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// Alternatives, best first: id and logprob.
    pub top: Vec<(u32, f64)>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// The stop sequence that was met, if one was.
    pub stop_sequence: Option<String>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// The model was done, and called tools.
    ToolCalls,
    /// A token limit was met, or the output broke off inside a call.
    Length,
    /// The backend withheld the rest.
    ContentFilter,
}

/// What the backend said when its output ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendFinish {
    /// The model ended its turn.
    Stop,
    /// The token limit was met.
    Length,
    /// The backend withheld the rest.
    ContentFilter,
    /// The output ended without a word.
    Unknown,
}

/// Tokens counted while they passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCounts {
    /// Tokens of the answer, markup and reasoning included.
    pub output: u64,
    /// Of these, the ids between the thinking marks, marks and trimmed newlines included; `None` when any output came as
    /// text, where they cannot be told.
    pub reasoning: Option<u64>,
}
