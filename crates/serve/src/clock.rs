//! Time of the drive at this moment.

#![allow(clippy::disallowed_types, reason = "a server answers people and programs of the real world")]

use std::time::Instant;

use strobe_types::{SimTime, named};

named! {
    /// Relation of the drive's time to the real one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Pace {
        /// The drive's time passes as the real one: nothing completes earlier than the model says.
        Model => "model",
        /// The drive's time passes only while requests are under way, as fast as they can be simulated.
        None => "none",
    }
}

/// The drive's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    start: SimTime,
}

impl Clock {
    /// A clock that shows `start` now, and runs.
    pub(crate) fn from(start: SimTime) -> Self {
        Self { began: Instant::now(), start }
    }

    /// Time that it shows.
    pub(crate) fn now(&self) -> SimTime {
        self.start + u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }
}
