//! The end of an output: what becomes of markup that was cut.
//!
//! Owns no state of its own. A call that was cut keeps the arguments it has, a prefix of JSON; an opener that was cut is
//! dropped if the backend cut it, else it is text.

use super::machine::{Block, Machine, Origin, State};
use super::region::Mode;
use super::sink::{Step, append_text};
use super::tag::{Tag, Word};
use crate::event::{BackendFinish, Event, Finish, FinishReason};

/// What the end left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing but end tags are missing.
    EndTags,
    /// A parameter or a tag was cut.
    Cut,
}

impl Machine {
    /// Takes the end of the output; `pending` is the start of a mark.
    pub(super) fn finish(&mut self, backend: BackendFinish, pending: &[u8]) {
        let is_tag = self.invoke.is_some() || self.block != Block::None && (!self.is_undecided() || was_cut(backend));
        let is_tag = is_tag && self.prose.is_fresh && matches!(self.state, State::Prose);
        if !is_tag {
            self.text(pending);
        }
        let rest = self.finish_state(backend);
        let rest = if is_tag && pending.starts_with(b"<") && !pending.starts_with(b"</") { Rest::Cut } else { rest };
        self.finish_call(rest, backend);
        self.finish_regions(backend);
        if self.prose.is_fresh {
            self.prose.take();
        }
        self.flush_prose();
        self.restart_gate();
        if self.is_finished {
            return;
        }
        if let Some(json) = &mut self.json {
            let shown = json.finish();
            append_text(&mut self.steps, shown);
        }
        let reason = match (backend, self.cut) {
            (_, Some(reason)) => reason,
            (BackendFinish::Length, None) => FinishReason::Length,
            (BackendFinish::ContentFilter, None) => FinishReason::ContentFilter,
            (BackendFinish::Stop | BackendFinish::Unknown, None) if self.calls > 0 => FinishReason::ToolCalls,
            (BackendFinish::Stop | BackendFinish::Unknown, None) => FinishReason::Stop,
        };
        self.push_step(Step::Event(Event::Finish(Finish { reason, stop_sequence: None })));
        self.is_finished = true;
    }

    fn finish_state(&mut self, backend: BackendFinish) -> Rest {
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Prose => Rest::EndTags,
            State::Object(_) => Rest::Cut,
            State::Value(value) => {
                self.state = State::Value(value);
                self.settle_value();
                self.state = State::Prose;
                Rest::Cut
            }
            State::Tag(tag, Origin::Value(value)) => {
                if tag.is_close {
                    self.end_value(value);
                    return Rest::EndTags;
                }
                self.state = State::Value(value);
                self.settle_value();
                self.state = State::Prose;
                Rest::Cut
            }
            State::Tag(tag, origin) => self.finish_tag(&tag, origin, backend),
        }
    }

    /// A tag outside of values was cut.
    fn finish_tag(&mut self, tag: &Tag, origin: Origin, backend: BackendFinish) -> Rest {
        if self.invoke.is_some() {
            if tag.is_close {
                return Rest::EndTags;
            }
            if tag.may_be_parameter() {
                self.start_call();
                return Rest::Cut;
            }
        } else if tag.is_close {
            if self.is_undecided() && matches!(origin, Origin::Region) {
                self.commit();
            }
            return Rest::EndTags;
        } else if tag.word() == Word::Invoke && tag.has_quoted_name() && !self.holds_call_in_reasoning() {
            self.begin_invoke(tag, origin);
            self.start_call();
            return Rest::Cut;
        }
        if was_cut(backend) && tag.may_be_known() {
            if self.invoke.is_none() && self.is_undecided() {
                self.commit();
            }
        } else {
            self.refuse_tag(tag, origin);
        }
        Rest::EndTags
    }

    /// Ends the open call.
    fn finish_call(&mut self, rest: Rest, backend: BackendFinish) {
        let Some(invoke) = &self.invoke else { return };
        let is_call = invoke.started || invoke.is_unread();
        if is_call && rest == Rest::EndTags && backend == BackendFinish::Stop {
            self.end_invoke();
        } else if is_call && !self.holds_call_in_reasoning() {
            self.start_call();
            let reason = match backend {
                BackendFinish::ContentFilter => FinishReason::ContentFilter,
                _ => FinishReason::Length,
            };
            self.cut = Some(reason);
            if let Some(invoke) = self.invoke.take() {
                self.end_call(invoke.index, false);
            }
        }
    }

    fn finish_regions(&mut self, backend: BackendFinish) {
        while let Some(region) = self.regions.last() {
            let is_muted = self.invoke.as_ref().is_some_and(|invoke| invoke.is_muted() && !invoke.has_prose);
            let is_opener = self.invoke.is_none() && self.block == Block::Proper && !region.has_prose;
            let is_markup = match region.mode {
                Mode::Fence => !self.fence.ends_fence(),
                Mode::Start | Mode::Complete => is_muted || is_opener && was_cut(backend),
            };
            if is_markup {
                self.commit();
            } else {
                self.rollback(self.regions.len() - 1, 0);
            }
        }
    }

    /// Whether the answer stands in reasoning, in a call that is held.
    fn holds_call_in_reasoning(&self) -> bool {
        self.regions.last().is_some_and(|region| region.mode == Mode::Complete)
    }
}

/// Whether the backend ended the output before the model did.
fn was_cut(backend: BackendFinish) -> bool {
    matches!(backend, BackendFinish::Length | BackendFinish::ContentFilter)
}
