//! Text between tags: reasoning, answer, and what stands between the tags of a block.
//!
//! Owns the run of newlines that disappears if a mark follows (a counter, however long it is) and, after a tag inside a
//! block, the white space that disappears if another tag follows.

use super::lexer::Broken;
use super::machine::{Block, Machine, Stage};
use super::region::{Mode, Region};
use super::run::Run;

const NEWLINES: [u8; 64] = [b'\n'; 64];
/// Most bytes of white space held between two tags of a block; more is shown.
const BLANK_LIMIT: usize = 1 << 16;

/// What is undecided between tags.
#[derive(Debug, Default)]
pub(super) struct Prose {
    /// White space since the last tag, up to the newlines.
    pub(super) blank: Run,
    pub(super) newlines: usize,
    pub(super) newline_at: u64,
    /// The marks that the first of the newlines broke off.
    broken: Broken,
    /// Whether only white space was seen since the last tag.
    pub(super) is_fresh: bool,
}

impl Prose {
    pub(super) fn new(is_fresh: bool) -> Self {
        Self { is_fresh, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blank.is_empty() && self.newlines == 0
    }

    /// Takes everything undecided.
    pub(super) fn take(&mut self) -> Run {
        let mut run = std::mem::take(&mut self.blank);
        run.push_newlines(self.newlines, self.newline_at);
        self.newlines = 0;
        run
    }

    /// A mark that disappears stands here; the newlines before it stay undecided.
    pub(super) fn pass_mark(&mut self) {
        self.blank.push_newlines(self.newlines, self.newline_at);
        self.newlines = 0;
    }

    fn newline(&mut self, broken: Broken, at: u64) {
        if self.newlines == 0 {
            self.broken = broken;
            self.newline_at = at;
        }
        self.newlines += 1;
    }

    fn hold(&mut self, byte: &[u8], at: u64) {
        self.pass_mark();
        self.blank.push(byte, at);
    }

    /// Takes the newline that does not count as standing before the mark that broke off, if there is one.
    fn take_broken(&mut self, is_broken: impl Fn(Broken) -> bool) -> Option<u64> {
        if self.newlines == 0 || !is_broken(self.broken) {
            return None;
        }
        self.newlines -= 1;
        self.newline_at += 1;
        self.broken = Broken::default();
        Some(self.newline_at - 1)
    }
}

impl Machine {
    /// How many of `bytes` are taken at once: a newline, a byte that must be looked at, or a stretch of plain text.
    pub(super) fn prose_span(&self, bytes: &[u8]) -> usize {
        if self.prose.is_fresh {
            return 1;
        }
        bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len()).max(1)
    }

    /// Takes text between tags.
    pub(super) fn prose_text(&mut self, bytes: &[u8], at: u64) {
        if bytes == b"\n" {
            return self.prose_newline(at);
        }
        if self.prose.is_fresh {
            if self.block != Block::None && matches!(bytes, b" " | b"\t" | b"\r") {
                self.prose.hold(bytes, at);
                if self.prose.blank.len() > BLANK_LIMIT {
                    self.flush_prose();
                }
                return;
            }
            if bytes == b"{" && self.invoke.as_ref().is_some_and(super::calls::Invoke::is_unread) {
                return self.begin_object(bytes, at);
            }
            if self.refuses_prose() {
                return self.rollback(self.regions.len() - 1, self.kept);
            }
        }
        self.lead = false;
        self.flush_prose();
        self.note_prose();
        self.fence.text(bytes);
        self.emit(bytes, at);
    }

    /// Sends on the newlines and white space that no tag follows.
    pub(super) fn flush_prose(&mut self) {
        if !self.prose.blank.is_empty() {
            let blank = std::mem::take(&mut self.prose.blank);
            for (bytes, at) in blank.segments() {
                self.emit(bytes, at);
            }
        }
        let mut at = self.prose.newline_at;
        while self.prose.newlines > 0 {
            let count = self.prose.newlines.min(NEWLINES.len());
            self.prose.newlines -= count;
            self.emit(&NEWLINES[..count], at);
            at += count as u64;
        }
    }

    /// A mark follows: newlines before it are no text, except one that broke off the start of such a mark.
    pub(super) fn keep_broken_newline(&mut self, is_broken: impl Fn(Broken) -> bool) {
        if let Some(at) = self.prose.take_broken(is_broken) {
            self.emit(b"\n", at);
        }
    }

    /// A tag ends here. Newlines after an opening tag are dropped if they would begin the answer.
    pub(super) fn after_tag(&mut self) {
        self.prose.take();
        self.prose.is_fresh = true;
        self.fence.interrupt();
        if self.regions.is_empty() {
            self.restart_gate();
        }
    }

    fn prose_newline(&mut self, at: u64) {
        if self.lead && self.prose.is_empty() {
            if self.regions.is_empty() {
                self.restart_gate();
            }
            return;
        }
        let closes = self.fence.newline();
        if closes && self.regions.first().is_some_and(Region::is_fenced) {
            return self.rollback(0, self.kept);
        }
        self.prose.newline(self.broken, at);
    }

    /// Whether prose here shows that the markup before it is none.
    fn refuses_prose(&self) -> bool {
        let Some(region) = self.regions.last() else { return false };
        match region.mode {
            Mode::Start => self.block == Block::Misspelt && self.invoke.is_none(),
            Mode::Complete => self.invoke.as_ref().is_none_or(|invoke| !invoke.started),
            Mode::Fence => false,
        }
    }

    fn note_prose(&mut self) {
        self.prose.is_fresh = false;
        if let Some(invoke) = &mut self.invoke {
            invoke.has_prose = true;
        } else if let Some(region) = self.regions.last_mut() {
            region.has_prose = true;
        }
    }

    /// Whether the answer stands in reasoning.
    pub(super) fn is_reasoning(&self) -> bool {
        self.stage == Stage::Reasoning
    }
}
