//! Spellings of control tokens that only come about in what is shown.
//!
//! In pushed text the spelling of a control token is removed, and its two sides meet: inside another spelling, or around a
//! call, they may form one. So what is shown is followed once more, and the character that would complete a spelling is
//! left out. That depends on no cut, holds nothing back and costs a step of an automaton for each byte.
//!
//! Owns where the reasoning and the answer stand in a spelling, and which bytes of the output came as text: in what came as
//! ids, a spelling is text.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::lexer::Mark;
use super::matcher::{Automaton, Node};
use super::run::{Run, text};

/// Follows what is shown of pushed text.
#[derive(Debug)]
pub(super) struct SpellingGuard {
    automaton: Automaton,
    marks: Vec<Mark>,
    /// Offsets of the bytes that came as text, while they are undecided.
    texts: VecDeque<Range<u64>>,
    /// Whether the latest output came as text, not as ids.
    pub(super) is_reading_text: bool,
    reasoning: Node,
    content: Node,
}

impl SpellingGuard {
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = (Mark, &'p str)>) -> Self {
        let (marks, spellings): (Vec<Mark>, Vec<&str>) = patterns.into_iter().unzip();
        Self {
            automaton: Automaton::new(spellings.into_iter().map(str::as_bytes)),
            marks,
            texts: VecDeque::new(),
            is_reading_text: false,
            reasoning: Node::ROOT,
            content: Node::ROOT,
        }
    }

    /// Notes that the bytes at these offsets came as text.
    pub(super) fn cover(&mut self, range: Range<u64>) {
        match self.texts.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.texts.push_back(range),
        }
    }

    /// Forgets what lies wholly before `offset`.
    pub(super) fn forget(&mut self, offset: u64) {
        while self.texts.front().is_some_and(|range| range.end <= offset) {
            self.texts.pop_front();
        }
    }

    /// What is shown of a stretch of reasoning.
    pub(super) fn reasoning(&mut self, run: &Run) -> String {
        let (mut node, mut shown) = (self.reasoning, Vec::with_capacity(run.len()));
        self.pass_run(run, |_| true, &mut node, &mut shown);
        self.reasoning = node;
        text(shown)
    }

    /// What is shown of a stretch of the answer, in which the end of thinking may be text.
    pub(super) fn content(&mut self, run: &Run, may_end_thinking: bool) -> String {
        let (mut node, mut shown) = (self.content, Vec::with_capacity(run.len()));
        let hides = |mark| mark == Mark::Hidden || mark == Mark::ThinkingEnd && !may_end_thinking;
        self.pass_run(run, hides, &mut node, &mut shown);
        self.content = node;
        text(shown)
    }

    /// What is kept of text that is no prose: names and values. `node` is where that text stands.
    pub(super) fn part<'b>(&self, bytes: &'b [u8], node: &mut Node) -> Cow<'b, [u8]> {
        if !self.is_reading_text {
            *node = Node::ROOT;
            return Cow::Borrowed(bytes);
        }
        let mut kept = Vec::with_capacity(bytes.len());
        self.pass(bytes, |mark| mark == Mark::Hidden, node, &mut kept);
        Cow::Owned(kept)
    }

    fn pass_run(&self, run: &Run, hides: impl Fn(Mark) -> bool, node: &mut Node, shown: &mut Vec<u8>) {
        for (mut rest, mut at) in run.segments() {
            while !rest.is_empty() {
                let next = self.texts.get(self.texts.partition_point(|range| range.end <= at));
                let is_text = next.is_some_and(|range| range.start <= at);
                let border = next.map_or(u64::MAX, |range| if is_text { range.end } else { range.start });
                let length = usize::try_from(border - at).unwrap_or(usize::MAX).min(rest.len());
                let (now, later) = rest.split_at(length);
                if is_text {
                    self.pass(now, &hides, node, shown);
                } else {
                    *node = Node::ROOT;
                    shown.extend_from_slice(now);
                }
                at += length as u64;
                rest = later;
            }
        }
    }

    fn pass(&self, bytes: &[u8], hides: impl Fn(Mark) -> bool, node: &mut Node, shown: &mut Vec<u8>) {
        let (mut start, mut before) = (shown.len(), *node);
        let mut rest = bytes;
        while let Some((&byte, later)) = rest.split_first() {
            if *node == Node::ROOT {
                let plain =
                    rest.iter().position(|&byte| self.automaton.starts()[usize::from(byte)]).unwrap_or(rest.len());
                if plain > 0 {
                    shown.extend_from_slice(&rest[..plain]);
                    rest = &rest[plain..];
                    continue;
                }
            }
            if byte & 0xC0 != 0x80 {
                (start, before) = (shown.len(), *node);
            }
            shown.push(byte);
            *node = self.automaton.step(*node, byte);
            if self.automaton.found(*node).is_some_and(|place| hides(self.marks[place])) {
                shown.truncate(start);
                *node = before;
            }
            rest = later;
        }
    }
}
