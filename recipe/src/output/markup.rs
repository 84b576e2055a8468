//! Marks and tags: where they may stand and what they open and close.
//!
//! Owns no state of its own. A tag that stands where it means nothing, or whose text is no tag, is text.

use super::lexer::Mark;
use super::machine::{Block, Handled, Machine, Origin, State};
use super::region::Mode;
use super::tag::{Tag, Word};
use super::values::{Object, Value};

impl Machine {
    pub(super) fn mark_in_prose(&mut self, mark: Mark, spelling: &[u8]) -> Handled {
        let in_json = self.regions.is_empty() && self.json.as_ref().is_some_and(super::json_mode::JsonMode::is_inside);
        match mark {
            _ if in_json => self.prose_text(spelling, self.cursor),
            Mark::ThinkingStart if self.is_reasoning() || self.holds_reasoning() => {}
            Mark::ThinkingEnd => return self.end_thinking(spelling.len()),
            Mark::Open if self.settings.tools => self.open(spelling),
            // After a call an end tag is a remainder of its markup, wherever it stands.
            Mark::Close if self.settings.tools && (self.block != Block::None || self.calls > 0) => {
                return self.close(spelling);
            }
            _ => self.prose_text(spelling, self.cursor),
        }
        Handled::Done
    }

    pub(super) fn mark_in_tag(&mut self, mut tag: Tag, origin: Origin, mark: Mark, spelling: &[u8]) -> Handled {
        if tag.takes_marks() && matches!(origin, Origin::Prose) && !self.ends_held_reasoning(mark) {
            tag.push_mark(spelling, self.cursor);
            self.state = State::Tag(tag, origin);
            return Handled::Done;
        }
        match origin {
            Origin::Region => self.rollback(self.regions.len() - 1, spelling.len()),
            origin => self.refuse_tag(&tag, origin),
        }
        Handled::Again
    }

    pub(super) fn mark_in_value(&mut self, value: Value, mark: Mark, spelling: &[u8]) -> Handled {
        if self.ends_held_reasoning(mark) {
            self.rollback(0, spelling.len());
            return Handled::Again;
        }
        let is_tag = mark == Mark::Close || mark == Mark::Open && value.after_newline;
        if is_tag {
            let tag = Tag::new(mark == Mark::Close, spelling, self.cursor);
            self.state = State::Tag(tag, Origin::Value(value));
        } else {
            self.state = State::Value(value);
            self.value_text(spelling);
        }
        Handled::Done
    }

    pub(super) fn mark_in_object(&mut self, object: Object, mark: Mark, spelling: &[u8]) -> Handled {
        if self.ends_held_reasoning(mark) {
            self.rollback(0, spelling.len());
            return Handled::Again;
        }
        if mark == Mark::Close || mark == Mark::Open && !object.is_in_string() {
            self.end_object(&object);
            return Handled::Again;
        }
        self.state = State::Object(object);
        self.object_text(spelling, self.cursor);
        Handled::Done
    }

    /// Deals with a tag that is complete.
    pub(super) fn end_tag(&mut self, tag: Tag, origin: Origin) {
        match origin {
            Origin::Value(value) if tag.is_close => self.close_value(value, &tag),
            Origin::Value(value) if tag.word() == Word::Parameter && tag.attribute("name").is_some() => {
                self.end_value(value);
                self.begin_parameter(&tag);
            }
            origin @ Origin::Value(_) => self.refuse_tag(&tag, origin),
            origin if tag.is_close => self.close_tag(&tag, origin),
            origin => self.open_tag(tag, origin),
        }
    }

    /// A tag turns out to be text.
    pub(super) fn refuse_tag(&mut self, tag: &Tag, origin: Origin) {
        match origin {
            Origin::Region => self.rollback(self.regions.len() - 1, 0),
            Origin::Prose => self.replay(&tag.raw),
            Origin::Value(value) => {
                self.state = State::Value(value);
                self.value_text(tag.raw.bytes());
            }
        }
    }

    /// Whether a mark ends the reasoning although a call in it is not complete; then that call was a mention.
    fn ends_held_reasoning(&self, mark: Mark) -> bool {
        let held = self.regions.first();
        mark == Mark::ThinkingEnd
            && held.is_some_and(|region| region.is_in_reasoning() && region.mode == Mode::Complete)
    }

    fn open(&mut self, spelling: &[u8]) {
        let tag = Tag::new(false, spelling, self.cursor);
        let origin = if self.invoke.is_some() || self.is_undecided() {
            Origin::Prose
        } else {
            self.begin_region(&tag.raw);
            Origin::Region
        };
        self.state = State::Tag(tag, origin);
    }

