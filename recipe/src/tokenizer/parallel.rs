//! Texts that several threads encode together.
//!
//! Long texts are cut into parts, and neighbours become a job until it is large enough. The caller takes the first job that
//! is left, whose ids go where they belong, helpers the last; what these found is copied behind it in the end.
//!
//! Owns: what is a job, who takes it. Must not know: threads, how text is encoded.
//! Cost: what helpers find is copied once.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::borders::parts;
use super::encode::Desk;
use super::{Stretch, Tokenizer, stretches};

/// Bytes of text that are a job: so few that no thread waits long for the last one.
const JOB: usize = 16 << 10;
/// Bytes of text that are worth waking a helper for.
const ENOUGH: usize = 64 << 10;

/// Appends the ids of `stretches` with the help of other threads; if that is not worth their while, does nothing and says so.
pub(super) fn encode(tokenizer: &Tokenizer, desk: &mut Desk, stretches: &[Stretch<'_>], out: &mut Vec<u32>) -> bool {
    if tokenizer.threads == 1 || stretches.iter().map(Stretch::bytes).sum::<usize>() < ENOUGH {
        return false;
    }
    let pieces = pieces(stretches);
    let batch = Batch::new(tokenizer, &pieces);
    let most = (tokenizer.threads - 1).min(batch.jobs.len().saturating_sub(1));
    let vocabulary = Arc::clone(&tokenizer.vocabulary);
    // A new desk takes as long as many a text.
    let prepare = move || vocabulary.at_desk(|_| ());
    tokenizer.vocabulary.helpers.invite(most, prepare, &|| batch.help(), || {
        while let Some(job) = batch.left.take_first() {
            batch.run(job, desk, out);
        }
    });
    batch.append_found(out);
    true
}

/// Cuts long texts into parts.
fn pieces<'text>(stretches: &[Stretch<'text>]) -> Vec<Stretch<'text>> {
    let mut pieces = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        match *stretch {
            Stretch::Plain(text) => pieces.extend(parts(text, JOB).map(Stretch::Plain)),
            known => pieces.push(known),
        }
    }
    pieces
}

/// What several threads encode together.
struct Batch<'pieces, 'text> {
    tokenizer: &'pieces Tokenizer,
    jobs: Vec<&'pieces [Stretch<'text>]>,
    left: Left,
    found: Mutex<Vec<Found>>,
}

impl<'pieces, 'text> Batch<'pieces, 'text> {
    fn new(tokenizer: &'pieces Tokenizer, pieces: &'pieces [Stretch<'text>]) -> Self {
        let mut bytes = 0;
        let is_full = |piece: &Stretch<'_>| {
            bytes += piece.bytes();
            let is_full = bytes >= JOB;
            bytes = if is_full { 0 } else { bytes };
            is_full
        };
        let jobs: Vec<_> = pieces.split_inclusive(is_full).collect();
        let left = Left::new(jobs.len());
        Self { tokenizer, jobs, left, found: Mutex::default() }
    }

    /// Appends the ids of a job.
    fn run(&self, job: usize, desk: &mut Desk, out: &mut Vec<u32>) {
        stretches::encode(self.tokenizer, desk, self.jobs.get(job).copied().unwrap_or_default(), out);
    }

    /// Takes jobs as long as some are left.
    fn help(&self) {
        let mut found = Found::default();
        self.tokenizer.vocabulary.at_desk(|desk| {
            while let Some(job) = self.left.take_last() {
                let start = found.ids.len();
                self.run(job, desk, &mut found.ids);
                found.ranges.push((job, start..found.ids.len()));
            }
        });
        self.found().push(found);
    }

    fn found(&self) -> MutexGuard<'_, Vec<Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what helpers found.
    fn append_found(&self, out: &mut Vec<u32>) {
        let found = self.found();
        let mut all: Vec<(usize, &[u32])> = Vec::new();
        for Found { ids, ranges } in found.iter() {
            all.extend(ranges.iter().filter_map(|(job, range)| Some((*job, ids.get(range.clone())?))));
        }
        all.sort_unstable_by_key(|(job, _)| *job);
        out.reserve(all.iter().map(|(_, ids)| ids.len()).sum());
        for (_, ids) in all {
            out.extend_from_slice(ids);
        }
    }
}

/// What one helper found, and which job's ids are where.
#[derive(Default)]
struct Found {
    ids: Vec<u32>,
    ranges: Vec<(usize, Range<usize>)>,
}

/// Jobs that nobody has taken.
struct Left {
    count: usize,
    /// At both ends together, which bounds them.
    taken: AtomicUsize,
    first: AtomicUsize,
    last: AtomicUsize,
}

impl Left {
    fn new(count: usize) -> Self {
        Self { count, taken: AtomicUsize::new(0), first: AtomicUsize::new(0), last: AtomicUsize::new(count) }
    }

    /// Whether one is left, which then has to be taken at one end.
    fn take(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < self.count
    }

    fn take_first(&self) -> Option<usize> {
        self.take().then(|| self.first.fetch_add(1, Ordering::Relaxed))
    }

    fn take_last(&self) -> Option<usize> {
        self.take().then(|| self.last.fetch_sub(1, Ordering::Relaxed) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Stretch, encode, pieces};
    use crate::model::Version;

    fn plain(text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        Version::V4.tokenizer().encode_plain(text, &mut ids);
        ids
    }

    #[test]
    fn jobs_hold_everything_once_and_are_of_a_size() {
        let (long, short) = ("word ".repeat(50_000), "word ".repeat(100));
        let mut stretches = vec![Stretch::Ids(&[1, 2]), Stretch::Plain(&long), Stretch::Plain(""), Stretch::Ids(&[])];
        for id in 0..300 {
            stretches.extend([Stretch::Id(id), Stretch::Plain(&short)]);
        }
        let (tokenizer, pieces) = (Version::V4.tokenizer(), pieces(&stretches));
        let batch = Batch::new(&tokenizer, &pieces);
        assert!((20..30).contains(&batch.jobs.len()), "{} jobs", batch.jobs.len());
        let mut ids = Vec::new();
        tokenizer.vocabulary.at_desk(|desk| (0..batch.jobs.len()).for_each(|job| batch.run(job, desk, &mut ids)));
        let mut expected = vec![1, 2];
        expected.extend(plain(&long));
        for id in 0..300 {
            expected.push(id);
            expected.extend(plain(&short));
        }
        assert!(ids == expected);
    }

    #[test]
    fn few_bytes_or_one_thread_ask_nobody() {
        let (two, text) = (Version::V4.tokenizer().with_threads(2), "word ".repeat(20_000));
        let (mut out, long) = (Vec::new(), [Stretch::Plain(&text)]);
        two.vocabulary.at_desk(|desk| {
            assert!(!encode(&two, desk, &[Stretch::Plain(&text[..60_000])], &mut out) && out.is_empty());
            assert!(!encode(&two.with_threads(1), desk, &long, &mut out) && out.is_empty());
            assert!(encode(&two, desk, &long, &mut out) && out == plain(&text));
        });
    }
}
