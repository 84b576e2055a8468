//! Conversation → prompt: one file per version's grammar, and the writer that both use.
//!
//! Only this module places control tokens. Whatever a user, a tool or a schema says is written as text, and text between
//! two control tokens is tokenised without the control vocabulary, so nothing said can forge one.

mod arguments;
mod draft;
mod tools;
mod trace;
mod v4;
mod v41;
mod written;

use std::borrow::Cow;

use crate::conversation::{
    Arguments, AssistantMessage, Content, Conversation, ImageSource, Message, Part, Tool, ToolCall,
};
use crate::json::{Value, write_python, write_python_watched};
use crate::model::Version;
use crate::special::{Special, Spellings};

pub(crate) use draft::Draft;
pub(crate) use tools::Words as Markup;
pub(crate) use trace::{Address, Scope, Setting, Trace};
pub(crate) use written::Written;

/// The words of a version's tool markup.
pub(crate) fn markup(version: Version) -> &'static Markup {
    match version {
        Version::V4 => &v4::WORDS,
        Version::V41 => &v41::WORDS,
    }
}

/// A prompt: text with control tokens at known places.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt<'a> {
    /// The whole text, control tokens spelled out.
    pub text: String,
    /// Where the control tokens stand, in order.
    pub specials: Vec<SpecialSpan>,
    /// Sources of the images, in prompt order.
    pub images: Vec<ImageSource<'a>>,
}

/// Place of one control token, in bytes of the prompt's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialSpan {
    /// First byte of its spelling.
    pub start: usize,
    /// Byte after its spelling.
    pub end: usize,
    /// Which token.
    pub special: Special,
}

/// A stretch of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'p> {
    /// Text, tokenised on its own and without the control vocabulary. As long as possible; empty between neighbours.
    Text(&'p str),
    /// One control token, with its spelling.
    Special(Special, &'p str),
}

impl Prompt<'_> {
    /// The prompt as alternating stretches of text and control tokens.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let mut position = 0;
        let stretches = self.specials.iter().flat_map(move |span| {
            let before = &self.text[std::mem::replace(&mut position, span.end)..span.start];
            [Segment::Text(before), Segment::Special(span.special, &self.text[span.start..span.end])]
        });
        let last = &self.text[self.specials.last().map_or(0, |span| span.end)..];
        stretches.chain([Segment::Text(last)])
    }

    /// The texts between the control tokens and where they begin, each with the token behind it, if there is one.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (usize, &str, Option<Special>)> {
        let starts = [0].into_iter().chain(self.specials.iter().map(|span| span.end));
        let ends = self.specials.iter().map(|span| (span.start, Some(span.special)));
        let ends = ends.chain([(self.text.len(), None)]);
        starts.zip(ends).map(|(start, (end, special))| (start, &self.text[start..end], special))
    }

    /// Ranges of the control tokens, counted in code points.
    pub fn special_ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges = Vec::with_capacity(self.specials.len());
        let (mut byte, mut point) = (0, 0);
        for span in &self.specials {
            point += self.text[byte..span.start].chars().count();
            let end = point + self.text[span.start..span.end].chars().count();
            ranges.push((point, end));
            (byte, point) = (span.end, end);
        }
        ranges
    }
}

impl Prompt<'_> {
    /// A copy that borrows nothing from the request.
    pub fn into_owned(self) -> Prompt<'static> {
        let images = self.images.into_iter().map(ImageSource::into_owned).collect();
        Prompt { text: self.text, specials: self.specials, images }
    }
}

/// A turn of the model that came back with records of its ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    /// Place, among the prompt's control tokens, of the one after that which opens the turn.
    pub(crate) first: usize,
    /// The records.
    pub(crate) records: Vec<&'a str>,
}

/// Writes the prompt of `conversation` in the grammar of `version`.
pub fn render<'a>(conversation: &Conversation<'a>, version: Version, spellings: &Spellings) -> Prompt<'a> {
    write(conversation, version, spellings, None).draft.into_prompt(spellings)
}

/// Writes the prompt as [`render`] does, but leaves it in pieces, and tells which turns of it have records.
pub(crate) fn draft<'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &Spellings,
) -> (Draft<'a>, Vec<Turn<'a>>) {
    let writer = write(conversation, version, spellings, None);
    (writer.draft, writer.turns)
}

/// Writes the prompt as [`render`] does, tells which turns of it have records, and notes where each stretch of it came from.
pub(crate) fn render_traced<'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &Spellings,
) -> (Prompt<'a>, Vec<Turn<'a>>, Trace) {
    let writer = write(conversation, version, spellings, Some(Trace::new()));
    (writer.draft.into_prompt(spellings), writer.turns, writer.trace.unwrap_or_else(Trace::new))
}

