//! Jobs in a line, whose ids belong one behind the other, for several threads.
//!
//! The caller lets jobs in until some wait for every helper, and then does jobs until fewer are left. It takes the first one,
//! whose ids go where they belong if its turn has come, helpers the last: who does neighbours knows their words. What is found
//! before its turn waits for the caller to append it.
//!
//! Owns: the order of jobs, and how many wait. Must not know: what a job is, where it comes from.
//! Cost: what is found before its turn is copied once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Tokenizer;
use super::encode::Desk;

/// Jobs that are to wait for each helper, which does them while the caller makes others.
const AHEAD: usize = 2;
/// Ids for which there is room from the beginning: few jobs have more.
const ROOM: usize = 8 << 10;

/// Appends the ids of all jobs, with the help of other threads. `let_in` lets in some more, on this thread, and says whether
/// there are others; its first error ends all. `encode` appends the ids of one.
pub(super) fn encode<J: Send, E>(
    tokenizer: &Tokenizer,
    desk: &mut Desk,
    mut let_in: impl FnMut(&Line<J>) -> Result<bool, E>,
    encode: impl Fn(&J, &mut Desk, &mut Vec<u32>) + Sync,
    out: &mut Vec<u32>,
) -> Result<(), E> {
    let line = Line::new();
    let mut has_more = let_in(&line)?;
    let most = (tokenizer.threads - 1).min(line.waiting().saturating_sub(1));
    let vocabulary = Arc::clone(&tokenizer.vocabulary);
    // A new desk takes as long as many a text.
    let prepare = move || vocabulary.at_desk(|_| ());
    let help = || {
        tokenizer.vocabulary.at_desk(|desk| {
            while let Some((number, job)) = line.take_last() {
                line.find(number, job, |job, ids| encode(job, desk, ids));
            }
        });
    };
    tokenizer.vocabulary.helpers.invite(most, prepare, &help, || {
        let _end = End(&line);
        loop {
            while has_more && line.waiting() <= AHEAD * most {
                has_more = let_in(&line)?;
                line.changed.notify_all();
            }
            let Some((number, job)) = line.take_first() else { return Ok(()) };
            if line.append_found(out) == number {
                encode(&job, desk, out);
                let mut state = line.lock();
                state.appended += 1;
                state.done.push(job);
            } else {
                line.find(number, job, |job, ids| encode(job, desk, ids));
            }
        }
    })?;
    line.append_found(out);
    Ok(())
}

/// The jobs that wait, and the ids that do.
pub(super) struct Line<J> {
    state: Mutex<State<J>>,
    /// Jobs came, or none will.
    changed: Condvar,
}

struct State<J> {
    waiting: VecDeque<(usize, J)>,
    /// How many jobs were let in, and how many have their ids appended.
    count: usize,
    appended: usize,
    /// Ids whose turn has not come, by the number of their job.
    found: BTreeMap<usize, Vec<u32>>,
    /// Room for ids, and jobs that are done: memory that is at hand.
    spare: Vec<Vec<u32>>,
    done: Vec<J>,
    is_over: bool,
}

impl<J> Line<J> {
    fn new() -> Self {
        let (waiting, found) = (VecDeque::new(), BTreeMap::new());
        let state =
            State { waiting, count: 0, appended: 0, found, spare: Vec::new(), done: Vec::new(), is_over: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Lets in a job, behind all others.
    pub(super) fn push(&self, job: J) {
        let mut state = self.lock();
        let number = state.count;
        state.count += 1;
        state.waiting.push_back((number, job));
    }

    /// A job that is done, for another to be made of.
    pub(super) fn done(&self) -> Option<J> {
        self.lock().done.pop()
    }

    /// The first job and its number.
    fn take_first(&self) -> Option<(usize, J)> {
        self.lock().waiting.pop_front()
    }

    /// The last job and its number, waited for as long as there may be one.
    fn take_last(&self) -> Option<(usize, J)> {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.is_over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_back()
    }

    /// Keeps what `encode` finds until its turn comes.
    fn find(&self, number: usize, job: J, encode: impl FnOnce(&J, &mut Vec<u32>)) {
        let spare = self.lock().spare.pop();
        let mut ids = spare.unwrap_or_else(|| Vec::with_capacity(ROOM));
        encode(&job, &mut ids);
        let mut state = self.lock();
        state.found.insert(number, ids);
        state.done.push(job);
    }

    /// Appends what was found as far as its turn has come. How many jobs have their ids appended.
    fn append_found(&self, out: &mut Vec<u32>) -> usize {
        loop {
            let mut state = self.lock();
            let number = state.appended;
            let Some(mut ids) = state.found.remove(&number) else { return number };
            state.appended += 1;
            drop(state);
            out.append(&mut ids);
            self.lock().spare.push(ids);
        }
    }
}

/// Ends the line when the caller leaves it, also by an error or a panic.
struct End<'line, J>(&'line Line<J>);

impl<J> Drop for End<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting.clear();
        state.is_over = true;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread::{current, sleep};
    use std::time::Duration;

