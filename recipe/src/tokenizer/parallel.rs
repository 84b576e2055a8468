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

/// Whether `bytes` of text are worth the while of other threads, if there are any.
pub(super) fn is_worthwhile(tokenizer: &Tokenizer, bytes: usize) -> bool {
    tokenizer.threads > 1 && bytes >= ENOUGH
}

/// Appends the ids of `stretches` with the help of other threads.
pub(super) fn encode<'text>(
    tokenizer: &Tokenizer,
    desk: &mut Desk,
    stretches: impl Iterator<Item = Stretch<'text>> + Clone,
    out: &mut Vec<u32>,
) {
    let wholes = wholes(stretches.clone());
    let pieces = pieces(stretches, &wholes);
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
}

/// What is woven and too long for one job, whole; empty for all else.
fn wholes<'text>(stretches: impl Iterator<Item = Stretch<'text>>) -> Vec<String> {
    let whole = |stretch| match stretch {
        Stretch::Text(text, _) if text.plain().is_none() && text.len() > JOB => text.pieces().collect(),
        _ => String::new(),
    };
    stretches.map(whole).collect()
}

/// Cuts long texts into parts.
fn pieces<'whole, 'text: 'whole>(
    stretches: impl Iterator<Item = Stretch<'text>>,
    wholes: &'whole [String],
) -> Vec<Stretch<'whole>> {
    let mut pieces = Vec::with_capacity(wholes.len());
    for (stretch, whole) in stretches.zip(wholes) {
        match stretch {
            Stretch::Text(text, id) if text.len() > JOB => {
                let parts = parts(text.plain().unwrap_or(whole), JOB);
                pieces.extend(parts.map(|part| Stretch::Text(part.into(), None)));
                if let Some(Stretch::Text(_, behind)) = pieces.last_mut() {
                    *behind = id;
                }
            }
            short => pieces.push(short),
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
        let job = self.jobs.get(job).copied().unwrap_or_default();
        stretches::encode(self.tokenizer, desk, job.iter().copied(), out);
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
    use super::{Batch, Stretch, encode, is_worthwhile, pieces, wholes};
    use crate::model::Version;
    use crate::tokenizer::tests::plain;
    use crate::tokenizer::{Insert, Woven};

    #[test]
    fn jobs_hold_everything_once_and_are_of_a_size() {
        let (long, short) = ("word ".repeat(50_000), "word ".repeat(100));
        let [long_insert, short_insert] = [&*long, &short].map(|text| [Insert { after: 1, text }]);
        let mut stretches = vec![Stretch::Ids(&[1, 2], None), Stretch::Text((&*long).into(), Some(3))];
        stretches.extend([Stretch::Text("".into(), None), Stretch::Ids(&[], Some(4))]);
        stretches.push(Stretch::Text(Woven::new("<>", &long_insert), None));
        for id in 0..300 {
            let text = if id % 2 == 0 { (&*short).into() } else { Woven::new("<>", &short_insert) };
            stretches.push(Stretch::Text(text, Some(id)));
        }
        let wholes = wholes(stretches.iter().copied());
        let (tokenizer, pieces) = (Version::V4.tokenizer(), pieces(stretches.into_iter(), &wholes));
        let batch = Batch::new(&tokenizer, &pieces);
        assert!((35..45).contains(&batch.jobs.len()), "{} jobs", batch.jobs.len());
        let mut ids = Vec::new();
        tokenizer.vocabulary.at_desk(|desk| (0..batch.jobs.len()).for_each(|job| batch.run(job, desk, &mut ids)));
        let mut expected = vec![1, 2];
        expected.extend(plain(&tokenizer, &long));
        expected.extend([3, 4]);
        expected.extend(plain(&tokenizer, &format!("<{long}>")));
        for id in 0..300 {
            expected.extend(plain(&tokenizer, &if id % 2 == 0 { short.clone() } else { format!("<{short}>") }));
            expected.push(id);
        }
        assert!(ids == expected);
    }

    #[test]
    fn few_bytes_or_one_thread_ask_nobody() {
        let (two, text) = (Version::V4.tokenizer().with_threads(2), "word ".repeat(20_000));
        assert!(!is_worthwhile(&two, 60_000) && !is_worthwhile(&two.with_threads(1), text.len()));
        assert!(is_worthwhile(&two, text.len()));
        let mut out = Vec::new();
        two.vocabulary.at_desk(|desk| encode(&two, desk, [Stretch::Text((&*text).into(), None)].into_iter(), &mut out));
        assert!(out == plain(&Version::V4.tokenizer(), &text));
    }
}
