//! Calls: when one starts, what it is named, when it ends.
//!
//! Owns the open call and the prose that stands inside it, which is shown after it: held without a limit, since the client
//! is to receive all of it. A call starts when its body shows a parameter, an object or its end.

use std::collections::HashSet;

use super::machine::{Block, Machine, Origin};
use super::matcher::Node;
use super::region::Mode;
use super::sink::Step;
use super::tag::Tag;
use crate::event::Event;

/// The open call.
#[derive(Debug, Default)]
pub(super) struct Invoke {
    name: String,
    /// Number of the call, once it started.
    pub(super) index: usize,
    pub(super) started: bool,
    /// Whether prose was seen in its body.
    pub(super) has_prose: bool,
    /// Whether its body is one JSON object, which was read.
    pub(super) is_whole: bool,
    /// Names of the parameters so far.
    pub(super) seen: HashSet<String>,
}

impl Invoke {
    /// Whether nothing of the body was seen.
    pub(super) fn is_unread(&self) -> bool {
        !self.started && !self.has_prose && !self.is_muted()
    }

    /// A call without a name is read like any other, and not shown.
    pub(super) fn is_muted(&self) -> bool {
        self.name.is_empty()
    }
}

impl Machine {
    /// The start tag of a call, outside of a call.
    pub(super) fn begin_invoke(&mut self, tag: &Tag, origin: Origin) {
        let name = self.name_in(tag).unwrap_or_default();
        let counts = self.block == Block::Proper || !name.is_empty() && self.settings.declares(&name);
        if !counts {
            let is_head = self.is_undecided() && self.block == Block::Misspelt;
            self.refuse_tag(tag, if is_head { Origin::Region } else { origin });
            self.is_quoting = true;
            return;
        }
        if self.block == Block::None {
            self.block = Block::Bare;
        }
        self.invoke = Some(Invoke { name, ..Invoke::default() });
        self.after_tag();
        if tag.is_self_closing() {
            self.end_invoke();
        }
    }

    /// The call starts: it is markup, not text.
    pub(super) fn start_call(&mut self) {
        let Some(invoke) = &mut self.invoke else { return };
        if invoke.started || invoke.is_muted() {
            return;
        }
        invoke.started = true;
        self.is_quoting = false;
        invoke.index = self.calls;
        let (index, name) = (invoke.index, invoke.name.clone());
        self.calls += 1;
        self.push_step(Step::Event(Event::CallStart { index, name }));
        if self.regions.last().is_some_and(|region| region.mode == Mode::Start) {
            self.accept();
        }
    }

    /// The call ends, by its own end tag or that of its block.
    pub(super) fn end_invoke(&mut self) {
        let Some(invoke) = &self.invoke else { return };
        if invoke.is_unread() {
            self.start_call();
        }
        let Some(invoke) = self.invoke.take() else { return };
        if invoke.started {
            if !invoke.is_whole {
                let end = if invoke.seen.is_empty() { "{}" } else { "}" };
                self.push_step(Step::Arguments { index: invoke.index, fragment: end.to_owned() });
            }
            self.end_call(invoke.index, true);
        }
        match self.regions.last().map(|region| region.mode) {
            Some(Mode::Complete) if !invoke.started => return self.rollback(self.regions.len() - 1, 0),
            Some(Mode::Complete) => self.accept(),
            // A call without a name, or one whose body is prose: the prose is shown without the tags.
            Some(Mode::Start) => self.commit(),
            Some(Mode::Fence) | None => {}
        }
        self.after_tag();
    }

    /// Reports the end of a call that started, and shows the prose in it.
    pub(super) fn end_call(&mut self, index: usize, complete: bool) {
        self.push_step(Step::Event(Event::CallEnd { index, complete }));
        self.lead = false;
        let deferred = std::mem::take(&mut self.deferred);
        for (bytes, at) in deferred.segments() {
            self.content(bytes, at);
        }
    }

    /// The name that a tag gives.
    pub(super) fn name_in(&self, tag: &Tag) -> Option<String> {
        let (name, _) = tag.attribute("name")?;
        let kept = self.guard.as_ref().map(|guard| guard.part(name.as_bytes(), &mut Node::ROOT.clone()));
        Some(kept.map_or_else(|| name.clone(), |kept| String::from_utf8_lossy(&kept).into_owned()))
    }

    /// Appends to the arguments of the open call.
    pub(super) fn push_arguments(&mut self, fragment: String) {
        if let Some(invoke) = &self.invoke
            && !fragment.is_empty()
        {
            let index = invoke.index;
            self.push_step(Step::Arguments { index, fragment });
        }
    }
}
