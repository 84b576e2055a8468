//! Which tokens stand where in the output, and what becomes of their log probabilities.
//!
//! Owns what is not decided yet: where the tokens of reasoning start, until its end is known and they are counted, and the
//! log probabilities that were asked for. Looking up a range costs the logarithm of that number.

use std::collections::VecDeque;
use std::ops::Range;

use crate::event::TokenLogprob;

/// The undecided tokens, in order.
#[derive(Debug)]
pub(super) struct Tokens {
    starts: VecDeque<u64>,
    forgotten: u64,
    is_counting: bool,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    end: u64,
    /// `None` once it was given.
    logprob: Option<TokenLogprob>,
}

impl Tokens {
    /// No tokens. Without counting, only log probabilities are kept.
    pub(super) fn new(is_counting: bool) -> Self {
        Self { starts: VecDeque::new(), forgotten: 0, is_counting, entries: VecDeque::new() }
    }

    /// Adds the token whose bytes stand at `range`; empty for a token that is never shown.
    pub(super) fn add(&mut self, range: Range<u64>, logprob: Option<TokenLogprob>) {
        if self.is_counting {
            self.starts.push_back(range.start);
        }
        if logprob.is_some() {
            self.entries.push_back(Entry { start: range.start, end: range.end, logprob });
        }
    }

    /// Number of tokens that start before `offset`, which ends the counting.
    pub(super) fn count_before(&mut self, offset: u64) -> u64 {
        self.is_counting = false;
        let starts = std::mem::take(&mut self.starts);
        self.forgotten + starts.partition_point(|start| *start < offset) as u64
    }

    /// The entries of the tokens that become visible with `range`; each is given once.
    pub(super) fn show(&mut self, range: &Range<u64>, entries: &mut Vec<TokenLogprob>) {
        let first = self.entries.partition_point(|entry| entry.end <= range.start);
        let here = self.entries.range_mut(first..).take_while(|entry| entry.start < range.end);
        entries.extend(here.filter_map(|entry| entry.logprob.take()));
    }

    /// Drops what lies wholly before `offset`.
    pub(super) fn forget(&mut self, offset: u64) {
        while self.starts.front().is_some_and(|start| *start < offset) {
            self.starts.pop_front();
            self.forgotten += 1;
        }
        while self.entries.front().is_some_and(|entry| entry.end <= offset) {
            self.entries.pop_front();
        }
    }
}
