use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared with its sender: a signal handler or another thread.
///
/// The engine checks the flag once per erase block opened or emptied. A flag that is never raised changes
/// nothing, so results stay deterministic. [`StopFlag::default`] cannot be raised.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Option<Arc<AtomicBool>>);

impl StopFlag {
    /// True once a stop was requested; it stays true.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl From<Arc<AtomicBool>> for StopFlag {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_raised_for_all_that_share_it() {
        let raised = Arc::new(AtomicBool::new(false));
        let flag = StopFlag::from(Arc::clone(&raised));
        let other = flag.clone();
        assert!(!flag.is_raised() && !other.is_raised() && !StopFlag::default().is_raised());
        raised.store(true, Ordering::Relaxed);
        assert!(flag.is_raised() && other.is_raised() && !StopFlag::default().is_raised());
    }
}
