//! Host time, for limits only: nothing visible to a guest depends on it.

use std::time::Duration;

#[allow(clippy::disallowed_types, reason = "real time is what is asked for, or how long the guest is silent")]
pub(crate) struct RealTime(std::time::Instant);

impl RealTime {
    #[allow(clippy::disallowed_types, reason = "as above")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
