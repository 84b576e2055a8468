//! Threads that help with long texts.
//!
//! A caller invites helpers and does the work itself at the same time. It waits for those alone that came, never for one
//! that has yet to wake, so that it is never slower than on its own for long, and needs no helper to end: not when none
//! could be started, and not in the child of a fork, which has none of its parent's threads.
//!
//! Owns: the threads, and what they are invited to. Must not know: what work is.
//! Cost: a thread is started when it is first wanted and stays; there are never more than one caller has asked for. Waking
//! takes some ten microseconds, in which the caller is at work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread;

use crate::fork::{self, Lock};

/// How often a thread looks for a change before it sleeps: some fifty microseconds, about what falling asleep and waking
/// take.
const LOOKS: usize = 2000;

/// What helpers are invited to. It returns when nothing is left to be done.
type Work<'work> = &'work (dyn Fn() + Sync);

/// Threads of which each helps one caller at a time.
#[derive(Default)]
pub(super) struct Helpers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Lock<State>,
    /// Counts invitations and departures, for those that wait awake.
    changes: AtomicU64,
    invited: Condvar,
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// The process to which all that follows belongs.
    process: u32,
    helpers: usize,
    invitations: Vec<Invitation>,
    /// How many invitations there were.
    count: u64,
    is_over: bool,
}

struct Invitation {
    number: u64,
    work: Work<'static>,
    /// How many more may come.
    places: usize,
    present: usize,
    has_panicked: bool,
}

impl Helpers {
    /// Runs `own` here and `work` on up to `most` other threads at the same time, as many as are free to come. Gives what
    /// `own` gives when all that came are done; panics when one of them did. A new thread runs `prepare` before it comes, for
    /// which nobody waits.
    pub(super) fn invite<R>(
        &self,
        most: usize,
        prepare: impl FnOnce() + Clone + Send + 'static,
        work: Work<'_>,
        own: impl FnOnce() -> R,
    ) -> R {
        #[expect(
            unsafe_code,
            reason = "threads that stay know of no lifetime; a copy of a long text takes a fifth of the time"
        )]
        // SAFETY: only the lifetime changes. A helper runs `work` while it is present at its invitation and does not touch it
        // afterwards. `Host` takes the invitation back and waits until nobody is present; it does so before this function
        // ends, also by a panic, as it is dropped here.
        let work = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        let announced = if most > 0 { self.announce(most, prepare, work) } else { None };
        let host = announced.map(|number| Host { shared: &self.0, number });
        let result = own();
        let has_panicked = host.is_some_and(|host| host.take_back());
        assert!(!has_panicked, "a helper panicked");
        result
    }

    /// Lets up to `most` helpers come. The number of the invitation, or nothing when that cannot be now.
    fn announce(
        &self,
        most: usize,
        prepare: impl FnOnce() + Clone + Send + 'static,
        work: Work<'static>,
    ) -> Option<u64> {
        let mut state = self.0.state.hold()?;
        let process = fork::process();
        if state.process != process {
            *state = State { process, ..State::default() };
        }
        while state.helpers < most {
            let (shared, prepare) = (Arc::clone(&self.0), prepare.clone());
            let life = move || {
                prepare();
                shared.help();
            };
            if thread::Builder::new().name("recipe".to_owned()).spawn(life).is_err() {
                break;
            }
            state.helpers += 1;
        }
        state.count += 1;
        let number = state.count;
        state.invitations.push(Invitation { number, work, places: most, present: 0, has_panicked: false });
        self.0.changes.fetch_add(1, Ordering::Relaxed);
        drop(state);
        self.0.invited.notify_all();
        Some(number)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        // Where the lock is held for ever there are no helpers either.
        if let Some(mut state) = self.0.state.hold() {
            state.is_over = true;
            self.0.changes.fetch_add(1, Ordering::Relaxed);
            drop(state);
            self.0.invited.notify_all();
        }
    }
}

/// Who has invited.
struct Host<'shared> {
    shared: &'shared Shared,
    number: u64,
}

