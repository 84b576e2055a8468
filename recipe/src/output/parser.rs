//! The parser itself: tokens and text in, events out.
//!
//! Owns the order of things within a push: bytes become characters, characters text and marks, these steps, and the steps
//! leave as events with the log probabilities of their tokens. Counts tokens as they pass.

use super::lexer::{Broken, Class, Lexer, Mark};
use super::machine::{Handled, Machine, Stage};
use super::options::ParsingOptions;
use super::piece::{OutputPiece, OutputSpecial};
use super::run::Run;
use super::sink::Step;
use super::tokens::Tokens;

use crate::event::{BackendFinish, Delta, Event, TokenCounts, TokenLogprob};
use crate::special::Spellings;
use crate::tokenizer::Utf8Hold;

/// Reads one answer.
#[derive(Debug)]
pub struct OutputParser {
    hold: Utf8Hold,
    lexer: Lexer,
    machine: Machine,
    tokens: Tokens,
    top_logprobs: Option<u8>,
    begins_in_reasoning: bool,
    output: u64,
    reasoning: Option<u64>,
    has_text: bool,
    /// Characters of ordinary tokens on their way to the lexer.
    characters: String,
    /// Text on its way from the lexer to the machine; kept for its memory.
    text: Vec<u8>,
}

/// Longest memory that is kept for the next push.
const KEPT: usize = 1 << 12;

impl OutputParser {
    /// A parser of one answer, with the usual spellings of the control tokens.
    pub fn new(options: ParsingOptions) -> Self {
        Self::with_spellings(options, &Spellings::default())
    }

    /// A parser of one answer. The spellings matter where output comes as text.
    pub fn with_spellings(options: ParsingOptions, spellings: &Spellings) -> Self {
        let top_logprobs = options.top_logprobs;
        let machine = Machine::new(options);
        let begins_in_reasoning = machine.stage == Stage::Reasoning;
        Self {
            hold: Utf8Hold::default(),
            lexer: Lexer::new(spellings),
            begins_in_reasoning,
            machine,
            tokens: Tokens::new(begins_in_reasoning),
            top_logprobs,
            output: 0,
            reasoning: None,
            has_text: false,
            characters: String::new(),
            text: Vec::new(),
        }
    }

    /// Takes one token, with its log probability if one was asked for. Ignored after the end.
    pub fn push_token(
        &mut self,
        id: u32,
        piece: OutputPiece<'_>,
        logprob: Option<TokenLogprob>,
        events: &mut Vec<Event>,
    ) {
        self.push_tokens([(id, piece, logprob)], events);
    }

    /// Takes tokens. What becomes visible with all of them leaves at once.
    pub fn push_tokens<'p>(
        &mut self,
        tokens: impl IntoIterator<Item = (u32, OutputPiece<'p>, Option<TokenLogprob>)>,
        events: &mut Vec<Event>,
    ) {
        if let Some(guard) = &mut self.machine.guard {
            guard.is_reading_text = false;
        }
        for (id, piece, logprob) in tokens {
            if self.machine.is_finished {
                break;
            }
            self.output += 1;
            self.take(id, piece, logprob);
        }
        self.feed_characters();
        self.drain(events);
    }

