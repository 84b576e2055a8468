//! Bytes and control tokens → text and marks.
//!
//! Owns the start of a mark that is not complete yet (a few bytes) and the rule which bytes may form one: the control part
//! of a mark is the real token, or text of a backend that gives no ids; ordinary tokens never spell it. Knows nothing of
//! what a mark means. Constant amortised cost per byte.

use super::matcher::{Automaton, Node};
use super::spelled::SpellingGuard;
use crate::special::{Special, Spellings};

/// What delimits the parts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// `<` and the DSML mark.
    Open,
    /// `</` and the DSML mark.
    Close,
    /// The end of thinking.
    ThinkingEnd,
    /// The start of thinking.
    ThinkingStart,
    /// A control token that is never shown.
    Hidden,
}

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// An ordinary token.
    Ordinary,
    /// Text of a backend that gives no ids.
    Text,
}

/// Marks that a newline broke off: such a newline does not count as standing before the mark.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Broken {
    pub(super) open: bool,
    pub(super) thinking_end: bool,
}

/// Padding has no place in prompts, so it is no [`Special`].
const PADDING: &str = "<｜▁pad▁｜>";
const HIDDEN: [Special; 6] =
    [Special::Bos, Special::Eos, Special::User, Special::Assistant, Special::System, Special::LatestReminder];

#[derive(Debug)]
struct Pattern {
    mark: Mark,
    spelling: String,
    /// Where the control part starts, to which the class rule applies.
    control: usize,
}

/// Finds the marks.
#[derive(Debug)]
pub(super) struct Lexer {
    automaton: Automaton,
    patterns: Vec<Pattern>,
    dsml: String,
    node: Node,
    pending: Vec<u8>,
    /// Bytes of text since the last ordinary byte.
    clear: usize,
}

impl Lexer {
    pub(super) fn new(spellings: &Spellings) -> Self {
        let dsml = spellings.of(Special::Dsml).to_owned();
        let mut patterns = vec![
            Pattern { mark: Mark::Open, spelling: format!("<{dsml}"), control: 1 },
            Pattern { mark: Mark::Close, spelling: format!("</{dsml}"), control: 2 },
        ];
        let mut whole = |mark, spelling: &str| {
            if !spelling.is_empty() {
                patterns.push(Pattern { mark, spelling: spelling.to_owned(), control: 0 });
            }
        };
        whole(Mark::ThinkingEnd, spellings.of(Special::ThinkingEnd));
        whole(Mark::ThinkingStart, spellings.of(Special::ThinkingStart));
        for special in HIDDEN {
            whole(Mark::Hidden, spellings.of(special));
        }
        whole(Mark::Hidden, PADDING);
        let automaton = Automaton::new(patterns.iter().map(|pattern| pattern.spelling.as_bytes()));
        Self { automaton, patterns, dsml, node: Node::ROOT, pending: Vec::new(), clear: 0 }
    }

    /// A guard against the spellings that are removed, which finds them in what is shown.
    pub(super) fn guard(&self) -> SpellingGuard {
        let removed = |mark| matches!(mark, Mark::Hidden | Mark::ThinkingEnd | Mark::ThinkingStart);
        let patterns = self.patterns.iter().filter(|pattern| removed(pattern.mark));
        SpellingGuard::new(patterns.map(|pattern| (pattern.mark, pattern.spelling.as_str())))
    }

    /// Whether no mark has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that may begin a mark.
    pub(super) fn starts(&self) -> &[bool; 256] {
        self.automaton.starts()
    }

    /// The bytes of the mark that has begun.
    pub(super) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Notes that bytes of `class` passed without being looked at, because none of them begins a mark.
    pub(super) fn skip(&mut self, count: usize, class: Class) {
        self.clear = if class == Class::Text { self.clear + count } else { 0 };
    }

    /// The marks that a newline coming next would break off.
    pub(super) fn broken(&self) -> Broken {
        let began = |pattern: &Pattern| {
            let spelling = pattern.spelling.as_bytes();
            let longest = spelling.len().min(self.clear + pattern.control + 1);
            (1..longest).any(|length| self.pending.ends_with(&spelling[..length]))
        };
        let pending = |mark| self.patterns.iter().any(|pattern| pattern.mark == mark && began(pattern));
        Broken { open: pending(Mark::Open), thinking_end: pending(Mark::ThinkingEnd) }
    }

    /// Takes one byte. What is no part of a mark is appended to `text`; a mark that is complete is returned with its length.
    pub(super) fn step(&mut self, byte: u8, class: Class, text: &mut Vec<u8>) -> Option<(Mark, usize)> {
        self.skip(1, class);
        self.pending.push(byte);
        let mut node = self.automaton.step(self.node, byte);
        while !self.is_allowed(node) {
            node = self.automaton.fallback(node);
        }
        let found = self.automaton.found(node).map(|index| &self.patterns[index]);
        if let Some(pattern) = found
            && pattern.spelling.len() - pattern.control <= self.clear
        {
            let mark = (pattern.mark, pattern.spelling.len());
            text.extend(self.pending.drain(..self.pending.len() - mark.1));
            self.pending.clear();
            self.node = Node::ROOT;
            return Some(mark);
        }
        self.node = node;
        text.extend(self.pending.drain(..self.pending.len() - self.automaton.depth(node)));
        None
    }

    /// Takes the DSML control token. `text` as in [`Lexer::step`]; without `<` or `</` before it the token is no mark.
    pub(super) fn dsml(&mut self, text: &mut Vec<u8>) -> Option<(Mark, usize)> {
        let before = if self.pending.ends_with(b"</") {
            Some((Mark::Close, 2))
        } else if self.pending.ends_with(b"<") {
            Some((Mark::Open, 1))
        } else {
            None
        };
        let kept = before.map_or(0, |(_, length)| length);
        text.extend(self.pending.drain(..self.pending.len() - kept));
        self.reset();
        before.map(|(mark, length)| (mark, length + self.dsml.len()))
    }

    /// Spelling of a mark of `length` bytes.
    pub(super) fn spelling(&self, mark: Mark, length: usize) -> &str {
        let fits = |pattern: &&Pattern| pattern.mark == mark && pattern.spelling.len() == length;
        self.patterns.iter().find(fits).map_or("", |pattern| &pattern.spelling)
    }

    /// Gives up the mark that has begun; its bytes are text.
    pub(super) fn release(&mut self, text: &mut Vec<u8>) {
        text.append(&mut self.pending);
        self.reset();
    }

    fn reset(&mut self) {
        self.pending.clear();
        self.node = Node::ROOT;
        self.clear = 0;
    }

    /// Whether the bytes at `node` may begin some mark, given where they come from.
    fn is_allowed(&self, node: Node) -> bool {
        let depth = self.automaton.depth(node);
        if depth <= self.clear {
            return true;
        }
        let start = &self.pending[self.pending.len() - depth..];
        let begins = |pattern: &&Pattern| pattern.spelling.as_bytes().starts_with(start);
        self.patterns.iter().filter(begins).any(|pattern| depth.saturating_sub(pattern.control) <= self.clear)
    }
}