    fn close(&mut self, spelling: &[u8]) -> Handled {
        let tag = Tag::new(true, spelling, self.cursor);
        let origin = if self.invoke.is_some() {
            Origin::Prose
        } else if !self.is_undecided() {
            self.begin_region(&tag.raw);
            Origin::Region
        } else if self.block == Block::Misspelt {
            self.rollback(self.regions.len() - 1, spelling.len());
            return Handled::Again;
        } else {
            Origin::Prose
        };
        self.state = State::Tag(tag, origin);
        Handled::Done
    }

    fn open_tag(&mut self, tag: Tag, origin: Origin) {
        let is_own = matches!(origin, Origin::Region);
        match (tag.word(), self.invoke.is_some()) {
            (Word::Parameter, true) => self.begin_parameter(&tag),
            (Word::Invoke | Word::Block, true) => self.leave_invoke_at(tag),
            (Word::Invoke, false) => self.begin_invoke(&tag, origin),
            (Word::Block, false) if !is_own => self.repeat_block(tag),
            // After a call the tag of a parameter is a remainder of its markup.
            (Word::Parameter, false) if is_own && self.calls > 0 && !self.is_quoting => {
                self.commit();
                self.after_tag();
            }
            (Word::Block | Word::Other, false) if is_own => {
                self.block = if tag.is_exact_block() { Block::Proper } else { Block::Misspelt };
                self.after_tag();
            }
            _ => self.refuse_tag(&tag, origin),
        }
    }

    /// The tag of a block follows that of another: with text between them, the first was a mention.
    fn repeat_block(&mut self, tag: Tag) {
        if self.regions.last().is_some_and(|region| region.has_prose) {
            self.restart_region(tag);
        } else {
            self.after_tag();
        }
    }

    /// The innermost region up to `tag` is text; the tag itself may be meant.
    fn restart_region(&mut self, tag: Tag) {
        self.rollback(self.regions.len() - 1, tag.raw.len());
        self.begin_region(&tag.raw);
        self.open_tag(tag, Origin::Region);
    }

    /// The tag of a call or block stands in a call.
    fn leave_invoke_at(&mut self, tag: Tag) {
        let started = self.invoke.as_ref().is_some_and(|invoke| invoke.started);
        if started {
            self.end_invoke();
        } else if !self.is_undecided() {
            self.invoke = None;
        } else if self.block == Block::Proper && tag.word() == Word::Invoke {
            self.invoke = None;
            return self.begin_invoke(&tag, Origin::Prose);
        } else {
            return self.restart_region(tag);
        }
        self.begin_region(&tag.raw);
        self.open_tag(tag, Origin::Region);
    }

    fn close_tag(&mut self, tag: &Tag, origin: Origin) {
        let word = tag.word();
        if self.invoke.is_some() {
            match word {
                Word::Parameter => self.after_tag(),
                Word::Invoke | Word::Other => self.end_invoke(),
                Word::Block => self.end_block(),
            }
            return;
        }
        if self.is_quoting && matches!(origin, Origin::Region) {
            self.refuse_tag(tag, origin);
            self.is_quoting = !matches!(word, Word::Invoke | Word::Block);
            return;
        }
        let has_opener = matches!(self.block, Block::Proper | Block::Misspelt);
        let ends_block = word == Word::Block || word == Word::Other && has_opener;
        match origin {
            Origin::Region if ends_block => {
                self.commit();
                self.end_block();
            }
            Origin::Region if word != Word::Other => {
                self.commit();
                self.after_tag();
            }
            // A block without calls: nothing is lost of an empty one, any other is text.
            Origin::Prose if ends_block => {
                let held = self.regions.last();
                if held.is_some_and(|region| region.has_prose || region.mode == Mode::Complete) {
                    self.rollback(self.regions.len() - 1, 0);
                } else {
                    self.commit();
                    self.end_block();
                }
            }
            origin => self.refuse_tag(tag, origin),
        }
    }

    /// A close mark in a value ends the value, and with the words of a call or block these too.
    fn close_value(&mut self, value: Value, tag: &Tag) {
        self.end_value(value);
        match tag.word() {
            Word::Parameter | Word::Other => {}
            Word::Invoke => self.end_invoke(),
            Word::Block => self.end_block(),
        }
    }

    /// The block ends, and the call in it.
    fn end_block(&mut self) {
        if self.invoke.is_some() {
            self.end_invoke();
        }
        self.block = Block::None;
        self.after_tag();
    }
}
