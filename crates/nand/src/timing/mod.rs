//! When flash operations happen.
//!
//! [`Timing`] is the contract: operations are issued, time is let pass, and what somebody watches is reported when it
//! is complete. [`ArrayTiming`] (`array/`) is the event-driven model of dies and channels: `ops.rs` has the
//! operations that are on their way and what waits for what, `die.rs` one die, `reader.rs` its planes as they read,
//! `queues.rs` what waits for either, `channel.rs` one bus, `race.rs` finds what happens next, `noted.rs` who is to be
//! looked at. [`Untimed`] takes no time at all; [`SwitchedTiming`] is either of them.

mod array;
mod channel;
mod config;
mod die;
mod link;
mod noted;
mod ops;
mod page_times;
mod queues;
mod race;
mod reader;
mod reports;
#[cfg(test)]
mod tests;

pub use array::ArrayTiming;
pub use config::{Class, Issue, SlcMode, SuspendConfig, TimingConfig};
pub use link::Bus;
pub use ops::Ticket;
pub use page_times::PageTimes;

use self::reports::Reports;
use crate::EventLog;
use strobe_types::{Place, SimTime, State, StateError, StateReader, StateWriter, Stored, counters};

/// When something is done: at a time that is known, or together with an operation that is still on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum When {
    /// At this time.
    At(SimTime),
    /// When this is complete; at once if it is.
    With(Ticket),
}

impl When {
    /// At once.
    pub const START: Self = When::At(SimTime::ZERO);
}

impl From<SimTime> for When {
    #[inline(always)]
    fn from(time: SimTime) -> Self {
        When::At(time)
    }
}

counters! {
    /// Use of the dies' time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Occupancy {
        /// Time for which dies were held, by class of what held them, added up over all dies, in ns. A suspended
        /// operation does not hold its die; suspending and resuming count as its own time.
        pub held_ns: [u64; Class::ALL.len()],
        /// Operations that were suspended, counted each time.
        pub suspends: u64,
    }
}

impl Occupancy {
    /// Time for which dies were held by `class`, in ns.
    pub fn of(&self, class: Class) -> u64 {
        self.held_ns[class as usize]
    }

    /// Time for which dies were held, in ns, added up over all dies.
    pub fn total_ns(&self) -> u64 {
        self.held_ns.iter().sum()
    }
}

/// Lets operations on flash take their time.
///
/// **The caller promises** to issue operations in the order in which they may depend on each other: a program after
/// what it waits for, an erase after the programs and reads of its block. It lets time pass with [`Timing::run`] and
/// never asks for a time that has passed.
///
/// **The implementer promises** that operations on one block keep the order of their issue as far as flash asks for
/// it: pages are programmed in order, nothing is read or programmed before an erase issued earlier is complete, and an
/// erase waits for everything issued before it.
pub trait Timing: Clone + State {
    /// True if timing may be enabled.
    const TIMED: bool;

    /// True if timing is enabled.
    fn is_timed(&self) -> bool {
        Self::TIMED
    }

    /// A page read that transfers `units` mapping units, not before `after`.
    fn read(&mut self, after: When, class: Class, units: u32, place: impl FnOnce() -> Place) -> When;

