//! Locks in the child of a fork.
//!
//! A fork copies one thread of a process and all of its locks. One that another thread held just then stays held in the
//! child for ever, so nobody there may wait for it.
//!
//! Owns: the count of forks, and locks that know in which process they were taken. Must not know: what is locked.
//! Cost: as a `Mutex`; two more moves of a number.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Tells that this process is the child of a fork. To be called there before all else of this crate, wherever a process
/// is forked while other threads may be at work here; in Python, `os.fork` does it.
pub fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// What tells this process from the one that it was forked from.
pub(crate) fn process() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// A lock that makes nobody wait for a thread that a fork has left behind.
pub(crate) struct Lock<T> {
    value: Mutex<T>,
    /// The process in which it was taken last.
    process: AtomicU32,
}

impl<T> Lock<T> {
    /// The value, or nothing where it stays locked for ever.
    pub(crate) fn hold(&self) -> Option<MutexGuard<'_, T>> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) if self.process.load(Ordering::Relaxed) == process() => {
                self.value.lock().unwrap_or_else(PoisonError::into_inner)
            }
            // Or it was taken here this very moment, for the first time. Without the value is right then too.
            Err(TryLockError::WouldBlock) => return None,
        };
        self.process.store(process(), Ordering::Relaxed);
        Some(value)
    }

    /// Makes it look as if it was taken last before a fork.
    #[cfg(test)]
    pub(crate) fn leave_behind(&self) {
        self.process.store(process().wrapping_sub(1), Ordering::Relaxed);
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self { value: Mutex::default(), process: AtomicU32::new(process()) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_lock_is_waited_for_where_it_was_taken_and_nowhere_else() {
        let lock: Lock<u32> = Lock::default();
        let mut held = lock.hold().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| *lock.hold().unwrap());
            *held = 7;
            drop(held);
            assert_eq!(waiting.join().unwrap(), 7);
        });
        let _held = lock.hold().unwrap();
        lock.leave_behind();
        assert!(lock.hold().is_none());
    }

    #[test]
    fn a_lock_that_was_free_is_free_in_the_child() {
        let lock: Lock<u32> = Lock::default();
        lock.leave_behind();
        *lock.hold().unwrap() = 7;
        assert_eq!(lock.process.load(Ordering::Relaxed), process());
        assert_eq!(*lock.hold().unwrap(), 7);
    }
}
