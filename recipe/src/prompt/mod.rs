//! Conversation → prompt: one file per version's grammar, and the writer that both use.
//!
//! Only this module places control tokens. Whatever a user, a tool or a schema says is written as text, and text between
//! two control tokens is tokenised without the control vocabulary, so nothing said can forge one.

mod arguments;
mod tools;
mod trace;
mod v4;
mod v41;

use crate::conversation::{AssistantMessage, Content, Conversation, ImageSource, Message, Part, Tool};
use crate::json::{Value, write_python, write_python_watched};
use crate::model::Version;
use crate::special::{Special, Spellings};

pub(crate) use tools::Words as Markup;
pub(crate) use trace::{Address, Scope, Setting, Trace};

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
    write(conversation, version, spellings, None).prompt
}

/// Writes the prompt as [`render`] does, and tells which turns of it have records.
pub(crate) fn render_with_turns<'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &Spellings,
) -> (Prompt<'a>, Vec<Turn<'a>>) {
    let writer = write(conversation, version, spellings, None);
    (writer.prompt, writer.turns)
}

/// Does so too, and notes where each stretch of it came from.
pub(crate) fn render_traced<'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &Spellings,
) -> (Prompt<'a>, Vec<Turn<'a>>, Trace) {
    let writer = write(conversation, version, spellings, Some(Trace::new()));
    (writer.prompt, writer.turns, writer.trace.unwrap_or_else(Trace::new))
}

/// Writes the reasoning of a turn as a prompt does, without the marks around it.
pub(crate) fn render_reasoning(reasoning: &str, version: Version, spellings: &Spellings) -> Prompt<'static> {
    let mut writer = Writer::new(version, spellings, None);
    writer.model_text(reasoning);
    writer.prompt
}

/// Writes what follows the reasoning of a turn as a prompt does, without the marks around it.
pub(crate) fn render_answer<'a>(turn: &AssistantMessage<'a>, version: Version, spellings: &Spellings) -> Prompt<'a> {
    let mut writer = Writer::new(version, spellings, None);
    match version {
        Version::V4 => v4::answer(turn, &mut writer),
        Version::V41 => v41::answer(turn, &mut writer),
    }
    writer.prompt
}

fn write<'s, 'a>(
    conversation: &Conversation<'a>,
    version: Version,
    spellings: &'s Spellings,
    trace: Option<Trace>,
) -> Writer<'s, 'a> {
    let mut writer = Writer::new(version, spellings, trace);
    writer.prompt.text.reserve(expected_length(conversation));
    match version {
        Version::V4 => v4::write(conversation, &mut writer),
        Version::V41 => v41::write(conversation, &mut writer),
    }
    writer
}

/// Bytes that a prompt will have, about: room that is taken at once is not filled twice.
fn expected_length(conversation: &Conversation<'_>) -> usize {
    /// Markup around a message, a call or a tool, and the properties of a tool.
    const MARKUP: usize = 256;
    let message = |message: &Message<'_>| {
        let said: usize = message.content().texts().map(str::len).sum();
        let Message::Assistant(turn) = message else { return said + MARKUP };
        let called: usize = turn.calls.iter().map(|call| call.arguments.len() + MARKUP).sum();
        said + called + turn.reasoning.as_deref().map_or(0, str::len) + MARKUP
    };
    let tool = |tool: &Tool<'_>| tool.description.as_deref().map_or(0, str::len) + 4 * MARKUP;
    conversation.messages.iter().map(message).sum::<usize>() + conversation.tools.iter().map(tool).sum::<usize>()
}

/// Appends to a prompt. Its methods are the only way to place a control token.
struct Writer<'s, 'a> {
    prompt: Prompt<'a>,
    turns: Vec<Turn<'a>>,
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
        let (prompt, turns) = (Prompt::default(), Vec::new());
        Self { prompt, turns, spellings, grounding, grounding_starts, grounding_start, version, trace }
    }

    /// Appends text that can never become a control token.
    fn text(&mut self, text: &str) {
        self.prompt.text.push_str(text);
        self.note(text);
    }

    /// Appends a JSON value.
    fn json(&mut self, value: &Value<'_>) {
        let (style, out) = (self.version.float_style(), &mut self.prompt.text);
        match &mut self.trace {
            None => write_python(value, style, out),
            Some(trace) => write_python_watched(value, style, out, &mut |end, source| trace.note(end, source)),
        }
    }

    /// Notes what the latest text was copied from.
    fn note(&mut self, source: &str) {
        if let Some(trace) = &mut self.trace {
            trace.note(self.prompt.text.len(), source);
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
        let start = self.prompt.text.len();
        self.prompt.text.push_str(self.spellings.of(special));
        self.prompt.specials.push(SpecialSpan { start, end: self.prompt.text.len(), special });
        self.note(source);
    }

    /// Opens a past turn of the model.
    fn open_turn(&mut self, turn: &AssistantMessage<'a>) {
        self.special(Special::Assistant);
        if !turn.records.is_empty() {
            self.turns.push(Turn { first: self.prompt.specials.len(), records: turn.records.clone() });
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
                Part::Text(text) => self.text(text),
                Part::Image(source) => {
                    self.within(|| Scope::image(source), |writer| writer.special(Special::Image));
                    self.prompt.images.push(source.clone());
                }
                Part::UnplacedImage(source) => self.prompt.images.push(source.clone()),
            }
        }
    }

    /// Appends what the model itself said: the only text in which the grounding marks are control tokens.
    fn model_text(&mut self, text: &str) {
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
            self.text(&text[done..position]);
            self.special_from(*special, &text[position..position + mark.len()]);
            position += mark.len();
            done = position;
        }
        self.text(&text[done..]);
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