/// Writes the reasoning of a turn as a prompt does, without the marks around it.
pub(crate) fn render_reasoning(reasoning: &str, version: Version, spellings: &Spellings) -> Prompt<'static> {
    let mut writer = Writer::new(version, spellings, None);
    writer.model_text(&Cow::Borrowed(reasoning));
    writer.draft.into_prompt(spellings).into_owned()
}

/// Writes what follows the reasoning of a turn as a prompt does, without the marks around it.
pub(crate) fn render_answer<'a>(turn: &AssistantMessage<'a>, version: Version, spellings: &Spellings) -> Prompt<'a> {
    let mut writer = Writer::new(version, spellings, None);
    match version {
        Version::V4 => v4::answer(turn, &mut writer),
        Version::V41 => v41::answer(turn, &mut writer),
    }
    writer.draft.into_prompt(spellings)
}

fn write<'s, 'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &'s Spellings,
    trace: Option<Trace>,
) -> Writer<'s, 'a> {
    let mut writer = Writer::new(version, spellings, trace);
    writer.draft.reserve(expected_length(conversation));
    match version {
        Version::V4 => v4::write(conversation, &mut writer),
        Version::V41 => v41::write(conversation, &mut writer),
    }
    writer
}

/// Bytes of a prompt that will not be borrowed, about: room that is taken at once is not filled twice.
fn expected_length(conversation: &Conversation<'_>) -> usize {
    /// Markup around a message, a call or a tool, and the properties of a tool.
    const MARKUP: usize = 256;
    let call = |call: &ToolCall<'_>| match &call.arguments {
        Arguments::Text(text) => text.len() + MARKUP,
        Arguments::Value(_) => 2 * MARKUP,
    };
    let message = |message: &Message<'_>| match message {
        Message::Assistant(turn) => turn.calls.iter().map(call).sum(),
        _ => MARKUP / 4,
    };
    let tool = |tool: &Tool<'_>| tool.description.as_deref().map_or(0, str::len) + 4 * MARKUP;
    conversation.messages.iter().map(message).sum::<usize>()
        + MARKUP * 4
        + conversation.tools.iter().map(tool).sum::<usize>()
}

