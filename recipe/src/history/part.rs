//! Part of a turn: its reasoning, or what follows it. And what it says: how a prompt prints the message that is read from it.
//!
//! Both sides of a record ask that of the same ids: while the answer is recorded, to find what the next prompt will have
//! instead of them; and in the next prompt, to find whether they still say what stands there.

use sha2::{Digest, Sha256};

use crate::conversation::{AssistantMessage, Content, ToolCall};
use crate::event::{BackendFinish, Event};
use crate::model::Version;
use crate::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions};
use crate::prompt::{Prompt, render_answer, render_reasoning};
use crate::special::{Special, Spellings};
use crate::tokenizer::Tokenizer;

/// Bytes of a check.
pub(super) const CHECK: usize = 4;

/// How answers are read and printed.
#[derive(Clone, Copy)]
pub(super) struct Format<'f> {
    pub(super) version: Version,
    pub(super) spellings: &'f Spellings,
    pub(super) tokenizer: &'f Tokenizer,
}

/// Which part of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reasoning, without the marks around it.
    Reasoning,
    /// What follows the mark that ends the reasoning.
    Answer,
}

/// What a prompt prints for a part: stretches of text, with a control token between each two.
pub(super) struct Printed<'p> {
    pub(super) stretches: Vec<&'p str>,
    pub(super) marks: Vec<&'p str>,
}

impl<'p> Printed<'p> {
    /// The stretches of `prompt` from byte `start` up to its end, or to the control token at place `last`; `first` is the place
    /// of the first one after `start`.
    pub(super) fn of(prompt: &'p Prompt<'_>, start: usize, first: usize, last: usize) -> Self {
        let spans = &prompt.specials[first..last];
        let end = prompt.specials.get(last).map_or(prompt.text.len(), |span| span.start);
        let starts = [start].into_iter().chain(spans.iter().map(|span| span.end));
        let ends = spans.iter().map(|span| span.start).chain([end]);
        Self {
            stretches: starts.zip(ends).map(|(start, end)| &prompt.text[start..end]).collect(),
            marks: spans.iter().map(|span| &prompt.text[span.start..span.end]).collect(),
        }
    }

    /// All of a prompt.
    pub(super) fn whole(prompt: &'p Prompt<'_>) -> Self {
        Self::of(prompt, 0, 0, prompt.specials.len())
    }

    /// What tells each stretch, and all before it, from others. The seal keeps clients from choosing it, and what is read
    /// decides in the end: it only has to be short.
    pub(super) fn checks(&self) -> Vec<[u8; CHECK]> {
        let mut chain = Sha256::new();
        let marks = self.marks.iter().copied().chain([""]);
        let check = |(text, mark): (&&str, &str)| {
            chain.update(text);
            let hash = chain.clone().finalize();
            // Stands around control tokens, and never in text.
            chain.update([&[0xFF], mark.as_bytes(), &[0xFF]].concat());
            std::array::from_fn(|place| hash[place])
        };
        self.stretches.iter().zip(marks).map(check).collect()
    }

    /// The first stretch that differs from that of another part, or after which another control token stands; `None` if both
    /// are the same.
    pub(super) fn difference(&self, other: &Self) -> Option<usize> {
        let length = self.stretches.len().max(other.stretches.len());
        let is_same = |place: usize| {
            self.stretches.get(place) == other.stretches.get(place) && self.marks.get(place) == other.marks.get(place)
        };
        (0..length).find(|place| !is_same(*place))
    }
}

impl Format<'_> {
    /// What a prompt prints for the message that is read from a part: the bytes of its stretches, and the control tokens
    /// between them. `is_whole` tells whether its end was reached.
    pub(super) fn print(self, kind: Kind, stretches: &[Vec<u8>], marks: &[&str], is_whole: bool) -> Prompt<'static> {
        let Self { version, spellings, .. } = self;
        let initial_stage = match kind {
            Kind::Reasoning => InitialStage::ReasoningStart,
            Kind::Answer => InitialStage::Content,
        };
        let options = ParsingOptions { initial_stage, parse_tool_calls: true, ..ParsingOptions::default() };
        let (mut parser, mut events) = (OutputParser::with_spellings(options, spellings), Vec::new());
        let mark = |spelling| (0, OutputPiece::Special(OutputSpecial::of(spelling, spellings), spelling), None);
        let end = Some(spellings.of(Special::ThinkingEnd)).filter(|_| kind == Kind::Reasoning && is_whole);
        let texts = stretches.iter().map(|bytes| (0, OutputPiece::Bytes(bytes), None));
        let mut marks = marks.iter().copied().chain(end).map(mark);
        // One token for each stretch: cuts do not matter.
        parser.push_tokens(texts.flat_map(|text| [Some(text), marks.next()]).flatten(), &mut events);
        parser.finish(BackendFinish::Stop, &mut events);
        let (reasoning, turn) = message(events);
        match kind {
            Kind::Reasoning => render_reasoning(&reasoning, version, spellings),
            Kind::Answer => render_answer(&turn, version, spellings).into_owned(),
        }
    }
}

/// What events say: the reasoning, and the rest of the message.
fn message(events: Vec<Event>) -> (String, AssistantMessage<'static>) {
    let (mut reasoning, mut content) = (String::new(), String::new());
    let mut calls: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            Event::Reasoning(delta) => reasoning.push_str(&delta.text),
            Event::Text(delta) => content.push_str(&delta.text),
            Event::CallStart { name, .. } => calls.push((name, String::new())),
            Event::CallArguments { fragment, .. } => {
                if let Some((_, arguments)) = calls.last_mut() {
                    arguments.push_str(&fragment);
                }
            }
            Event::CallEnd { .. } | Event::CallParameterDropped { .. } | Event::Finish(_) => {}
        }
    }
    let call =
        |(name, arguments): (String, String)| ToolCall { id: None, name: name.into(), arguments: arguments.into() };
    let calls = calls.into_iter().map(call).collect();
    (reasoning, AssistantMessage { content: Content::from(content), calls, ..AssistantMessage::default() })
}
