//! The one place that talks to the processor about its caches.

/// Hints that the line holding `slice[index]` will be written soon. Out of range: no effect.
///
/// Never changes a result, only when a cache line arrives; on processors without a known
/// instruction it does nothing.
#[inline(always)]
pub fn prefetch_write<T>(slice: &[T], index: usize) {
    if let Some(item) = slice.get(index) {
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        // SAFETY: a prefetch has no architectural effect, and the pointer comes from a live
        // reference. PREFETCHW/T0 is part of the x86-64 baseline as a hint.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch(std::ptr::from_ref(item).cast(), _MM_HINT_T0);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = item;
    }
}
