//! Texts that several threads encode together.
//!
//! Long texts are cut into parts, and neighbours become a job until it is large enough.
//!
//! Owns: what is a job. Must not know: threads, how text is encoded.

use std::convert::Infallible;

use super::borders::parts;
use super::encode::Desk;
use super::{Stretch, Tokenizer, line, stretches};

/// Bytes of text that are a job: so few that no thread waits long for the last one.
pub(super) const JOB: usize = 16 << 10;
/// Bytes of text that are worth waking a helper for.
pub(super) const ENOUGH: usize = 64 << 10;

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
    let let_in = |line: &line::Line<_>| -> Result<bool, Infallible> {
        jobs(&pieces).for_each(|job| line.push(job));
        Ok(false)
    };
    let encode = |job: &&[Stretch<'_>], desk: &mut Desk, ids: &mut Vec<u32>| {
        stretches::encode(tokenizer, desk, job.iter().copied(), ids);
    };
    let Ok(()) = line::encode(tokenizer, desk, let_in, encode, out);
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

/// Neighbours that are a job together.
fn jobs<'pieces, 'text>(pieces: &'pieces [Stretch<'text>]) -> impl Iterator<Item = &'pieces [Stretch<'text>]> {
    let mut bytes = 0;
    pieces.split_inclusive(move |piece| {
        bytes += piece.bytes();
        let is_full = bytes >= JOB;
        bytes = if is_full { 0 } else { bytes };
        is_full
    })
}

#[cfg(test)]
mod tests {
    use super::{Stretch, encode, is_worthwhile, jobs, pieces, wholes};
    use crate::model::Version;
    use crate::tokenizer::tests::plain;
    use crate::tokenizer::{Insert, Woven, stretches};

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
        let jobs: Vec<_> = jobs(&pieces).collect();
        assert!((35..45).contains(&jobs.len()), "{} jobs", jobs.len());
        let mut ids = Vec::new();
        tokenizer.vocabulary.at_desk(|desk| {
            for job in jobs {
                stretches::encode(&tokenizer, desk, job.iter().copied(), &mut ids);
            }
        });
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
