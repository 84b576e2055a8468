//! What the parser must know of the request to read the answer.

use std::collections::HashSet;

/// How an answer is to be read. Made by `encode`, or by hand for a bare decoder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsingOptions {
    /// Where in the grammar of an answer the output begins.
    pub initial_stage: InitialStage,
    /// Whether tool markup is read; off, it is text.
    pub parse_tool_calls: bool,
    /// Whether the prompt already opened a block of calls.
    pub starts_in_tool_calls: bool,
    /// Whether the answer is one JSON value and prose around it is dropped.
    pub parse_json_output: bool,
    /// Texts that end the answer; never shown.
    pub stop_sequences: Vec<String>,
    /// Names of the declared tools; `None` when they are not known, and then every name counts as declared.
    pub declared_tools: Option<Vec<String>>,
    /// How many alternatives each log probability entry carries; `None` for no entries at all.
    pub top_logprobs: Option<u8>,
    /// Whether a complete block of calls inside a closed code fence is shown as text (recovery rule 6).
    pub quoted_calls: QuotedCalls,
}

/// Where the output begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialStage {
    /// In the answer; the request did not ask for thinking.
    #[default]
    Content,
    /// In the reasoning, at its start.
    ReasoningStart,
    /// In the reasoning, whose first part stands in the prompt.
    ReasoningContinuation,
    /// In the answer, whose first part stands in the prompt.
    ContentContinuation,
}

/// What a block of calls inside a code fence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuotedCalls {
    /// A quotation, if the fence is closed after it.
    #[default]
    AreText,
    /// Calls, as anywhere else.
    AreCalls,
}

/// What the request says of calls.
#[derive(Debug)]
pub(super) struct Settings {
    /// Whether markup may be calls.
    pub(super) tools: bool,
    declared: Option<HashSet<String>>,
}

impl Settings {
    pub(super) fn new(options: &ParsingOptions) -> Self {
        let declared: Option<HashSet<_>> = options.declared_tools.as_ref().map(|names| names.iter().cloned().collect());
        let tools = options.parse_tool_calls && declared.as_ref().is_none_or(|declared| !declared.is_empty());
        Self { tools: tools || options.starts_in_tool_calls, declared }
    }

    /// Whether the tool may be called outside of a block.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.declared.as_ref().is_none_or(|declared| declared.contains(name))
    }
}
