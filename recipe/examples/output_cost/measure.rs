//! What a process costs: how often it asked for memory, the most that it held, and how long it ran.

#![expect(unsafe_code, reason = "an allocator cannot be written without, and the standard library lacks the clock")]
#![allow(dead_code, unreachable_pub, reason = "each user needs its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CALLS: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
pub struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `memory` came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist at once.
        grow(size);
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `memory` came from `System` with this layout, and the caller vouches for `size`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn grow(size: usize) {
    CALLS.fetch_add(1, Relaxed);
    PEAK.fetch_max(IN_USE.fetch_add(size, Relaxed) + size, Relaxed);
}

/// Bytes in use now; the peak starts anew from here.
pub fn restart() -> usize {
    let now = IN_USE.load(Relaxed);
    PEAK.store(now, Relaxed);
    now
}

/// The most bytes in use since [`restart`].
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// How often memory was asked for, ever.
pub fn calls() -> usize {
    CALLS.load(Relaxed)
}

/// How long this process ran so far, in microseconds; what it waited for a busy machine does not count.
pub fn micros() -> u64 {
    // SAFETY: `clock` of the C library takes nothing and touches no memory; POSIX counts it in microseconds.
    let micros = unsafe {
        unsafe extern "C" {
            fn clock() -> std::ffi::c_long;
        }
        clock()
    };
    micros.unsigned_abs()
}
