//! JSON mode: only the JSON value of an answer is shown.
//!
//! Owns the prose before the value (at most [`PROSE_LIMIT`] bytes; past that it is shown, and everything after it) and how
//! deep inside the value the answer stands. The value itself is neither checked nor changed. Constant cost per byte.

use super::run::Run;
use crate::json;

/// Most bytes of prose held back before a JSON value.
const PROSE_LIMIT: usize = 1 << 20;

const FENCE: &[u8] = b"```";
/// What ends a value in a code fence, whether it is whole or not: no JSON text may contain it outside a string.
const FENCE_LINE: &[u8] = b"\n```";

/// How far a JSON array or object has been read.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scanner {
    pub(super) fn is_in_string(&self) -> bool {
        self.in_string
    }

    /// Whether the next byte stands between members of the outermost value.
    pub(super) fn is_outermost(&self) -> bool {
        self.depth == 1 && !self.in_string
    }

    /// Takes one byte, the first being the opening bracket; true when the value is complete.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

#[derive(Debug)]
enum State {
    /// Before the value; `quoted` follows a string that the answer begins with, whose brackets open nothing.
    Before { prose: Run, quoted: Quoted },
    /// In the value; without a scanner where its first part stands in the prompt, so that its depth is not known.
    Inside { scanner: Option<Scanner>, fence: Run },
    /// After the value.
    After,
    /// No value came within the limit.
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Lead,
    Inside { escaped: bool },
    No,
}

/// A filter that the answer's text passes on its way out.
#[derive(Debug)]
pub(super) struct JsonMode {
    state: State,
}

impl JsonMode {
    /// `continued`: the value's first part stands in the prompt.
    pub(super) fn new(continued: bool) -> Self {
        let state = if continued {
            State::Inside { scanner: None, fence: Run::default() }
        } else {
            State::Before { prose: Run::default(), quoted: Quoted::Lead }
        };
        Self { state }
    }

    /// Whether the answer stands in the value, where markup is text and stop sequences count.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self.state, State::Inside { .. })
    }

    /// Takes text and appends to `out` what is shown of it.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64, out: &mut Run) {
        let mut place = 0;
        while place < bytes.len() {
            let (rest, here) = (&bytes[place..], at + place as u64);
            place += match &mut self.state {
                State::Before { .. } => self.before(rest, here, out),
                State::Inside { .. } => self.inside(rest, here, out),
                State::After => rest.len(),
                State::Plain => {
                    out.push(rest, here);
                    rest.len()
                }
            };
        }
    }

    /// A call begins: prose before it is no preface of a value.
    pub(super) fn release_prose(&mut self) -> Run {
        match &mut self.state {
            State::Before { prose, quoted } => {
                *quoted = Quoted::Lead;
                std::mem::take(prose)
            }
            _ => Run::default(),
        }
    }

    /// What is held back.
    pub(super) fn held(&self) -> Option<&Run> {
        match &self.state {
            State::Before { prose: held, .. } | State::Inside { fence: held, .. } => Some(held),
            State::After | State::Plain => None,
        }
    }

    /// The output ends.
    pub(super) fn finish(&mut self) -> Run {
        match std::mem::replace(&mut self.state, State::After) {
            State::Before { prose, .. } => shown_without_value(prose),
            State::Inside { fence, .. } => fence,
            State::After | State::Plain => Run::default(),
        }
    }

    /// Takes prose up to the value's opening bracket.
    fn before(&mut self, bytes: &[u8], at: u64, out: &mut Run) -> usize {
        let State::Before { prose, quoted } = &mut self.state else { return 0 };
        let room = PROSE_LIMIT - prose.len();
        for (place, &byte) in bytes.iter().take(room + 1).enumerate() {
            *quoted = match (*quoted, byte) {
                (Quoted::Lead, b' ' | b'\n' | b'\r' | b'\t') => Quoted::Lead,
                (Quoted::Lead, b'"') | (Quoted::Inside { escaped: true }, _) => Quoted::Inside { escaped: false },
                (Quoted::Inside { .. }, b'"') => Quoted::No,
                (Quoted::Inside { .. }, _) => Quoted::Inside { escaped: byte == b'\\' },
                (_, b'{' | b'[') => {
                    self.state = State::Inside { scanner: Some(Scanner::default()), fence: Run::default() };
                    return place;
                }
                _ => Quoted::No,
            };
        }
        prose.push(bytes, at);
        if prose.len() > PROSE_LIMIT {
            out.append(std::mem::take(prose));
            self.state = State::Plain;
        }
        bytes.len()
    }

    /// Takes the value up to its end.
    fn inside(&mut self, bytes: &[u8], at: u64, out: &mut Run) -> usize {
        let State::Inside { scanner, fence } = &mut self.state else { return 0 };
        for (place, &byte) in bytes.iter().enumerate() {
            let here = at + place as u64;
            let in_string = scanner.as_ref().is_some_and(|scanner| scanner.in_string);
            if !in_string && (byte == b'\n' || !fence.is_empty()) {
                if byte != FENCE_LINE[fence.len()] {
                    out.append(std::mem::take(fence));
                }
                if byte == FENCE_LINE[fence.len()] {
                    fence.push(&[byte], here);
                    if fence.len() == FENCE_LINE.len() {
                        self.state = State::After;
                        return place + 1;
                    }
                    continue;
                }
            }
            out.push(&[byte], here);
            if scanner.as_mut().is_some_and(|scanner| scanner.step(byte)) {
                self.state = State::After;
                return place + 1;
            }
        }
        bytes.len()
    }
}

/// An answer without an array or object: the content of its code fence, if that is all there is to it or if it is JSON,
/// else all of it.
fn shown_without_value(mut prose: Run) -> Run {
    let text = prose.bytes();
    let fence = find(text, FENCE).filter(|&place| place == 0 || text[place - 1] == b'\n');
    let Some(fence) = fence else { return prose };
    let start = text[fence..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |line| fence + line + 1);
    let inner = &text[start..];
    let length = match find(inner, FENCE_LINE) {
        Some(end) => end,
        None if inner.starts_with(FENCE) => 0,
        None => inner.len(),
    };
    let is_first = text[..fence].iter().all(u8::is_ascii_whitespace);
    if is_first || json::parse(&inner[..length]).is_ok() {
        prose.truncate(start + length);
        prose.move_front(start, &mut Run::default());
    }
    prose
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
