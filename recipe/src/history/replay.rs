//! Records that came back with a prompt: which stretches of its text have ids of their own.
//!
//! Owns the places of these stretches and their ids. Places come from the prompt's control tokens, so that a record has no
//! say in them. One rule decides whether it is used: what is read from the ids must be what the prompt says. Cost: one pass
//! over the stretches that have ids of their own, and where these spell other bytes, the reading of their part of the turn.

use std::collections::{BTreeMap, HashMap};

use super::edits::{Edits, read_number, spelled};
use super::part::{CHECK, Format, Kind, Printed};
use super::seal::Seal;
use crate::prompt::{Prompt, Turn};
use crate::special::{Special, Spellings};
use crate::tokenizer::Tokenizer;

/// The model's ids by the position of the text in the prompt that they stand for, which may be empty.
#[derive(Debug, Default)]
pub(crate) struct Replay(HashMap<usize, Vec<u32>>);

/// Differences, with the check of what is printed, by the place of their stretch in its part.
type Differences = BTreeMap<usize, ([u8; CHECK], Edits)>;

/// A stretch with the model's ids.
struct Own {
    ids: Vec<u32>,
    /// Whether they spell the bytes that are printed.
    is_same: bool,
}

impl Replay {
    /// What the records of `turns` say about `prompt`.
    pub(crate) fn new(
        prompt: &Prompt<'_>,
        turns: &[Turn<'_>],
        seal: &Seal,
        spellings: &Spellings,
        tokenizer: &Tokenizer,
    ) -> Self {
        let format = Format { version: seal.version(), spellings, tokenizer };
        let mut replay = Self::default();
        for turn in turns {
            let [reasoning, answer] = open(&turn.records, seal);
            if !reasoning.is_empty() || !answer.is_empty() {
                replay.turn([&reasoning, &answer], prompt, turn.first, format);
            }
        }
        replay
    }

    /// The ids of the text that stands at `position` of the prompt, if it has its own.
    pub(crate) fn at(&self, position: usize) -> Option<&[u32]> {
        self.0.get(&position).map(Vec::as_slice)
    }

    /// Finds the parts of the turn whose control tokens begin at place `first`.
    fn turn(&mut self, [reasoning, answer]: [&Differences; 2], prompt: &Prompt<'_>, first: usize, format: Format<'_>) {
        let specials = &prompt.specials;
        let find = |from: usize, special| {
            let mut places = from..specials.len();
            places
                .find(|place| specials.get(*place).is_some_and(|span| span.special == special))
                .unwrap_or(specials.len())
        };
        let end = find(first, Special::Eos);
        let thinking_end = find(first, Special::ThinkingEnd).min(end);
        if specials.get(first).is_some_and(|span| span.special == Special::ThinkingStart) {
            self.part(Kind::Reasoning, reasoning, prompt, first..thinking_end, format);
        }
        if thinking_end < end {
            self.part(Kind::Answer, answer, prompt, thinking_end..end, format);
        }
    }

    /// Takes over the model's ids in a part: its places are those of the control token that opens it and of the one that
    /// ends it.
    fn part(
        &mut self,
        kind: Kind,
        differences: &Differences,
        prompt: &Prompt<'_>,
        places: std::ops::Range<usize>,
        format: Format<'_>,
    ) {
        if differences.is_empty() {
            return;
        }
        let position = |index: usize| prompt.specials[places.start + index].end;
        let printed = Printed::of(prompt, position(0), places.start + 1, places.end);
        let own = agreeing(kind, own(differences, &printed, format), &printed, format);
        self.0.extend(own.into_iter().map(|(index, own)| (position(index), own.ids)));
    }
}

/// The records of one turn, together: those of its reasoning, and of what follows. Whatever is not ours is left out.
fn open(records: &[&str], seal: &Seal) -> [Differences; 2] {
    let mut parts = [Differences::new(), Differences::new()];
    for body in records.iter().filter_map(|record| seal.open(record)) {
        let mut body = &body[..];
        while let Some(place) = read_number(&mut body) {
            let Some((check, rest)) = body.split_first_chunk() else { break };
            body = rest;
            let Some(edits) = Edits::read(&mut body) else { break };
            let [reasoning, answer] = &mut parts;
            let part = if place & 1 == 0 { reasoning } else { answer };
            part.entry(place as usize >> 1).or_insert((*check, edits));
        }
    }
    parts
}

/// The stretches with the model's ids, up to one of which something else is printed.
fn own(differences: &Differences, printed: &Printed<'_>, format: Format<'_>) -> BTreeMap<usize, Own> {
    let checks = printed.checks();
    let own = |(index, (check, edits)): (&usize, &([u8; CHECK], Edits))| {
        if checks.get(*index) != Some(check) {
            return None;
        }
        let text = printed.stretches.get(*index)?;
        let mut usual = Vec::with_capacity(text.len() / 3);
        format.tokenizer.encode_plain(text, &mut usual);
        let (ids, is_same) = edits.apply(&usual, format.tokenizer)?;
        Some((*index, Own { ids, is_same }))
    };
    differences.iter().map_while(own).collect()
}

/// As many of the first stretches as say what is printed. Where they spell the same bytes, nothing has to be read.
fn agreeing(
    kind: Kind,
    mut own: BTreeMap<usize, Own>,
    printed: &Printed<'_>,
    format: Format<'_>,
) -> BTreeMap<usize, Own> {
    let changed = |own: &BTreeMap<usize, Own>| own.iter().find(|(_, own)| !own.is_same).map(|(index, _)| *index);
    let difference = |own: &BTreeMap<usize, Own>| {
        let bytes = |(index, text): (usize, &&str)| {
            let own = own.get(&index).and_then(|own| spelled(&own.ids, format.tokenizer));
            own.unwrap_or_else(|| text.as_bytes().to_vec())
        };
        let stretches: Vec<Vec<u8>> = printed.stretches.iter().enumerate().map(bytes).collect();
        let said = format.print(kind, &stretches, &printed.marks, true);
        Printed::whole(&said).difference(printed)
    };
    for attempt in 0..2 {
        let Some(first) = changed(&own) else { break };
        let Some(place) = difference(&own) else { break };
        // What follows the first difference may be to blame for it only once.
        own.split_off(if attempt == 0 { &place } else { &first });
    }
    own
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
