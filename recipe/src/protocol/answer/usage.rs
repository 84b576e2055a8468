//! What an answer cost, as counted; how it is printed is each protocol's business.

/// Tokens of a prompt and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt, those found in the cache included.
    pub prompt: u64,
    /// Of these, the ones found in the cache.
    pub cached: u64,
    /// Tokens of all choices.
    pub output: u64,
    /// Of these, the ones spent on reasoning; `None` when that was not counted.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Tokens of the prompt that were not found in the cache.
    pub(in crate::protocol) fn missed(self) -> u64 {
        self.prompt.saturating_sub(self.cached)
    }

    /// Tokens in all.
    pub(in crate::protocol) fn total(self) -> u64 {
        self.prompt.saturating_add(self.output)
    }
}