    /// Takes back events that were handed out, for their memory.
    pub fn recycle(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            let (Event::Reasoning(Delta { text, .. })
            | Event::Text(Delta { text, .. })
            | Event::CallArguments { fragment: text, .. }) = event
            else {
                continue;
            };
            if text.capacity() <= KEPT {
                self.machine.spare = text;
            }
        }
    }

    fn take(&mut self, id: u32, piece: OutputPiece<'_>, logprob: Option<TokenLogprob>) {
        match piece {
            OutputPiece::Bytes(bytes) => {
                let start = self.entered() + self.characters.len() as u64;
                self.hold.push(bytes, &mut self.characters);
                let end = self.entered() + self.characters.len() as u64;
                let end = if bytes.is_empty() { start } else { end.max(start + 1) };
                self.add_token(start, end, id, logprob);
                // A stop sequence ends the count of tokens where it stands, so each is looked at by itself.
                if !self.machine.gate.is_open() {
                    self.feed_characters();
                }
            }
            OutputPiece::Special(special, spelling) => {
                self.feed_characters();
                self.flush_hold();
                let start = self.entered();
                let is_shown =
                    matches!(special, OutputSpecial::ThinkingEnd | OutputSpecial::Dsml | OutputSpecial::Visible);
                let length = if is_shown { spelling.len() as u64 } else { 0 };
                self.add_token(start, start + length, id, logprob);
                self.special(special, spelling);
            }
        }
    }

    /// Feeds what ordinary tokens have gathered.
    fn feed_characters(&mut self) {
        if self.characters.is_empty() {
            return;
        }
        let mut characters = std::mem::take(&mut self.characters);
        self.feed(characters.as_bytes(), Class::Ordinary);
        characters.clear();
        characters.shrink_to(KEPT);
        self.characters = characters;
    }

    /// Takes text of a backend that gives no ids; `token_count` is added to the usage. Ignored after the end.
    pub fn push_text(&mut self, text: &str, token_count: u64, events: &mut Vec<Event>) {
        if self.machine.is_finished {
            return;
        }
        self.output += token_count;
        self.has_text |= !text.is_empty();
        self.flush_hold();
        let start = self.entered();
        self.machine.guard.get_or_insert_with(|| Box::new(self.lexer.guard())).is_reading_text = true;
        self.feed(text.as_bytes(), Class::Text);
        let end = self.entered();
        if let Some(guard) = &mut self.machine.guard {
            guard.cover(start..end);
        }
        self.drain(events);
    }

    /// Takes the end of the output. Ignored after the end.
    pub fn finish(&mut self, reason: BackendFinish, events: &mut Vec<Event>) {
        if self.machine.is_finished {
            return;
        }
        self.flush_hold();
        let mut pending = Vec::new();
        self.lexer.release(&mut pending);
        if !self.machine.is_finished {
            self.machine.finish(reason, &pending);
        }
        self.drain(events);
    }

    /// Whether the answer is over: its end was taken, or a stop sequence was met.
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished
    }

    /// Tokens so far.
    pub fn counts(&self) -> TokenCounts {
        let reasoning = if self.begins_in_reasoning { self.reasoning.unwrap_or(self.output) } else { 0 };
        TokenCounts { output: self.output, reasoning: (!self.has_text).then_some(reasoning) }
    }

    /// Offset of the next byte to enter the lexer.
    fn entered(&self) -> u64 {
        self.machine.cursor + self.lexer.pending().len() as u64
    }

    fn add_token(&mut self, start: u64, end: u64, id: u32, logprob: Option<TokenLogprob>) {
        let entry = self.top_logprobs.and_then(|count| {
            let mut entry = logprob?;
            entry.id = id;
            entry.top.truncate(usize::from(count));
            Some(entry)
        });
        self.tokens.add(start..end, entry);
    }

    /// A character that was begun will not be completed.
    fn flush_hold(&mut self) {
        self.hold.flush(&mut self.characters);
        self.feed_characters();
    }

    fn special(&mut self, special: OutputSpecial, spelling: &str) {
        match special {
            OutputSpecial::Dsml => {
                let mut text = std::mem::take(&mut self.text);
                let mark = self.lexer.dsml(&mut text);
                self.machine.text(&text);
                text.clear();
                self.text = text;
                match mark {
                    Some((mark, before)) => {
                        let spelling = [if mark == Mark::Open { "<" } else { "</" }, spelling].concat();
                        self.mark(mark, &spelling, before);
                    }
                    None => self.machine.visible(spelling.as_bytes()),
                }
            }
            OutputSpecial::ThinkingEnd => {
                self.release_lexer();
                self.mark(Mark::ThinkingEnd, spelling, 0);
            }
            OutputSpecial::Visible => {
                self.release_lexer();
                self.machine.visible(spelling.as_bytes());
            }
            OutputSpecial::ThinkingStart | OutputSpecial::Hidden => self.release_lexer(),
        }
    }

    /// The mark that has begun is none.
    fn release_lexer(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        self.lexer.release(&mut text);
        self.machine.text(&text);
        text.clear();
        self.text = text;
    }

    fn feed(&mut self, bytes: &[u8], class: Class) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.machine.is_finished {
            let plain = if self.lexer.is_idle() { self.machine.plain_length(rest, self.lexer.starts()) } else { 0 };
            let (now, later) = rest.split_at(plain.max(1));
            if plain > 0 {
                self.lexer.skip(plain, class);
                self.machine.broken = Broken::default();
                self.machine.text(now);
            } else {
                self.byte(now[0], class);
            }
            rest = later;
        }
        if !self.machine.is_finished && self.machine.holds_stop(self.lexer.pending()) {
            self.text_to_stop(&[]);
        }
    }

    fn byte(&mut self, byte: u8, class: Class) {
        if self.machine.completes_stop(byte, self.lexer.pending()) {
            return self.text_to_stop(&[byte]);
        }
        let broken = if byte == b'\n' { self.lexer.broken() } else { Broken::default() };
        let mut text = std::mem::take(&mut self.text);
        let mark = self.lexer.step(byte, class, &mut text);
        self.machine.broken = broken;
        self.machine.text(&text);
        text.clear();
        self.text = text;
        if let Some((mark, length)) = mark {
            let spelling = self.lexer.spelling(mark, length).to_owned();
            self.mark(mark, &spelling, length);
        }
    }

    /// A stop sequence is complete: everything up to it is text.
    fn text_to_stop(&mut self, last: &[u8]) {
        let mut text = Vec::new();
        self.lexer.release(&mut text);
        text.extend_from_slice(last);
        self.machine.text_to_stop(&text);
    }

    /// Takes a mark whose first `matchable` bytes may take part in a stop sequence.
    fn mark(&mut self, mark: Mark, spelling: &str, matchable: usize) {
        let length = spelling.len();
        if mark != Mark::Hidden && !self.machine.is_finished {
            self.machine.record(spelling.as_bytes(), self.machine.cursor);
            while self.machine.mark(mark, spelling.as_bytes()) == Handled::Again && !self.machine.is_finished {
                // In content once more, the mark's own bytes may complete a stop sequence, which outranks it.
                for place in 0..matchable {
                    let (before, byte) = (&spelling.as_bytes()[..place], spelling.as_bytes()[place]);
                    if self.machine.completes_stop(byte, before) {
                        return self.machine.text_to_stop(&spelling.as_bytes()[..=place]);
                    }
                }
            }
            self.machine.forget_thinking_mark(mark, length);
        }
        self.machine.cursor += length as u64;
        self.machine.limit_regions();
    }

    /// Hands out what is decided.
    fn drain(&mut self, events: &mut Vec<Event>) {
        if !self.machine.is_finished {
            self.machine.settle_value();
        }
        if let Some(offset) = self.machine.reasoning_end.take() {
            self.reasoning = Some(self.tokens.count_before(offset));
        }
        let mut steps = std::mem::take(&mut self.machine.steps);
        for step in steps.drain(..) {
            match step {
                Step::Reasoning(run) => {
                    let shown = self.machine.guard.as_mut().map(|guard| guard.reasoning(&run));
                    events.extend(self.delta(run, shown).map(Event::Reasoning));
                }
                Step::Text(run) => {
                    let may_end_thinking = self.machine.json.is_some();
                    let shown = self.machine.guard.as_mut().map(|guard| guard.content(&run, may_end_thinking));
                    events.extend(self.delta(run, shown).map(Event::Text));
                }
                Step::Arguments { index, fragment } => events.push(Event::CallArguments { index, fragment }),
                Step::Event(event) => events.push(event),
            }
        }
        self.machine.steps = steps;
        let decided = self.machine.decided();
        self.tokens.forget(decided);
        if let Some(guard) = &mut self.machine.guard {
            guard.forget(decided);
        }
    }

    /// The text of a run, or what the guard left of it, with its log probabilities.
    fn delta(&mut self, run: Run, shown: Option<String>) -> Option<Delta> {
        let mut logprobs = Vec::new();
        for range in run.ranges() {
            self.tokens.show(range, &mut logprobs);
        }
        let text = shown.unwrap_or_else(|| run.into_text());
        (!text.is_empty() || !logprobs.is_empty()).then_some(Delta { text, logprobs })
    }
}
