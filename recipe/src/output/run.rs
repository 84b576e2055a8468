//! Bytes of an answer that remember where in the output they stood.
//!
//! Owns the bookkeeping that lets a log probability find the delta its token became visible with. Knows nothing of
//! markup. Appending costs what is appended; taking from the front is amortised constant per byte.

use std::collections::VecDeque;
use std::ops::Range;

/// A piece of text whose bytes carry their offsets in the output.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were taken from the front already.
    taken: usize,
    /// Where the first bytes stood, which are all of them nearly always.
    first: Option<Range<u64>>,
    /// Where the others stood; only after a first.
    others: VecDeque<Range<u64>>,
}

impl Run {
    /// An empty run that writes into the memory of a text.
    pub(super) fn with_memory(mut text: String) -> Self {
        text.clear();
        Self { buffer: text.into_bytes(), ..Self::default() }
    }

    /// The run as text, in the same memory; what is no text becomes U+FFFD.
    pub(super) fn into_text(mut self) -> String {
        self.buffer.drain(..self.taken);
        text(self.buffer)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.first.iter().chain(&self.others)
    }

    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes`, the first of which stood at `at`.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        self.buffer.extend_from_slice(bytes);
        self.cover(at, bytes.len());
    }

    /// Appends `count` newlines, the first of which stood at `at`.
    pub(super) fn push_newlines(&mut self, count: usize, at: u64) {
        self.buffer.resize(self.buffer.len() + count, b'\n');
        self.cover(at, count);
    }

    pub(super) fn append(&mut self, other: Run) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (bytes, at) in other.segments() {
            self.push(bytes, at);
        }
    }

    /// Moves the first `count` bytes to the end of `target`.
    pub(super) fn move_front(&mut self, count: usize, target: &mut Run) {
        let mut left = count;
        while left > 0 {
            let Some(range) = &mut self.first else { break };
            let here = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(left);
            let at = range.start;
            target.push(&self.buffer[self.taken..self.taken + here], at);
            self.taken += here;
            range.start += here as u64;
            if range.start == range.end {
                self.first = self.others.pop_front();
            }
            left -= here;
        }
        if self.taken * 2 > self.buffer.len() {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Keeps the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        let mut surplus = self.len().saturating_sub(len) as u64;
        self.buffer.truncate(self.taken + len);
        while surplus > 0 {
            let Some(range) = self.others.back_mut().or(self.first.as_mut()) else { break };
            let here = (range.end - range.start).min(surplus);
            range.end -= here;
            if range.start == range.end && self.others.pop_back().is_none() {
                self.first = None;
            }
            surplus -= here;
        }
    }

    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.taken = 0;
        self.first = None;
        self.others.clear();
    }

    /// Stretches that stood together in the output, each with its offset.
    pub(super) fn segments(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let mut rest = self.bytes();
        self.ranges().map(move |range| {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(rest.len());
            let (here, later) = rest.split_at(length);
            rest = later;
            (here, range.start)
        })
    }

    fn cover(&mut self, at: u64, length: usize) {
        let end = at + length as u64;
        match self.others.back_mut().or(self.first.as_mut()) {
            Some(range) if range.end == at => range.end = end,
            _ if length == 0 => {}
            Some(_) => self.others.push_back(at..end),
            None => self.first = Some(at..end),
        }
    }
}

/// Bytes as text, in the same memory; what is no text becomes U+FFFD.
pub(super) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
