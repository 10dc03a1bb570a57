/// Hints that `slice[index]` will be written soon. No effect if out of range.
///
/// Never changes a result. Does nothing on processors without a known instruction.
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