impl Host<'_> {
    /// Lets nobody else come and waits for those that came. Whether one of them panicked.
    fn take_back(&self) -> bool {
        let mut state = self.shared.lock();
        loop {
            let place = state.invitations.iter().position(|invitation| invitation.number == self.number);
            let Some(invitation) = place.and_then(|place| state.invitations.get_mut(place)) else { return false };
            invitation.places = 0;
            if invitation.present == 0 {
                let has_panicked = invitation.has_panicked;
                state.invitations.retain(|invitation| invitation.number != self.number);
                return has_panicked;
            }
            state = self.shared.wait(state, &self.shared.left);
        }
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl Shared {
    /// The state, for those who come after an announcement of this process: it is not locked for ever then.
    fn lock(&self) -> MutexGuard<'_, State> {
        loop {
            if let Some(state) = self.state.hold() {
                return state;
            }
        }
    }

    /// Waits for a change, first awake, then asleep.
    fn wait<'state>(&'state self, state: MutexGuard<'state, State>, asleep: &Condvar) -> MutexGuard<'state, State> {
        // It changes under the lock only.
        let before = self.changes.load(Ordering::Relaxed);
        drop(state);
        for _ in 0..LOOKS {
            if self.changes.load(Ordering::Relaxed) != before {
                return self.lock();
            }
            std::hint::spin_loop();
        }
        let state = self.lock();
        if self.changes.load(Ordering::Relaxed) != before {
            return state;
        }
        asleep.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a helper.
    fn help(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let Some(invitation) = state.invitations.iter_mut().find(|invitation| invitation.places > 0) else {
                state = self.wait(state, &self.invited);
                continue;
            };
            invitation.places -= 1;
            invitation.present += 1;
            let (number, work) = (invitation.number, invitation.work);
            drop(state);
            let has_panicked = catch_unwind(AssertUnwindSafe(work)).is_err();
            state = self.lock();
            if let Some(invitation) = state.invitations.iter_mut().find(|invitation| invitation.number == number) {
                // Nothing is left to be done.
                invitation.places = 0;
                invitation.present -= 1;
                invitation.has_panicked |= has_panicked;
            }
            self.changes.fetch_add(1, Ordering::Relaxed);
            self.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::Helpers;

    /// Has `most` helpers meet the caller, which ends only when all of them come.
    fn meet(helpers: &Helpers, most: usize) -> HashSet<ThreadId> {
        let (barrier, seen) = (Barrier::new(most + 1), Mutex::new(HashSet::new()));
        let work = || {
            barrier.wait();
            seen.lock().unwrap().insert(thread::current().id());
        };
        helpers.invite(most, || (), &work, || barrier.wait());
        seen.into_inner().unwrap()
    }

    fn pause() {
        thread::sleep(Duration::from_millis(1));
    }

    #[test]
    fn helpers_stay_and_no_more_are_started_than_one_caller_asks_for() {
        let helpers = Helpers::default();
        let first = meet(&helpers, 3);
        assert_eq!(first.len(), 3);
        assert_eq!(meet(&helpers, 3), first);
        assert!(meet(&helpers, 1).is_subset(&first));
        let seen = Mutex::new(HashSet::new());
        let work = || {
            pause();
            seen.lock().unwrap().insert(thread::current().id());
        };
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..20).for_each(|_| helpers.invite(3, || (), &work, pause)));
            }
        });
        let seen = seen.into_inner().unwrap();
        assert!(!seen.is_empty() && seen.is_subset(&first));
        assert!(helpers.0.lock().invitations.is_empty());
    }

    #[test]
    fn a_caller_waits_for_those_that_came_and_for_nobody_else() {
        let helpers = Helpers::default();
        let (came, done) = (Barrier::new(2), AtomicUsize::new(0));
        let work = || {
            came.wait();
            (0..20).for_each(|_| pause());
            done.fetch_add(1, Ordering::Relaxed);
        };
        helpers.invite(
            1,
            || (),
            &work,
            || {
                came.wait();
                // The only helper is busy, so nobody comes to this one.
                assert_eq!(helpers.invite(1, || (), &|| unreachable!(), || 7), 7);
            },
        );
        assert_eq!(done.into_inner(), 1);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_prepares() {
        let helpers = Helpers::default();
        let is_over = Arc::new(Barrier::new(2));
        let seen = Arc::clone(&is_over);
        let prepare = move || _ = seen.wait();
        assert_eq!(helpers.invite(1, prepare, &|| unreachable!(), || 7), 7);
        is_over.wait();
        assert_eq!(meet(&helpers, 1).len(), 1);
    }

    #[test]
    fn what_helpers_are_invited_to_may_invite() {
        let helpers = Helpers::default();
        let count = AtomicUsize::new(0);
        let inner = || _ = count.fetch_add(1, Ordering::Relaxed);
        let outer = || (0..50).for_each(|_| helpers.invite(2, || (), &inner, inner));
        for _ in 0..20 {
            helpers.invite(2, || (), &outer, outer);
        }
        assert!(count.into_inner() >= 1000);
    }

    #[test]
    fn panics_reach_the_caller_who_still_waits() {
        let helpers = Helpers::default();
        let (came, done) = (Barrier::new(2), AtomicUsize::new(0));
        let panics = || {
            came.wait();
            panic!("expected");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| helpers.invite(1, || (), &panics, || came.wait()))).is_err());
        let work = || {
            came.wait();
            (0..20).for_each(|_| pause());
            done.fetch_add(1, Ordering::Relaxed);
        };
        assert!(catch_unwind(AssertUnwindSafe(|| helpers.invite(1, || (), &work, panics))).is_err());
        assert_eq!(done.into_inner(), 1);
        assert!(helpers.0.lock().invitations.is_empty());
        assert_eq!(meet(&helpers, 1).len(), 1);
    }

    #[test]
    fn a_process_without_the_threads_starts_its_own() {
        let helpers = Helpers::default();
        meet(&helpers, 2);
        assert_eq!(Arc::strong_count(&helpers.0), 3);
        helpers.0.lock().process = crate::fork::process().wrapping_sub(1);
        meet(&helpers, 2);
        assert_eq!(Arc::strong_count(&helpers.0), 5);
    }

    #[test]
    fn a_lock_that_is_held_for_ever_holds_nobody_up() {
        let helpers = Helpers::default();
        let shared = Arc::clone(&helpers.0);
        let _held = shared.lock();
        shared.state.leave_behind();
        assert_eq!(helpers.invite(1, || (), &|| unreachable!(), || 7), 7);
        drop(helpers);
    }

    #[test]
    fn helpers_end_with_their_owner() {
        let helpers = Helpers::default();
        meet(&helpers, 2);
        let shared = Arc::downgrade(&helpers.0);
        drop(helpers);
        while shared.strong_count() > 0 {
            pause();
        }
    }
}
