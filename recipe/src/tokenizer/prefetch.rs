//! Asks the processor for memory before it is needed.

/// Begins to load `table[index]` into the cache, if there is such an element and the machine can.
#[inline]
pub(super) fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = table.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "waiting for memory is most of the time of a new word")]
        // SAFETY: SSE is part of every x86-64, and the address is that of a live element.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
