//! Added tokens: spellings that stand for one id and are recognised in text only on request.
//!
//! Owns: id and spelling of every added token, and how they are found in text: leftmost first, longest among those
//! that start together, first the tokens that the file calls not normalised, then the others in what is left.
//! Must not know: byte pair encoding, which tokens a prompt may contain.
//! Cost: a scan for first bytes, then one trie step for each byte of a candidate.

use super::load::LoadError;
use super::tables::{ImageReader, ImageWriter};

/// One added token as the file lists it.
#[derive(Clone)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) spelling: Box<str>,
    /// Found in a second pass over the text between the others.
    pub(super) normalized: bool,
}

/// All added tokens of a tokenizer.
pub(super) struct AddedTokens {
    /// In order of id.
    tokens: Vec<AddedToken>,
    first: Trie,
    second: Trie,
}

/// What a search cuts a text into.
pub(super) enum Part<'text> {
    Plain(&'text str),
    Token(u32),
}

impl AddedTokens {
    /// Index of the tokens; ids and spellings must be unique and no spelling empty.
    pub(super) fn new(mut tokens: Vec<AddedToken>) -> Result<Self, LoadError> {
        tokens.sort_by_key(|token| token.id);
        let (mut first, mut second) = (Trie::new(), Trie::new());
        let mut before = None;
        for token in &tokens {
            let AddedToken { id, spelling, normalized } = token;
            if before.replace(*id) == Some(*id) {
                return Err(LoadError::new(format!("two added tokens have id {id}")));
            }
            if spelling.is_empty() {
                return Err(LoadError::new(format!("added token {id} has an empty spelling")));
            }
            if let Some(other) = first.find(spelling).or_else(|| second.find(spelling)) {
                return Err(LoadError::new(format!("added tokens {other} and {id} are both spelled {spelling:?}")));
            }
            (if *normalized { &mut second } else { &mut first }).insert(spelling, *id);
        }
        Ok(Self { tokens, first, second })
    }

    pub(super) fn write(&self, image: &mut ImageWriter) {
        let (mut ids, mut ends, mut spellings) = (Vec::new(), Vec::new(), String::new());
        for token in &self.tokens {
            spellings.push_str(&token.spelling);
            ids.push([token.id, u32::from(token.normalized)]);
            ends.push(spellings.len() as u64);
        }
        image.write(&ids);
        image.write(&ends);
        image.write(spellings.as_bytes());
    }

    pub(super) fn read(image: &mut ImageReader) -> Option<Self> {
        let (ids, ends, spellings) = (image.read::<[u32; 2]>()?, image.read::<u64>()?, image.read::<u8>()?);
        let spellings = std::str::from_utf8(&spellings).ok()?;
        let mut tokens = Vec::with_capacity(ids.len());
        let mut start = 0;
        for (&[id, normalized], &end) in ids.iter().zip(&*ends) {
            let end = usize::try_from(end).ok()?;
            tokens.push(AddedToken { id, spelling: spellings.get(start..end)?.into(), normalized: normalized != 0 });
            start = end;
        }
        Self::new(tokens).ok()
    }

    /// The same tokens, some with another spelling.
    pub(super) fn respelled(&self, spellings: &[(u32, &str)]) -> Result<Self, LoadError> {
        let mut tokens = self.tokens.clone();
        for &(id, spelling) in spellings {
            let Ok(at) = tokens.binary_search_by_key(&id, |token| token.id) else {
                return Err(LoadError::new(format!(
                    "{id} is not the id of an added token, so {spelling:?} cannot be its spelling"
                )));
            };
            if let Some(token) = tokens.get_mut(at) {
                token.spelling = spelling.into();
            }
        }
        Self::new(tokens)
    }

    /// All tokens, in order of id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.tokens.iter().map(|token| (token.id, &*token.spelling))
    }

    /// Spelling of an added token.
    pub(super) fn spelling(&self, id: u32) -> Option<&str> {
        let at = self.tokens.binary_search_by_key(&id, |token| token.id).ok()?;
        self.tokens.get(at).map(|token| &*token.spelling)
    }

    /// Id of a spelling.
    pub(super) fn id(&self, spelling: &str) -> Option<u32> {
        self.first.find(spelling).or_else(|| self.second.find(spelling))
    }

    /// Highest id.
    pub(super) fn highest_id(&self) -> Option<u32> {
        self.tokens.last().map(|token| token.id)
    }

    /// Cuts `text` into tokens and the text between them.
    pub(super) fn split<'text>(&self, text: &'text str, mut emit: impl FnMut(Part<'text>)) {
        self.first.split(text, |part| match part {
            Part::Plain(plain) => self.second.split(plain, &mut emit),
            Part::Token(_) => emit(part),
        });
    }
}

/// Byte trie of spellings. Node 0 is the root.
struct Trie {
    nodes: Vec<TrieNode>,
    starts: [bool; 256],
}

#[derive(Default)]
struct TrieNode {
    /// Byte and node, in order of insertion: few nodes have more than two.
    children: Vec<(u8, usize)>,
    id: Option<u32>,
}

impl TrieNode {
    fn child(&self, byte: u8) -> Option<usize> {
        self.children.iter().find(|child| child.0 == byte).map(|child| child.1)
    }
}

impl Trie {
    fn new() -> Self {
        Self { nodes: vec![TrieNode::default()], starts: [false; 256] }
    }

    fn insert(&mut self, spelling: &str, id: u32) {
        if let Some(start) = spelling.bytes().next().and_then(|byte| self.starts.get_mut(usize::from(byte))) {
            *start = true;
        }
        let mut at = 0;
        for byte in spelling.bytes() {
            let new = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { return };
            at = node.child(byte).unwrap_or_else(|| {
                node.children.push((byte, new));
                new
            });
            if at == new {
                self.nodes.push(TrieNode::default());
            }
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.id = Some(id);
        }
    }

    fn find(&self, spelling: &str) -> Option<u32> {
        self.longest(spelling.as_bytes()).filter(|found| found.1 == spelling.len()).map(|found| found.0)
    }

    /// Id and length of the longest spelling that `bytes` begins with.
    fn longest(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let mut node = self.nodes.first()?;
        let mut found = None;
        for (length, &byte) in (1..).zip(bytes) {
            let Some(child) = node.child(byte).and_then(|at| self.nodes.get(at)) else { break };
            node = child;
            found = node.id.map(|id| (id, length)).or(found);
        }
        found
    }

    fn split<'text>(&self, text: &'text str, mut emit: impl FnMut(Part<'text>)) {
        let bytes = text.as_bytes();
        let starts = |byte: &u8| self.starts.get(usize::from(*byte)).copied().unwrap_or(false);
        let (mut plain_start, mut at) = (0, 0);
        while let Some(skipped) = bytes.get(at..).and_then(|rest| rest.iter().position(starts)) {
            at += skipped;
            let Some((id, length)) = bytes.get(at..).and_then(|rest| self.longest(rest)) else {
                at += 1;
                continue;
            };
            // Spellings and texts are both UTF-8, so a match begins and ends between characters.
            if let Some(plain) = text.get(plain_start..at).filter(|plain| !plain.is_empty()) {
                emit(Part::Plain(plain));
            }
            emit(Part::Token(id));
            at += length;
            plain_start = at;
        }
        if let Some(plain) = text.get(plain_start..).filter(|plain| !plain.is_empty()) {
            emit(Part::Plain(plain));
        }
    }
}
