//! Many patterns found in one pass over bytes (Aho–Corasick).
//!
//! Owns the automaton only; its users keep their place in it as a [`Node`]. A step is amortised constant. Of patterns that
//! end at the same byte the first in the list counts.

use std::collections::VecDeque;

/// A place in the automaton: how much of some pattern the bytes so far end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Node(u32);

impl Node {
    /// Nothing matched.
    pub(super) const ROOT: Node = Node(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
struct State {
    children: Vec<(u8, Node)>,
    fallback: u32,
    depth: usize,
    found: Option<usize>,
}

/// The automaton.
#[derive(Debug)]
pub(super) struct Automaton {
    states: Vec<State>,
    starts: [bool; 256],
}

impl Automaton {
    /// An automaton of non-empty patterns.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut automaton = Self { states: vec![State::default()], starts: [false; 256] };
        for (index, pattern) in patterns.into_iter().enumerate() {
            automaton.insert(pattern, index);
        }
        automaton.link();
        automaton
    }

    /// The place after `byte`.
    pub(super) fn step(&self, mut node: Node, byte: u8) -> Node {
        loop {
            if let Some(child) = self.child(node, byte) {
                return child;
            }
            if node == Node::ROOT {
                return node;
            }
            node = self.fallback(node);
        }
    }

    /// The place of the next shorter match that the bytes so far end with.
    pub(super) fn fallback(&self, node: Node) -> Node {
        Node(self.states[node.index()].fallback)
    }

    /// Number of bytes matched.
    pub(super) fn depth(&self, node: Node) -> usize {
        self.states[node.index()].depth
    }

    /// The pattern that ends here.
    pub(super) fn found(&self, node: Node) -> Option<usize> {
        self.states[node.index()].found
    }

    /// Whether a pattern starts with the byte.
    pub(super) fn starts(&self) -> &[bool; 256] {
        &self.starts
    }

    fn child(&self, node: Node, byte: u8) -> Option<Node> {
        let children = &self.states[node.index()].children;
        children.iter().find(|(label, _)| *label == byte).map(|(_, child)| *child)
    }

    fn insert(&mut self, pattern: &[u8], index: usize) {
        let mut node = Node::ROOT;
        for (place, &byte) in pattern.iter().enumerate() {
            node = self.child(node, byte).unwrap_or_else(|| {
                let child = Node(u32::try_from(self.states.len()).unwrap_or(u32::MAX));
                self.states.push(State { depth: place + 1, ..State::default() });
                self.states[node.index()].children.push((byte, child));
                child
            });
        }
        if let Some(&first) = pattern.first() {
            self.starts[usize::from(first)] = true;
            self.states[node.index()].found.get_or_insert(index);
        }
    }

    /// Sets the fallbacks, nearer places first, and what is found through them.
    fn link(&mut self) {
        let mut queue = VecDeque::from([Node::ROOT]);
        while let Some(node) = queue.pop_front() {
            for place in 0..self.states[node.index()].children.len() {
                let (byte, child) = self.states[node.index()].children[place];
                let fallback = if node == Node::ROOT { node } else { self.step(self.fallback(node), byte) };
                let shorter = self.found(fallback);
                let state = &mut self.states[child.index()];
                state.fallback = fallback.0;
                state.found = match (state.found, shorter) {
                    (Some(own), Some(other)) => Some(own.min(other)),
                    (own, other) => own.or(other),
                };
                queue.push_back(child);
            }
        }
    }
}
