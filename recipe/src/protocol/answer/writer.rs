//! What every protocol's writer can do.
//!
//! A writer owns what only its protocol counts (block indexes, item ids, sequence numbers) and prints; what was said
//! stands in the [`Fold`] that it is shown.

use super::fold::Fold;
use super::usage::Usage;
use crate::error::Error;
use crate::event::{Event, Finish};

/// One of an answer's choices.
#[derive(Clone, Copy)]
pub(in crate::protocol) struct Choice<'a> {
    /// Its number.
    pub(in crate::protocol) index: usize,
    /// What it said, the event being written included.
    pub(in crate::protocol) fold: &'a Fold,
}

/// An answer as a whole.
#[derive(Clone, Copy)]
pub(in crate::protocol) struct Answer<'a> {
    /// All choices. Empty before the start.
    pub(in crate::protocol) folds: &'a [Fold],
    /// What it cost so far.
    pub(in crate::protocol) usage: Usage,
    /// Time of the last event, in seconds.
    pub(in crate::protocol) time: u64,
    /// What broke it off.
    pub(in crate::protocol) failure: Option<&'a Error>,
}

impl Answer<'_> {
    /// Whether nothing more follows.
    pub(in crate::protocol) fn ended(self) -> bool {
        let finished = !self.folds.is_empty() && self.folds.iter().all(|fold| fold.finish().is_some());
        finished || self.failure.is_some()
    }
}

/// Prints one answer in one protocol.
pub(in crate::protocol) trait Writer: std::fmt::Debug + Send + Sync {
    /// Whether a thinking answer shows a block of reasoning even if it is empty.
    fn opens_with_reasoning(&self) -> bool {
        false
    }

    /// The frames before any event. `fingerprint` names the backend's configuration.
    fn start(&mut self, answer: Answer<'_>, fingerprint: Option<&str>, out: &mut String);

    /// The frames of an event that is not the last of its choice.
    fn event(&mut self, event: &Event, choice: Choice<'_>, out: &mut String);

    /// The frames of the last event of a choice, and of the answer when no other choice goes on.
    fn finish(&mut self, finish: &Finish, choice: Choice<'_>, answer: Answer<'_>, out: &mut String);

    /// The frames that end a stream which cannot go on.
    fn fail(&mut self, error: &Error, answer: Answer<'_>, out: &mut String);

    /// A frame that only keeps the connection alive, in a stream that has started.
    fn keep_alive(&self, out: &mut String);

    /// The body of the response that is not streamed.
    fn response(&self, answer: Answer<'_>, out: &mut String);
}