    /// A page program, not before `after`.
    fn program(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When;

    /// `count` reads like [`Timing::read`] of pages of one block, one after the other. `place` gives the place of each.
    /// Returns when the last one is done.
    fn reads(
        &mut self,
        after: When,
        class: Class,
        units: u32,
        count: u32,
        place: impl Fn(u32) -> Place,
    ) -> When {
        (0..count).fold(after, |_, at| self.read(after, class, units, || place(at)))
    }

    /// `count` programs like [`Timing::program`] of pages of one block, one after the other. `place` gives the place of
    /// each. Returns when the last one is done.
    fn programs(&mut self, after: When, class: Class, count: u32, place: impl Fn(u32) -> Place) -> When {
        (0..count).fold(after, |_, at| self.program(after, class, || place(at)))
    }

    /// A block erase, not before `after`.
    fn erase(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When;

    /// When both are done.
    fn both(&mut self, a: When, b: When) -> When;

    /// When all of `whens` are done. One that waits directly before the next, in the same queue, or runs together with it,
    /// is done no later: only the next counts.
    fn all(&mut self, whens: &[When]) -> When;

    /// Reports `token` when `when` is there: to be found with [`Timing::reported`].
    fn watch(&mut self, when: When, token: u64);

    /// The time.
    fn now(&self) -> SimTime;

    /// When something happens next, if anything is on its way.
    fn next_event(&self) -> Option<SimTime>;

    /// Lets time pass until something watched is there, but no further than `until`. True if something is.
    fn run(&mut self, until: SimTime) -> bool;

    /// True if [`Timing::next_reported`] would return a token.
    fn has_reported(&self) -> bool;

    /// The first that [`Timing::watch`] has reported and that was not taken yet, in the order of the events.
    fn next_reported(&mut self) -> Option<u64>;

    /// All of them, added to `tokens`.
    fn reported(&mut self, tokens: &mut Vec<u64>) {
        tokens.extend(std::iter::from_fn(|| self.next_reported()));
    }

    /// Lets what was issued start where it can. Until then nothing that was issued at this instant has begun, so that
    /// operations issued together can share an array time.
    fn start(&mut self);

    /// The time when `when` is there; lets time pass until then, if it is to come. For whoever is alone with the
    /// flash: what others watch meanwhile is kept for them.
    fn finish(&mut self, when: When) -> SimTime;

    /// Lets time pass until everything issued is complete; returns when that is.
    fn drain(&mut self) -> SimTime;

    /// Programs of `place`'s block that are not complete, the last ones issued.
    fn programs_ahead(&self, _place: impl FnOnce() -> Place) -> u32 {
        0
    }

    /// When the program or erase of `place`'s block that was issued last is complete.
    fn last_program(&self, _place: impl FnOnce() -> Place) -> When {
        When::START
    }

    /// The class of that program, if it is not complete.
    fn last_class(&self, _place: impl FnOnce() -> Place) -> Option<Class> {
        None
    }

    /// True if flash has begun the operation behind `when`; `None` if it is complete.
    fn has_begun(&self, _when: When) -> Option<bool> {
        None
    }

    /// True if the program or erase behind `when` is suspended for a read and has not resumed.
    fn is_suspended(&self, _when: When) -> bool {
        false
    }

    /// Returns a copy with no operation in flight, as after a power cut.
    #[must_use]
    fn at_rest(&self) -> Self {
        self.clone()
    }

    /// Operations that wait for the die `die` or are being done there.
    fn backlog(&self, _die: u32) -> u32 {
        0
    }

    /// Dies that are doing something.
    fn busy_dies(&self) -> u32 {
        0
    }

    /// Class of the operation that holds `die`; `None` if the die is idle or timing is disabled.
    fn holder(&self, _die: u32) -> Option<Class> {
        None
    }

    /// Use of the dies' time until `at`: now, or a time before the next event.
    fn occupancy(&self, _at: SimTime) -> Occupancy {
        Occupancy::default()
    }

    /// Log of events; off where nothing takes time.
    #[inline(always)]
    fn log(&self) -> &EventLog {
        const { &EventLog::OFF }
    }

    /// Logs from now on in `log`, or no more if that is off. Times and results stay as they are.
    fn set_log(&mut self, _log: EventLog) {}
}

/// Everything is instant: for runs that only count operations.
#[derive(Clone, Debug, Default, Stored)]
pub struct Untimed {
    reported: Reports,
}

impl Timing for Untimed {
    const TIMED: bool = false;

    #[inline(always)]
    fn read(&mut self, after: When, _class: Class, _units: u32, _place: impl FnOnce() -> Place) -> When {
        after
    }

    #[inline(always)]
    fn program(&mut self, after: When, _class: Class, _place: impl FnOnce() -> Place) -> When {
        after
    }

    #[inline(always)]
    fn erase(&mut self, after: When, _class: Class, _place: impl FnOnce() -> Place) -> When {
        after
    }

    #[inline(always)]
    fn both(&mut self, a: When, _b: When) -> When {
        a
    }

    fn all(&mut self, whens: &[When]) -> When {
        whens.first().copied().unwrap_or(When::START)
    }

    fn watch(&mut self, _when: When, token: u64) {
        self.reported.push(token);
    }

    fn now(&self) -> SimTime {
        SimTime::ZERO
    }

    fn next_event(&self) -> Option<SimTime> {
        (!self.reported.is_empty()).then_some(SimTime::ZERO)
    }

    fn run(&mut self, _until: SimTime) -> bool {
        !self.reported.is_empty()
    }

    #[inline(always)]
    fn has_reported(&self) -> bool {
        !self.reported.is_empty()
    }

    fn next_reported(&mut self) -> Option<u64> {
        self.reported.take()
    }

    fn start(&mut self) {}

    fn finish(&mut self, when: When) -> SimTime {
        match when {
            When::At(time) => time,
            When::With(_) => SimTime::ZERO,
        }
    }

    fn drain(&mut self) -> SimTime {
        SimTime::ZERO
    }
}

/// Timing switched on or off at construction. It spares a type (and its compile time) for drives whose speed in
/// counting runs does not matter.
#[derive(Clone, Debug)]
pub enum SwitchedTiming {
    /// With times.
    On(Box<ArrayTiming>),
    /// Everything is instant.
    Off(Untimed),
}

impl SwitchedTiming {
    /// The times of `timing`; without it everything is instant.
    pub fn new(timing: Option<ArrayTiming>) -> Self {
        timing.map_or_else(|| Self::Off(Untimed::default()), |timing| Self::On(Box::new(timing)))
    }
}

/// Asks whichever it is.
macro_rules! either {
    ($self:ident, $timing:ident => $what:expr) => {
        match $self {
            SwitchedTiming::On($timing) => $what,
            SwitchedTiming::Off($timing) => $what,
        }
    };
}

impl Timing for SwitchedTiming {
    const TIMED: bool = true;

    fn is_timed(&self) -> bool {
        matches!(self, Self::On(_))
    }

    fn read(&mut self, after: When, class: Class, units: u32, place: impl FnOnce() -> Place) -> When {
        either!(self, timing => timing.read(after, class, units, place))
    }

    fn program(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        either!(self, timing => timing.program(after, class, place))
    }

    fn reads(
        &mut self,
        after: When,
        class: Class,
        units: u32,
        count: u32,
        place: impl Fn(u32) -> Place,
    ) -> When {
        either!(self, timing => timing.reads(after, class, units, count, place))
    }

    fn programs(&mut self, after: When, class: Class, count: u32, place: impl Fn(u32) -> Place) -> When {
        either!(self, timing => timing.programs(after, class, count, place))
    }

    fn erase(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        either!(self, timing => timing.erase(after, class, place))
    }

    fn both(&mut self, a: When, b: When) -> When {
        either!(self, timing => timing.both(a, b))
    }

    fn all(&mut self, whens: &[When]) -> When {
        either!(self, timing => timing.all(whens))
    }

    fn watch(&mut self, when: When, token: u64) {
        either!(self, timing => timing.watch(when, token));
    }

    fn now(&self) -> SimTime {
        either!(self, timing => timing.now())
    }

    fn next_event(&self) -> Option<SimTime> {
        either!(self, timing => timing.next_event())
    }

    fn run(&mut self, until: SimTime) -> bool {
        either!(self, timing => timing.run(until))
    }

    fn has_reported(&self) -> bool {
        either!(self, timing => timing.has_reported())
    }

    fn next_reported(&mut self) -> Option<u64> {
        either!(self, timing => timing.next_reported())
    }

    fn start(&mut self) {
        either!(self, timing => timing.start());
    }

    fn finish(&mut self, when: When) -> SimTime {
        either!(self, timing => timing.finish(when))
    }

    fn drain(&mut self) -> SimTime {
        either!(self, timing => timing.drain())
    }

    fn programs_ahead(&self, place: impl FnOnce() -> Place) -> u32 {
        either!(self, timing => timing.programs_ahead(place))
    }

    fn last_program(&self, place: impl FnOnce() -> Place) -> When {
        either!(self, timing => timing.last_program(place))
    }

    fn last_class(&self, place: impl FnOnce() -> Place) -> Option<Class> {
        either!(self, timing => timing.last_class(place))
    }

    fn has_begun(&self, when: When) -> Option<bool> {
        either!(self, timing => timing.has_begun(when))
    }

    fn is_suspended(&self, when: When) -> bool {
        either!(self, timing => timing.is_suspended(when))
    }

    fn at_rest(&self) -> Self {
        match self {
            Self::On(timing) => Self::On(Box::new(timing.at_rest())),
            Self::Off(timing) => Self::Off(timing.at_rest()),
        }
    }

    fn backlog(&self, die: u32) -> u32 {
        either!(self, timing => timing.backlog(die))
    }

    fn busy_dies(&self) -> u32 {
        either!(self, timing => timing.busy_dies())
    }

    fn holder(&self, die: u32) -> Option<Class> {
        either!(self, timing => timing.holder(die))
    }

    fn occupancy(&self, at: SimTime) -> Occupancy {
        either!(self, timing => timing.occupancy(at))
    }

    #[inline(always)]
    fn log(&self) -> &EventLog {
        either!(self, timing => timing.log())
    }

    fn set_log(&mut self, log: EventLog) {
        either!(self, timing => timing.set_log(log));
    }
}

impl State for SwitchedTiming {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        either!(self, timing => timing.save_state(out));
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        either!(self, timing => timing.load_state(from))
    }
}
