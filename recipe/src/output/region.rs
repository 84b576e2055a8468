//! Markup that may still turn out to be text.
//!
//! Owns the stretch of output since a mark that is not decided: its bytes as they came, and beside them what they mean if
//! they are markup. On decision one of the two is dropped, so nothing is read twice but what becomes text. At most
//! [`START_LIMIT`] or [`HOLD_LIMIT`] bytes; regions lie at most two deep (markup inside a fenced block of calls).

use super::fence::FenceTracker;
use super::lexer::Broken;
use super::machine::{Block, Machine, Stage, State};
use super::run::Run;
use super::sink::Step;

/// Most bytes held before a call starts; past that they are text.
const START_LIMIT: usize = 1 << 17;
/// Most bytes of a held call, value or fenced block.
pub(super) const HOLD_LIMIT: usize = 1 << 20;

/// What decides a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In content: a call that starts.
    Start,
    /// In reasoning: a complete call.
    Complete,
    /// In a code fence: whether the fence is closed after it.
    Fence,
}

/// An undecided stretch.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) mode: Mode,
    pub(super) raw: Run,
    pub(super) side: Vec<Step>,
    pub(super) start: u64,
    /// Whether text stands in its block outside of calls.
    pub(super) has_prose: bool,
    mark_at: u64,
    stage: Stage,
    lead: bool,
    block: Block,
    calls: usize,
    fence: FenceTracker,
}

impl Region {
    /// Whether it began in an open fence.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.is_open()
    }

    pub(super) fn is_in_reasoning(&self) -> bool {
        self.stage == Stage::Reasoning
    }

    /// Whether a call was completed in it.
    pub(super) fn has_calls(&self, calls: usize) -> bool {
        calls > self.calls
    }
}

impl Machine {
    /// Whether what was read since the last mark may still be text, for want of a call.
    pub(super) fn is_undecided(&self) -> bool {
        self.regions.last().is_some_and(|region| region.mode != Mode::Fence)
    }

    /// Begins a region at a tag whose text so far is `tag`; the newlines before it belong to the region.
    pub(super) fn begin_region(&mut self, tag: &Run) {
        self.keep_broken_newline(|broken: Broken| broken.open);
        let mark_at = tag.ranges().next().map_or(self.cursor, |range| range.start);
        let mut raw = self.prose.take();
        raw.append(tag.clone());
        let start = raw.ranges().next().map_or(mark_at, |range| range.start);
        let mode = if self.is_reasoning() { Mode::Complete } else { Mode::Start };
        self.regions.push(Region {
            mode,
            raw,
            side: Vec::new(),
            start,
            has_prose: false,
            mark_at,
            stage: self.stage,
            lead: self.lead,
            block: self.block,
            calls: self.calls,
            fence: self.fence.clone(),
        });
        self.lead |= self.is_reasoning();
        self.stage = Stage::Content;
    }

    /// Notes bytes in all regions.
    pub(super) fn record(&mut self, bytes: &[u8], at: u64) {
        for region in &mut self.regions {
            region.raw.push(bytes, at);
        }
    }

    /// Takes back the last bytes noted: they are never shown.
    pub(super) fn unrecord(&mut self, count: usize) {
        for region in &mut self.regions {
            region.raw.truncate(region.raw.len() - count);
        }
    }

    /// The region is markup, or, inside a fence, will be if the fence is not closed.
    pub(super) fn accept(&mut self) {
        match self.regions.as_mut_slice() {
            [region] if region.is_fenced() => region.mode = Mode::Fence,
            [] => {}
            _ => self.commit(),
        }
    }

    /// The innermost region is markup.
    pub(super) fn commit(&mut self) {
        let Some(region) = self.regions.pop() else { return };
        if self.regions.is_empty() {
            self.restart_gate();
            if region.is_in_reasoning() {
                self.reasoning_end = Some(region.mark_at);
            }
        }
        for step in region.side {
            match step {
                Step::Text(run) => run.segments().for_each(|(bytes, at)| self.content(bytes, at)),
                step => self.push_step(step),
            }
        }
    }

    /// The regions from `level` on are text, but for the last `kept` bytes, which are read again.
    pub(super) fn rollback(&mut self, level: usize, kept: usize) {
        let Some(mut region) = self.regions.drain(level..).next() else { return };
        self.stage = region.stage;
        self.lead = region.lead;
        self.block = region.block;
        self.calls = region.calls;
        self.invoke = None;
        self.state = State::Prose;
        self.prose = super::prose::Prose::default();
        self.deferred.clear();
        region.raw.truncate(region.raw.len() - kept);
        if region.mode == Mode::Fence {
            // The fence was followed outside of values; their lines are none of its lines.
            let fence = std::mem::replace(&mut self.fence, FenceTracker::off());
            self.replay(&region.raw);
            self.fence = fence;
        } else {
            self.fence = region.fence;
            self.replay(&region.raw);
        }
    }

    /// Decides a region that grew too long.
    pub(super) fn limit_regions(&mut self) {
        let Some(region) = self.regions.first() else { return };
        let length = region.raw.len();
        let started = region.has_calls(self.calls);
        match region.mode {
            Mode::Start if length > START_LIMIT => self.rollback(0, 0),
            Mode::Complete if length > HOLD_LIMIT && !started => self.rollback(0, 0),
            Mode::Complete | Mode::Fence if length > HOLD_LIMIT => {
                self.fence.leave();
                let mut inner = self.regions.split_off(1);
                for region in &mut inner {
                    region.fence.leave();
                }
                self.commit();
                self.regions = inner;
            }
            _ => {}
        }
    }
}
