//! The differences between two ways to write a stretch of text: the ids of what the prompt prints, and those of the model.
//!
//! Owns how differences are found, spelled and undone. Found in one pass: where the two part, the nearest place at which
//! they meet again is looked for, and where there is none near, the rest is replaced as a whole.

use crate::tokenizer::{Piece, Tokenizer};

/// How far ahead two in a row that are the same on both sides are looked for.
const AHEAD: usize = 128;

/// The differences of one stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edits(Vec<Edit>);

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    /// How many of the prompt's ids stand before it.
    kept: usize,
    /// How many it replaces.
    replaced: usize,
    /// What they are replaced with.
    ids: Vec<u32>,
}

impl Edits {
    /// What makes `own` of `printed`.
    pub(super) fn between(printed: &[u32], own: &[u32]) -> Self {
        let mut rest = own;
        let edit = |Step { kept, replaced, written }| {
            let (ids, later) = rest[kept..].split_at(written);
            rest = later;
            Edit { kept, replaced, ids: ids.to_vec() }
        };
        Self(steps(printed, own).into_iter().map(edit).collect())
    }

    /// Whether there are no differences.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The model's ids of a stretch whose own are `printed`, all of them ordinary, and whether each difference spells the
    /// bytes that it replaces; `None` if the differences do not fit, or if there are other than ordinary tokens among them.
    pub(super) fn apply(&self, printed: &[u32], tokenizer: &Tokenizer) -> Option<(Vec<u32>, bool)> {
        let mut ids = Vec::with_capacity(printed.len());
        let (mut rest, mut is_same) = (printed, true);
        for edit in &self.0 {
            let (kept, later) = rest.split_at_checked(edit.kept)?;
            let (replaced, later) = later.split_at_checked(edit.replaced)?;
            is_same &= spelled(&edit.ids, tokenizer)? == spelled(replaced, tokenizer)?;
            ids.extend_from_slice(kept);
            ids.extend_from_slice(&edit.ids);
            rest = later;
        }
        ids.extend_from_slice(rest);
        Some((ids, is_same))
    }

    /// Appends the differences to the body of a record.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_length(self.0.len(), out);
        for edit in &self.0 {
            write_length(edit.kept, out);
            write_length(edit.replaced, out);
            write_length(edit.ids.len(), out);
            edit.ids.iter().for_each(|&id| write_number(id, out));
        }
    }

    /// Takes differences from the body of a record.
    pub(super) fn read(body: &mut &[u8]) -> Option<Self> {
        (0..read_length(body)?).map(|_| Edit::read(body)).collect::<Option<_>>().map(Self)
    }
}

impl Edit {
    fn read(body: &mut &[u8]) -> Option<Self> {
        let (kept, replaced, length) = (read_length(body)?, read_length(body)?, read_length(body)?);
        let ids = (0..length).map(|_| read_number(body)).collect::<Option<_>>()?;
        Some(Self { kept, replaced, ids })
    }
}

/// Bytes of ordinary tokens; `None` if there are others among them.
pub(super) fn spelled(ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ids.len() * 4);
    for id in ids {
        let Some(Piece::Text(piece)) = tokenizer.piece(*id) else { return None };
        bytes.extend_from_slice(piece);
    }
    Some(bytes)
}

/// A difference of two sequences, and how many of the first are the same before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kept: usize,
    /// How many of the first sequence are only there.
    pub(crate) replaced: usize,
    /// How many of the second sequence stand instead.
    pub(crate) written: usize,
}

/// The differences of two sequences, in order.
pub(crate) fn steps<T: PartialEq>(printed: &[T], own: &[T]) -> Vec<Step> {
    let tail = printed.iter().rev().zip(own.iter().rev()).take_while(|(left, right)| left == right).count();
    let (mut printed, mut own) = (&printed[..printed.len() - tail], &own[..own.len() - tail]);
    let mut steps = Vec::new();
    loop {
        let kept = printed.iter().zip(own).take_while(|(left, right)| left == right).count();
        (printed, own) = (&printed[kept..], &own[kept..]);
        if printed.is_empty() && own.is_empty() {
            return steps;
        }
        let (replaced, written) = meeting(printed, own);
        steps.push(Step { kept, replaced, written });
        (printed, own) = (&printed[replaced..], &own[written..]);
    }
}

/// After how many of either side two sequences that part meet again: the least of the larger number. At their ends, if
/// that is not near.
fn meeting<T: PartialEq>(left: &[T], right: &[T]) -> (usize, usize) {
    let meets = |(at, other): (usize, usize)| match (left.get(at..at + 2), right.get(other..other + 2)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    };
    let farthest = AHEAD.min(left.len().max(right.len()));
    let around = |far| (0..far).flat_map(move |near| [(far, near), (near, far)]).chain([(far, far)]);
    (1..farthest).flat_map(around).find(|place| meets(*place)).unwrap_or((left.len(), right.len()))
}

/// Appends a number, seven bits a byte.
pub(super) fn write_number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    // A part is bounded far below this.
    write_number(u32::try_from(length).unwrap_or(u32::MAX), out);
}

/// Takes a number.
pub(super) fn read_number(body: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = body.split_first()?;
        *body = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn read_length(body: &mut &[u8]) -> Option<usize> {
    usize::try_from(read_number(body)?).ok()
}

#[cfg(test)]
#[path = "edits_tests.rs"]
mod tests;
