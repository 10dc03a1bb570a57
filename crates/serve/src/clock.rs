#![allow(clippy::disallowed_types, reason = "a server answers people and programs of the real world")]

use std::time::Instant;

use strobe_types::{SimTime, named};

named! {
    /// Relation of virtual time to real time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Pace {
        /// Virtual time follows real time: no command completes earlier than in the model.
        Model => "model",
        /// Virtual time passes only while requests are in flight, as fast as they can be simulated.
        None => "none",
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    start: SimTime,
}

impl Clock {
    pub(crate) fn from(start: SimTime) -> Self {
        Self { began: Instant::now(), start }
    }

    pub(crate) fn now(&self) -> SimTime {
        self.start + u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }
}
