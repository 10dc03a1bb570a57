//! When flash operations happen.
//!
//! [`Timing`] is the contract. [`ArrayTiming`] (`array.rs`) books dies and channels in virtual time, each of them
//! a schedule of its own (`schedule.rs`); [`Untimed`] takes no time at all; [`SwitchedTiming`] is either of them.

mod array;
mod schedule;
#[cfg(test)]
mod tests;

pub use array::{ArrayTiming, TimingConfig};
pub use schedule::Bus;

use strobe_types::{Place, SimTime};

/// Tells when an operation on flash is complete.
pub trait Timing: Clone {
    /// Whether returned times may mean anything.
    const TIMED: bool;
    /// Whether they do.
    fn is_timed(&self) -> bool {
        Self::TIMED
    }
    /// A page read that transfers `units` mapping units.
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime;
    /// A page program.
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// A block erase.
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// When everything issued so far is complete.
    fn idle_at(&self) -> SimTime;
}

/// Everything is instant: for runs that only count operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Timing for Untimed {
    const TIMED: bool = false;

    fn idle_at(&self) -> SimTime {
        SimTime::ZERO
    }

    fn read(&mut self, now: SimTime, _units: u32, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
    fn program(&mut self, now: SimTime, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
    fn erase(&mut self, now: SimTime, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
}

/// Timed or not, as decided when the flash is made. It spares a type of its own (and its compile time) to drives
/// whose speed in counting runs does not matter.
#[derive(Clone, Debug)]
pub struct SwitchedTiming(Option<ArrayTiming>);

impl SwitchedTiming {
    /// The times of `timing`; without it everything is instant.
    pub fn new(timing: Option<ArrayTiming>) -> Self {
        Self(timing)
    }
}

impl Timing for SwitchedTiming {
    const TIMED: bool = true;

    fn is_timed(&self) -> bool {
        self.0.is_some()
    }

    fn idle_at(&self) -> SimTime {
        self.0.as_ref().map_or(SimTime::ZERO, Timing::idle_at)
    }

    #[inline]
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.read(now, units, place))
    }

    #[inline]
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.program(now, place))
    }

    #[inline]
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.erase(now, place))
    }
}
