//! Stop sequences in the answer's text.
//!
//! Owns the text that may turn out to begin a stop sequence: shorter than the longest of them. Text that is not decided yet
//! can be looked over without being taken, because a stop sequence outranks markup. Constant amortised cost per byte.

use super::matcher::{Automaton, Node};
use super::run::Run;

/// A filter that text passes on its way out.
#[derive(Debug)]
pub(super) struct StopGate {
    sequences: Vec<String>,
    automaton: Automaton,
    node: Node,
    held: Run,
    /// The place after the undecided text, while it is known.
    ahead: Option<Node>,
}

impl StopGate {
    pub(super) fn new(sequences: Vec<String>) -> Self {
        let sequences: Vec<_> = sequences.into_iter().filter(|sequence| !sequence.is_empty()).collect();
        let automaton = Automaton::new(sequences.iter().map(String::as_bytes));
        Self { sequences, automaton, node: Node::ROOT, held: Run::default(), ahead: None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Bytes that may begin a sequence.
    pub(super) fn starts(&self) -> &[bool; 256] {
        self.automaton.starts()
    }

    /// Whether neither taken nor undecided text has begun a sequence.
    pub(super) fn is_idle(&self) -> bool {
        self.node == Node::ROOT && self.ahead.is_none_or(|node| node == Node::ROOT)
    }

    /// Takes text and appends to `out` what is decided. The sequence is returned as soon as one is complete.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64, out: &mut Run) -> Option<&str> {
        if self.is_open() {
            out.push(bytes, at);
            return None;
        }
        let mut place = 0;
        while place < bytes.len() {
            if self.node == Node::ROOT {
                let rest = &bytes[place..];
                let plain = rest.iter().position(|&byte| self.starts()[usize::from(byte)]).unwrap_or(rest.len());
                out.push(&rest[..plain], at + place as u64);
                place += plain;
                if place == bytes.len() {
                    break;
                }
            }
            self.node = self.automaton.step(self.node, bytes[place]);
            self.held.push(&bytes[place..=place], at + place as u64);
            place += 1;
            if let Some(found) = self.automaton.found(self.node) {
                let sequence = &self.sequences[found];
                self.held.truncate(self.held.len() - sequence.len());
                out.append(std::mem::take(&mut self.held));
                return Some(sequence);
            }
            self.held.move_front(self.held.len() - self.automaton.depth(self.node), out);
        }
        None
    }

    /// Releases what is held and starts anew: markup stands between the text before and after.
    pub(super) fn restart(&mut self) -> Run {
        self.node = Node::ROOT;
        self.ahead = None;
        std::mem::take(&mut self.held)
    }

    /// What may turn out to begin a sequence.
    pub(super) fn held(&self) -> &Run {
        &self.held
    }

    /// Whether `byte` completes a sequence, if the undecided text is text: `blank`, then newlines, then `pending`.
    pub(super) fn completes(&mut self, byte: u8, undecided: (&[u8], usize, &[u8])) -> bool {
        let ahead = match self.ahead {
            Some(node) => Some(node),
            None => self.look_over(undecided),
        };
        self.ahead = ahead.and_then(|node| self.advance(node, byte));
        self.ahead.is_none()
    }

    /// Whether the undecided text holds a complete sequence.
    pub(super) fn is_complete(&mut self, undecided: (&[u8], usize, &[u8])) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.look_over(undecided);
        }
        self.ahead.is_none()
    }

    /// Forgets the place after the undecided text, because that text was decided.
    pub(super) fn look_away(&mut self) {
        self.ahead = None;
    }

    fn look_over(&self, (blank, newlines, pending): (&[u8], usize, &[u8])) -> Option<Node> {
        // After as many newlines as the longest sequence has bytes, further ones change nothing.
        let longest = self.sequences.iter().map(String::len).max().unwrap_or(0);
        let newlines = std::iter::repeat_n(&b'\n', newlines.min(longest));
        let mut bytes = blank.iter().chain(newlines).chain(pending);
        bytes.try_fold(self.node, |node, &byte| self.advance(node, byte))
    }

    fn advance(&self, node: Node, byte: u8) -> Option<Node> {
        let next = self.automaton.step(node, byte);
        self.automaton.found(next).is_none().then_some(next)
    }
}
