//! The way out: where text goes once it is known to be text, and the steps it leaves as.
//!
//! Owns the form of the steps. Text of a region goes to the region; text of the answer goes through the filters of JSON mode
//! and stop sequences. Nothing leaves after a stop sequence was met.

use super::machine::{Machine, Stage};
use super::run::Run;
use crate::event::{Event, Finish, FinishReason};

/// One step of the answer, its text still in bytes.
#[derive(Debug)]
pub(super) enum Step {
    Reasoning(Run),
    Text(Run),
    Arguments { index: usize, fragment: String },
    Event(Event),
}

impl Machine {
    /// Sends text on to where this stage's text goes.
    pub(super) fn emit(&mut self, bytes: &[u8], at: u64) {
        if self.stage == Stage::Reasoning {
            if !self.is_finished {
                reasoning_run(&mut self.steps, &mut self.spare).push(bytes, at);
            }
        } else if self.invoke.as_ref().is_some_and(|invoke| invoke.started) {
            self.deferred.push(bytes, at);
        } else {
            self.content(bytes, at);
        }
    }

    /// Sends on text of the answer.
    pub(super) fn content(&mut self, bytes: &[u8], at: u64) {
        if let Some(region) = self.regions.last_mut() {
            return text_run(&mut region.side, &mut String::new()).push(bytes, at);
        }
        if self.is_finished {
            return;
        }
        let Some(json) = &mut self.json else { return self.show(bytes, at) };
        let mut value = Run::default();
        json.push(bytes, at, &mut value);
        for (bytes, at) in value.segments() {
            self.show(bytes, at);
        }
    }

    /// Appends a step that is no text.
    pub(super) fn push_step(&mut self, step: Step) {
        if let Some(region) = self.regions.last_mut() {
            return append_step(&mut region.side, step);
        }
        if self.is_finished {
            return;
        }
        self.restart_gate();
        if let Some(json) = &mut self.json {
            let prose = json.release_prose();
            append_text(&mut self.steps, prose);
        }
        append_step(&mut self.steps, step);
    }

    /// Lets go of what might have begun a stop sequence.
    pub(super) fn restart_gate(&mut self) {
        if !self.gate.is_open() && !self.is_finished {
            let held = self.gate.restart();
            append_text(&mut self.steps, held);
        }
    }

    fn show(&mut self, bytes: &[u8], at: u64) {
        if self.is_finished {
            return;
        }
        let Some(sequence) = self.gate.push(bytes, at, text_run(&mut self.steps, &mut self.spare)) else { return };
        let finish = match self.cut {
            Some(reason) => Finish { reason, stop_sequence: None },
            None if self.calls > 0 => {
                Finish { reason: FinishReason::ToolCalls, stop_sequence: Some(sequence.to_owned()) }
            }
            None => Finish { reason: FinishReason::Stop, stop_sequence: Some(sequence.to_owned()) },
        };
        self.steps.push(Step::Event(Event::Finish(finish)));
        self.is_finished = true;
    }
}

/// The text at the end of `steps`; a new one takes the memory of `spare`.
fn text_run<'s>(steps: &'s mut Vec<Step>, spare: &mut String) -> &'s mut Run {
    if !matches!(steps.last(), Some(Step::Text(_))) {
        steps.push(Step::Text(Run::with_memory(std::mem::take(spare))));
    }
    match steps.last_mut() {
        Some(Step::Text(run)) => run,
        _ => unreachable!("a text was just pushed"),
    }
}

/// Appends text that may be empty.
pub(super) fn append_text(steps: &mut Vec<Step>, run: Run) {
    if !run.is_empty() {
        text_run(steps, &mut String::new()).append(run);
    }
}

fn reasoning_run<'s>(steps: &'s mut Vec<Step>, spare: &mut String) -> &'s mut Run {
    if !matches!(steps.last(), Some(Step::Reasoning(_))) {
        steps.push(Step::Reasoning(Run::with_memory(std::mem::take(spare))));
    }
    match steps.last_mut() {
        Some(Step::Reasoning(run)) => run,
        _ => unreachable!("reasoning was just pushed"),
    }
}

fn append_step(steps: &mut Vec<Step>, step: Step) {
    if let Step::Arguments { index, fragment } = &step
        && let Some(Step::Arguments { index: last, fragment: before }) = steps.last_mut()
        && index == last
    {
        before.push_str(fragment);
        return;
    }
    steps.push(step);
}