    use super::{Line, encode};
    use crate::model::Version;
    use crate::tokenizer::Tokenizer;

    fn pause() {
        sleep(Duration::from_millis(1));
    }

    /// What jobs append of which each appends its number, some sooner than others.
    fn encoded<E>(tokenizer: &Tokenizer, let_in: impl FnMut(&Line<u32>) -> Result<bool, E>) -> Result<Vec<u32>, E> {
        let mut out = Vec::new();
        let encode_one = |job: &u32, _: &mut _, ids: &mut Vec<u32>| {
            if current().name() == Some("recipe") || job.is_multiple_of(7) {
                pause();
            }
            ids.push(*job);
        };
        let result = tokenizer.vocabulary.at_desk(|desk| encode(tokenizer, desk, let_in, encode_one, &mut out));
        result.map(|()| out)
    }

    #[test]
    fn ids_are_in_the_order_of_the_jobs_however_these_come() {
        for threads in [1, 2, 3, 8] {
            let tokenizer = Version::V4.tokenizer().with_threads(threads);
            for (groups, size, is_slow) in [(0, 0, false), (1, 1, false), (1, 90, false), (90, 1, true), (30, 5, false)]
            {
                let mut group = 0;
                let let_in = |line: &Line<u32>| {
                    if is_slow {
                        pause();
                    }
                    (0..size).for_each(|place| line.push(group * size + place));
                    group += 1;
                    Ok::<_, Infallible>(group < groups)
                };
                let Ok(ids) = encoded(&tokenizer, let_in);
                assert!(ids.into_iter().eq(0..groups * size), "{threads} threads, {groups} groups of {size}");
            }
        }
    }

    #[test]
    fn an_error_or_a_panic_where_jobs_come_from_holds_nobody() {
        let tokenizer = Version::V4.tokenizer().with_threads(3);
        for panics in [false, true] {
            let mut calls = 0;
            let let_in = |line: &Line<u32>| {
                calls += 1;
                assert!(calls < 5 || !panics, "as asked");
                (0..8).for_each(|job| line.push(job));
                if calls < 5 { Ok(true) } else { Err("no more") }
            };
            let result = catch_unwind(AssertUnwindSafe(|| encoded(&tokenizer, let_in)));
            assert_eq!(result.ok(), if panics { None } else { Some(Err("no more")) });
        }
        let Ok(ids) = encoded(&tokenizer, |line| {
            line.push(0);
            Ok::<_, Infallible>(false)
        });
        assert_eq!(ids, [0]);
    }

    #[test]
    fn few_jobs_wait_at_a_time() {
        let tokenizer = Version::V4.tokenizer().with_threads(2);
        let (mut group, mut most) = (0, 0);
        let let_in = |line: &Line<u32>| {
            (0..4).for_each(|place| line.push(group * 4 + place));
            most = most.max(line.waiting());
            group += 1;
            Ok::<_, Infallible>(group < 50)
        };
        let Ok(ids) = encoded(&tokenizer, let_in);
        assert!(ids.len() == 200 && most <= super::AHEAD + 4, "{most} wait");
    }
}
