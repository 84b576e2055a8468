//! Byte trie of token spellings as a double array: one load for each byte of a match.
//!
//! Owns: the layout of the slots and how nodes are placed. Must not know: merges, where words come from.
//! Cost: eight bytes a node, and about an eighth of empty slots. Building looks at every byte of every entry once.

#![allow(clippy::cast_possible_truncation, reason = "slots are taken apart in halves")]

use std::ops::Range;

use super::tables::{ImageReader, ImageWriter, Table};

/// Bits of a slot: the byte that leads to the node, whether there is one, the token that ends there, and the place
/// from which the slots of its children are counted.
const USED: u64 = 1 << 8;
const TOKEN_SHIFT: u32 = 9;
const TOKEN_BITS: u32 = 21;
const NO_TOKEN: u32 = (1 << TOKEN_BITS) - 1;
const BASE_SHIFT: u32 = 32;
/// Children of one node lie in one block: the slot of a child is the base of its parent, exclusive or the byte.
const BLOCK: usize = 256;
/// Nothing is placed in block 0, so that nodes without children can point there.
const LEAF_BASE: usize = 0;
const ROOT_BASE: usize = BLOCK;
/// Blocks with free slots that are tried for a node; older ones are given up.
const OPEN_BLOCKS: usize = 16;

/// Finds the longest entry that a text begins with. Empty by default.
#[derive(Default)]
pub(super) struct Trie {
    slots: Table<u64>,
}

impl Trie {
    /// Trie of entries: spellings, none of them empty, in order of their bytes, and ids below 2^21 - 1.
    pub(super) fn new(entries: &[(&[u8], u32)]) -> Self {
        let mut builder = Builder { slots: vec![0; 2 * BLOCK], used_bases: vec![true; 2 * BLOCK], open: Vec::new() };
        let mut waiting = std::collections::VecDeque::from([(0..entries.len(), 0, None)]);
        // Breadth first near the root, where all words pass; then depth first, so that a word's own nodes are neighbours.
        while let Some((range, depth, slot)) = waiting.pop_front() {
            let children = children(entries, range, depth);
            let labels: Vec<u8> = children.iter().map(|child| child.0).collect();
            let base = if slot.is_none() { ROOT_BASE } else { builder.place(&labels) };
            if let Some(slot) = slot.and_then(|slot: usize| builder.slots.get_mut(slot)) {
                *slot |= (base as u64) << BASE_SHIFT;
            }
            for (label, range) in children {
                let place = base ^ usize::from(label);
                let token = entries.get(range.start).filter(|entry| entry.0.len() == depth + 1);
                let beyond = range.start + usize::from(token.is_some())..range.end;
                let token = token.map_or(NO_TOKEN, |entry| entry.1);
                if let Some(slot) = builder.slots.get_mut(place) {
                    *slot = u64::from(label) | USED | u64::from(token) << TOKEN_SHIFT;
                }
                if !beyond.is_empty() {
                    let node = (beyond, depth + 1, Some(place));
                    if depth < 2 { waiting.push_back(node) } else { waiting.push_front(node) }
                }
            }
        }
        Self { slots: builder.slots.into() }
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        image.write(&self.slots);
    }

    /// A trie that was written, `None` where there is nothing in it.
    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        Some(Self { slots: image.read()? }).filter(|trie| !trie.slots.is_empty())
    }

    /// The longest entry that `text` begins with, and how many bytes lead on, which may be more.
    #[inline]
    pub(super) fn longest(&self, text: &[u8]) -> (Option<u32>, usize) {
        let (mut node, mut found, mut length) = (Node::ROOT, NO_TOKEN, 0);
        for &byte in text {
            let step = self.step(node, byte);
            if !step.hit {
                break;
            }
            node = step.node;
            length += 1;
            found = if step.ends { step.token } else { found };
        }
        ((found != NO_TOKEN).then_some(found), length)
    }

    /// What a byte leads to from a node.
    #[inline]
    fn step(&self, node: Node, byte: u8) -> Step {
        let slot = self.slots.get(node.0 as usize ^ usize::from(byte)).copied().unwrap_or(0);
        let hit = slot & 0x1FF == u64::from(byte) | USED;
        let token = (slot >> TOKEN_SHIFT) as u32 & NO_TOKEN;
        let node = if hit { Node((slot >> BASE_SHIFT) as u32) } else { Node::LEAF };
        Step { hit, node, token, ends: hit && token != NO_TOKEN }
    }
}

/// What a byte leads to.
struct Step {
    /// Whether it leads anywhere.
    hit: bool,
    node: Node,
    /// The entry that ends there, if one does.
    token: u32,
    ends: bool,
}

/// A place in a trie: the slot from which those of its children are counted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Node(u32);

impl Node {
    const ROOT: Self = Self(ROOT_BASE as u32);
    /// Any without children.
    const LEAF: Self = Self(LEAF_BASE as u32);
}

/// The entries of `range`, which are longer than `depth` and share that many bytes, grouped by their next byte.
fn children(entries: &[(&[u8], u32)], range: Range<usize>, depth: usize) -> Vec<(u8, Range<usize>)> {
    let mut children: Vec<(u8, Range<usize>)> = Vec::new();
    for at in range {
        let Some(&label) = entries.get(at).and_then(|entry| entry.0.get(depth)) else { continue };
        match children.last_mut() {
            Some(last) if last.0 == label => last.1.end = at + 1,
            _ => children.push((label, at..at + 1)),
        }
    }
    children
}

struct Builder {
    slots: Vec<u64>,
    /// A base belongs to one node, so that the byte of a slot says whose child it is.
    used_bases: Vec<bool>,
    /// First slot and number of free slots of blocks that are not full.
    open: Vec<(usize, usize)>,
}

impl Builder {
    /// A base that no node has and whose slots for `labels` are free.
    fn place(&mut self, labels: &[u8]) -> usize {
        let Some(&first) = labels.first() else { return LEAF_BASE };
        let found = self.open.iter().enumerate().find_map(|(at, &(block, _))| {
            let free = |base: usize, label: u8| self.slots.get(base ^ usize::from(label)) == Some(&0);
            let mut bases = (block..block + BLOCK).map(|slot| slot ^ usize::from(first));
            let base = bases.find(|&base| {
                self.used_bases.get(base) == Some(&false) && labels.iter().all(|&label| free(base, label))
            });
            base.map(|base| (at, base))
        });
        let (at, base) = found.unwrap_or_else(|| {
            let block = self.slots.len();
            self.slots.resize(block + BLOCK, 0);
            self.used_bases.resize(block + BLOCK, false);
            if self.open.len() == OPEN_BLOCKS {
                self.open.remove(0);
            }
            self.open.push((block, BLOCK));
            (self.open.len() - 1, block)
        });
        if let Some(used) = self.used_bases.get_mut(base) {
            *used = true;
        }
        for &label in labels {
            if let Some(slot) = self.slots.get_mut(base ^ usize::from(label)) {
                *slot = USED;
            }
        }
        if let Some((_, free)) = self.open.get_mut(at) {
            *free -= labels.len();
            if *free == 0 {
                self.open.remove(at);
            }
        }
        base
    }
}