/// Appends to a prompt. Its methods are the only way to place a control token.
struct Writer<'s, 'a> {
    draft: Draft<'a>,
    turns: Vec<Turn<'a>>,
    /// Where arguments with escapes are read into.
    room: Vec<u8>,
    spellings: &'s Spellings,
    grounding: [(Special, &'s str); 8],
    /// Bytes that begin a grounding mark.
    grounding_starts: [bool; 256],
    /// The character that begins all of them, if they have it in common; to find one is much faster.
    grounding_start: Option<char>,
    version: Version,
    /// Only where somebody asked for it: all that a prompt costs without is a look whether there is one.
    trace: Option<Trace>,
}

impl<'s, 'a> Writer<'s, 'a> {
    fn new(version: Version, spellings: &'s Spellings, trace: Option<Trace>) -> Self {
        let grounding = Special::GROUNDING.map(|special| (special, spellings.of(special)));
        let mut grounding_starts = [false; 256];
        for start in grounding.iter().filter_map(|(_, mark)| mark.as_bytes().first()) {
            grounding_starts[usize::from(*start)] = true;
        }
        let first = grounding[0].1.chars().next();
        let grounding_start =
            first.filter(|first| first.is_ascii() && grounding.iter().all(|(_, mark)| mark.starts_with(*first)));
        let (draft, turns, room) = (Draft::default(), Vec::new(), Vec::new());
        Self { draft, turns, room, spellings, grounding, grounding_starts, grounding_start, version, trace }
    }

    /// Appends text that can never become a control token.
    fn text(&mut self, text: &str) {
        self.draft.push(text);
        self.note(text);
    }

    /// Appends such text of the request.
    fn said(&mut self, text: &'a str) {
        self.draft.borrow(text);
        self.note(text);
    }

    /// Appends a JSON value.
    fn json(&mut self, value: &Value<'_>) {
        let style = self.version.float_style();
        self.draft.push_with(|before, out| match &mut self.trace {
            None => write_python(value, style, out),
            Some(trace) => write_python_watched(value, style, out, &mut |end, source| trace.note(before + end, source)),
        });
    }

    /// Notes what the latest text was copied from.
    fn note(&mut self, source: &str) {
        if let Some(trace) = &mut self.trace {
            trace.note(self.draft.len(), source);
        }
    }

    /// Writes on behalf of something.
    fn within(&mut self, scope: impl FnOnce() -> Scope, write: impl FnOnce(&mut Self)) {
        let outer = self.trace.as_mut().map(|trace| trace.enter(scope()));
        write(self);
        if let (Some(trace), Some(outer)) = (&mut self.trace, outer) {
            trace.leave(outer);
        }
    }

    /// Appends a control token.
    fn special(&mut self, special: Special) {
        self.special_from(special, "");
    }

    /// Appends a control token that `source` spells.
    fn special_from(&mut self, special: Special, source: &str) {
        self.draft.mark(special, self.spellings);
        self.note(source);
    }

    /// Opens a past turn of the model.
    fn open_turn(&mut self, turn: &AssistantMessage<'a>) {
        self.special(Special::Assistant);
        if !turn.records.is_empty() {
            self.turns.push(Turn { first: self.draft.marks(), records: turn.records.clone() });
        }
    }

    /// Appends text of the format itself, in which `{dsml}`, `{think}` and `{/think}` stand for control tokens.
    fn template(&mut self, template: &str) {
        let mut rest = template;
        while let Some(place) = rest.find('{') {
            let mark =
                [("{dsml}", Special::Dsml), ("{think}", Special::ThinkingStart), ("{/think}", Special::ThinkingEnd)]
                    .into_iter()
                    .find(|(name, _)| rest[place..].starts_with(name));
            let length = mark.map_or(1, |(name, _)| name.len());
            self.text(&rest[..if mark.is_some() { place } else { place + length }]);
            if let Some((_, special)) = mark {
                self.special(special);
            }
            rest = &rest[place + length..];
        }
        self.text(rest);
    }

    /// Appends text and images.
    fn content(&mut self, content: &Content<'a>) {
        self.within(|| Scope::content(content, None), |writer| writer.parts(content));
    }

    /// Appends the result of a call.
    fn result(&mut self, call_id: Option<&str>, content: &Content<'a>) {
        self.text("<tool_result>");
        self.within(|| Scope::content(content, call_id), |writer| writer.parts(content));
        self.text("</tool_result>");
    }

    fn parts(&mut self, content: &Content<'a>) {
        for part in &content.0 {
            match part {
                Part::Text(Cow::Borrowed(text)) => self.said(text),
                Part::Text(Cow::Owned(text)) => self.text(text),
                Part::Image(source) => {
                    self.within(|| Scope::image(source), |writer| writer.special(Special::Image));
                    self.draft.images.push(source.clone());
                }
                Part::UnplacedImage(source) => self.draft.images.push(source.clone()),
            }
        }
    }

    /// Appends what the model itself said: the only text in which the grounding marks are control tokens.
    #[expect(clippy::ptr_arg, reason = "what is borrowed stays where it is")]
    fn model_text(&mut self, text: &Cow<'a, str>) {
        match text {
            Cow::Borrowed(text) => self.model_text_with(text, Self::said),
            Cow::Owned(text) => self.model_text_with(text, Self::text),
        }
    }

    fn model_text_with<'t>(&mut self, text: &'t str, append: impl Fn(&mut Self, &'t str)) {
        let (grounding, starts, start) = (self.grounding, self.grounding_starts, self.grounding_start);
        let (mut done, mut position) = (0, 0);
        let next = |position: usize| match start {
            Some(start) => text[position..].find(start),
            None => text.as_bytes()[position..].iter().position(|&byte| starts[usize::from(byte)]),
        };
        while let Some(offset) = next(position) {
            position += offset;
            let rest = &text.as_bytes()[position..];
            let Some((special, mark)) = grounding.iter().find(|(_, mark)| rest.starts_with(mark.as_bytes())) else {
                position += 1;
                continue;
            };
            append(self, &text[done..position]);
            self.special_from(*special, &text[position..position + mark.len()]);
            position += mark.len();
            done = position;
        }
        append(self, &text[done..]);
    }

    /// Appends content of the model.
    fn model_content(&mut self, content: &Content<'a>) {
        let write = |writer: &mut Self| {
            for part in &content.0 {
                match part {
                    Part::Text(text) => writer.model_text(text),
                    Part::Image(_) | Part::UnplacedImage(_) => writer.parts(&Content(vec![part.clone()])),
                }
            }
        };
        self.within(|| Scope::content(content, None), write);
    }

    /// Opens the turn that the model is to write.
    fn generation_prompt(&mut self, conversation: &Conversation<'_>) {
        self.special(Special::Assistant);
        let mark = if conversation.thinking { Special::ThinkingStart } else { Special::ThinkingEnd };
        self.within(|| Scope::Setting(Setting::Thinking), |writer| writer.special(mark));
    }
}
