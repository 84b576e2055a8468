//! Where two prompts part, and how much of a sequence of prompts a cache of prefixes would have held.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use super::Explanation;

/// Longest piece of a prompt that a sentence shows, in characters.
const SHOWN: usize = 40;

/// Where two prompts part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Number of tokens that both begin with.
    pub shared: usize,
    /// Number of tokens of the first.
    pub first_tokens: usize,
    /// Number of tokens of the second.
    pub second_tokens: usize,
    /// The first token of the first prompt that differs; `None` if the prompt ends before.
    pub first: Option<Part>,
    /// The first token of the second prompt that differs; `None` if the prompt ends before.
    pub second: Option<Part>,
}

/// A token and what it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its id.
    pub token_id: u32,
    /// JSON path of its field; `None` for the format itself.
    pub path: Option<String>,
    /// Text from the token on, as far as the field goes and no longer than a sentence can show.
    pub text: String,
}

impl Difference {
    /// The field at which the prompts part, on whichever side there is one.
    pub fn path(&self) -> Option<&str> {
        [&self.first, &self.second].into_iter().flatten().find_map(|part| part.path.as_deref())
    }
}

/// Compares two prompts.
pub fn difference(first: &Explanation, second: &Explanation) -> Difference {
    let shared = shared_length(&first.token_ids, &second.token_ids);
    Difference {
        shared,
        first_tokens: first.token_ids.len(),
        second_tokens: second.token_ids.len(),
        first: part(first, shared),
        second: part(second, shared),
    }
}

fn shared_length(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

fn part(explanation: &Explanation, token: usize) -> Option<Part> {
    let token_id = *explanation.token_ids.get(token)?;
    let span = explanation.span(token)?;
    let text = explanation.text(token..span.tokens.end);
    let text = match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    };
    Some(Part { token_id, path: span.path.clone(), text })
}

/// A field, or the format, with a piece of text.
impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(formatter, "{path} ({:?})", self.text),
            None => write!(formatter, "text of the format ({:?})", self.text),
        }
    }
}

/// A sentence.
impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.first, &self.second) {
            (None, None) => write!(formatter, "the two requests have the same prompt"),
            (Some(part), None) => {
                write!(formatter, "the second prompt is the beginning of the first, which goes on with {part}")
            }
            (None, Some(part)) => {
                write!(formatter, "the first prompt is the beginning of the second, which goes on with {part}")
            }
            (Some(Part { path: Some(path), text, .. }), Some(other)) if other.path.as_ref() == Some(path) => {
                write!(
                    formatter,
                    "the two requests part at {path}: {text:?} in the first, {:?} in the second",
                    other.text
                )
            }
            (Some(first), Some(second)) => {
                write!(formatter, "the two requests part where the first has {first} and the second {second}")
            }
        }
    }
}

/// One request of a sequence, against those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Number of tokens of its prompt.
    pub tokens: usize,
    /// Which earlier request has the longest beginning in common with it; `None` for the first request.
    pub earlier: Option<usize>,
    /// Where it parts from that request.
    pub difference: Option<Difference>,
}

impl Turn {
    /// Number of tokens that a cache of all earlier prompts would have held.
    pub fn shared(&self) -> usize {
        self.difference.as_ref().map_or(0, |difference| difference.shared)
    }
}

/// Compares each prompt of a sequence with those before it.
pub fn turns(sequence: &[Explanation]) -> Vec<Turn> {
    // Of prompts in alphabetical order, a neighbour shares most with a newcomer, so that two comparisons are enough.
    let mut sorted: BTreeMap<&[u32], usize> = BTreeMap::new();
    let mut turns = Vec::with_capacity(sequence.len());
    for (index, explanation) in sequence.iter().enumerate() {
        let ids = explanation.token_ids.as_slice();
        let before = sorted.range::<[u32], _>((Bound::Unbounded, Bound::Included(ids))).next_back();
        let after = sorted.range::<[u32], _>((Bound::Excluded(ids), Bound::Unbounded)).next();
        let neighbours = before.into_iter().chain(after);
        let earlier = neighbours.map(|(other, earlier)| (shared_length(other, ids), *earlier)).max();
        let earlier = earlier.map(|(_, earlier)| earlier);
        turns.push(Turn {
            tokens: ids.len(),
            earlier,
            difference: earlier.map(|earlier| difference(&sequence[earlier], explanation)),
        });
        sorted.insert(ids, index);
    }
    turns
}
