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
    ranges: VecDeque<Range<u64>>,
}

impl Run {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter()
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
            let Some(range) = self.ranges.front_mut() else { break };
            let here = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(left);
            let at = range.start;
            target.push(&self.buffer[self.taken..self.taken + here], at);
            self.taken += here;
            range.start += here as u64;
            if range.start == range.end {
                self.ranges.pop_front();
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
            let Some(range) = self.ranges.back_mut() else { break };
            let here = (range.end - range.start).min(surplus);
            range.end -= here;
            if range.start == range.end {
                self.ranges.pop_back();
            }
            surplus -= here;
        }
    }

    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.taken = 0;
        self.ranges.clear();
    }

    /// Stretches that stood together in the output, each with its offset.
    pub(super) fn segments(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let mut rest = self.bytes();
        self.ranges.iter().map(move |range| {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(rest.len());
            let (here, later) = rest.split_at(length);
            rest = later;
            (here, range.start)
        })
    }

    fn cover(&mut self, at: u64, length: usize) {
        let end = at + length as u64;
        match self.ranges.back_mut() {
            Some(range) if range.end == at => range.end = end,
            _ if length > 0 => self.ranges.push_back(at..end),
            _ => {}
        }
    }
}
