//! Code fences in the answer's text, line by line.
//!
//! Owns which fence is open and how far the current line may still be a fence line. Knows nothing of markup: it is shown
//! only the text between it. Constant cost per line start, nothing for the rest of a line.

/// How a line began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Line {
    /// Nothing but at most three spaces.
    Start { indent: u8 },
    /// A row of fence characters.
    Row { mark: u8, count: usize },
    /// A row, then nothing but white space.
    Tail { mark: u8, count: usize },
    /// A row, then the name of a language.
    Info { mark: u8, count: usize },
    /// Anything else.
    #[default]
    Other,
}

/// Follows the fences.
#[derive(Debug, Clone)]
pub(super) struct FenceTracker {
    line: Line,
    open: Option<(u8, usize)>,
    off: bool,
}

impl FenceTracker {
    /// A tracker at the start of a line.
    pub(super) fn new() -> Self {
        Self { line: Line::Start { indent: 0 }, open: None, off: false }
    }

    /// A tracker that sees no fences.
    pub(super) fn off() -> Self {
        Self { line: Line::Other, open: None, off: true }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Forgets the open fence.
    pub(super) fn leave(&mut self) {
        self.open = None;
    }

    /// A new text begins.
    pub(super) fn restart(&mut self) {
        self.open = None;
        self.line = if self.off { Line::Other } else { Line::Start { indent: 0 } };
    }

    /// Notes that markup stood here.
    pub(super) fn interrupt(&mut self) {
        self.line = Line::Other;
    }

    /// Follows text without newlines.
    pub(super) fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if self.line == Line::Other {
                return;
            }
            self.line = self.within_line(byte);
        }
    }

    /// Follows a newline; true if the line that ends here closes the fence.
    pub(super) fn newline(&mut self) -> bool {
        if self.off {
            return false;
        }
        let closes = self.ends_fence();
        if closes {
            self.open = None;
        } else if let (None, Line::Row { mark, count } | Line::Tail { mark, count } | Line::Info { mark, count }) =
            (self.open, self.line)
            && count >= 3
        {
            self.open = Some((mark, count));
        }
        self.line = Line::Start { indent: 0 };
        closes
    }

    /// Whether the current line closes the fence, if it ends here.
    pub(super) fn ends_fence(&self) -> bool {
        match (self.open, self.line) {
            (Some((open, width)), Line::Row { mark, count } | Line::Tail { mark, count }) => {
                mark == open && count >= width
            }
            _ => false,
        }
    }

    fn within_line(&self, byte: u8) -> Line {
        match (self.line, byte) {
            (Line::Start { indent }, b' ') if indent < 3 => Line::Start { indent: indent + 1 },
            (Line::Start { .. }, b'`' | b'~') => Line::Row { mark: byte, count: 1 },
            (Line::Row { mark, count }, _) if byte == mark => Line::Row { mark, count: count + 1 },
            (Line::Row { mark, count } | Line::Tail { mark, count }, b' ' | b'\t' | b'\r') if count >= 3 => {
                Line::Tail { mark, count }
            }
            (Line::Info { mark: b'`', .. } | Line::Row { .. } | Line::Tail { .. }, b'`') => Line::Other,
            (Line::Row { mark, count } | Line::Tail { mark, count } | Line::Info { mark, count }, _)
                if count >= 3 && self.open.is_none() =>
            {
                Line::Info { mark, count }
            }
            _ => Line::Other,
        }
    }
}
