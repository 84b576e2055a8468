//! Which tokens stand where in the output, and what becomes of their log probabilities.
//!
//! Owns the tokens that are not decided yet: one small record each, dropped as soon as the parser is past them. Looking up
//! a range costs the logarithm of that number.

use std::collections::VecDeque;
use std::ops::Range;

use crate::event::TokenLogprob;

#[derive(Debug)]
struct Token {
    start: u64,
    end: u64,
    logprob: Option<TokenLogprob>,
}

/// The undecided tokens, in order.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    queue: VecDeque<Token>,
    forgotten: u64,
}

impl Tokens {
    /// Adds the token whose bytes stand at `range`; empty for a token that is never shown.
    pub(super) fn add(&mut self, range: Range<u64>, logprob: Option<TokenLogprob>) {
        self.queue.push_back(Token { start: range.start, end: range.end, logprob });
    }

    /// Number of tokens that start before `offset`.
    pub(super) fn count_before(&self, offset: u64) -> u64 {
        self.forgotten + self.queue.partition_point(|token| token.start < offset) as u64
    }

    /// The entries of the tokens that become visible with `range`; each is given once.
    pub(super) fn show(&mut self, range: &Range<u64>, entries: &mut Vec<TokenLogprob>) {
        let first = self.queue.partition_point(|token| token.end <= range.start);
        let here = self.queue.range_mut(first..).take_while(|token| token.start < range.end);
        entries.extend(here.filter_map(|token| token.logprob.take()));
    }

    /// Drops what lies wholly before `offset`.
    pub(super) fn forget(&mut self, offset: u64) {
        while self.queue.front().is_some_and(|token| token.end <= offset) {
            self.queue.pop_front();
            self.forgotten += 1;
        }
    }
}
