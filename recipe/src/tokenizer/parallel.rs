//! Work that several threads share, and where a text may be cut for it.
//!
//! Owns: how jobs are handed out and where borders are safe. Must not know: what a job does.
//! Cost: threads are started for each call, some ten microseconds each, and the caller is one of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::character_classes::{HAN_OR_KANA, class_of};

/// Bytes of text that are a job.
pub(crate) const JOB: usize = 64 << 10;

/// Runs the jobs `0..count` on `threads` threads and gives their results in order. One that is free takes the next job.
pub(crate) fn in_order<T: Send + Sync>(threads: usize, count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(job) else { return };
            // A job is handed out once, so nobody else has set it.
            let _ = result.set(run(job));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Cuts `text` into parts of about [`JOB`] bytes at borders that pre-tokens never cross.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::with_capacity(text.len() / JOB + 1);
    let mut rest = text;
    while rest.len() > 2 * JOB {
        let Some((part, beyond)) = border(rest, JOB).and_then(|at| rest.split_at_checked(at)) else { break };
        parts.push(part);
        rest = beyond;
    }
    parts.push(rest);
    parts
}

/// The first safe border after `from`: before a space that follows an ASCII letter, before an ASCII letter that follows a
/// line feed, or between Han or kana and another character. A pre-token that holds an ASCII letter ends before white
/// space; none holds a line feed and a letter behind it; runs of Han and kana are pieces of their own.
fn border(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at))?;
    let mut before = text.get(..from)?.chars().next_back()?;
    for (offset, after) in text.get(from..)?.char_indices() {
        let at = from + offset;
        let han = |character: char| class_of(u32::from(character)) & HAN_OR_KANA != 0;
        let safe = match (before, after) {
            ('a'..='z' | 'A'..='Z', ' ') | ('\n', 'a'..='z' | 'A'..='Z') => true,
            (before, after) => (!before.is_ascii() || !after.is_ascii()) && han(before) != han(after),
        };
        if safe && at < bytes.len() {
            return Some(at);
        }
        before = after;
    }
    None
}
