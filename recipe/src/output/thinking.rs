//! Where reasoning ends.
//!
//! Owns no state of its own. Reasoning ends at its mark, or at a complete call (see `region`).

use super::lexer::{Broken, Mark};
use super::machine::{Handled, Machine, Stage};
use super::region::{Mode, Region};

impl Machine {
    /// The end mark of thinking, outside of values; `length` bytes were recorded of it.
    pub(super) fn end_thinking(&mut self, length: usize) -> Handled {
        if self.holds_reasoning() {
            self.decide_reasoning(length);
            return Handled::Again;
        }
        if self.is_reasoning() {
            self.keep_broken_newline(|broken: Broken| broken.thinking_end);
            self.prose.take();
            self.stage = Stage::Content;
            self.lead = true;
            self.fence.restart();
            self.reasoning_end = Some(self.cursor + length as u64);
        } else {
            if self.prose.is_fresh {
                // It stands between a tag and what follows: whether the newlines before it are shown, that decides.
                self.prose.pass_mark();
            } else {
                self.flush_prose();
            }
            if self.regions.is_empty() {
                self.restart_gate();
            }
            self.lead = false;
        }
        Handled::Done
    }

    /// Takes back a mark of `length` bytes that was recorded: if what is held turns out to be text, the mark is none of it.
    pub(super) fn forget_thinking_mark(&mut self, mark: Mark, length: usize) {
        if mark == Mark::ThinkingEnd || mark == Mark::ThinkingStart && self.holds_reasoning() {
            self.unrecord(length);
        }
    }

    /// Whether reasoning is held that may be a call.
    pub(super) fn holds_reasoning(&self) -> bool {
        self.regions.first().is_some_and(Region::is_in_reasoning)
    }

    /// Reasoning ends while a call in it is held: the call counts only if it is complete.
    fn decide_reasoning(&mut self, length: usize) {
        if self.regions.len() > 1 {
            self.rollback(1, length);
        }
        let held = self.regions.first();
        let is_call = held.is_some_and(|region| region.mode == Mode::Fence && region.has_calls(self.calls));
        if is_call && self.invoke.is_none() {
            self.fence.leave();
            self.commit();
        } else {
            self.rollback(0, length);
        }
    }
}
