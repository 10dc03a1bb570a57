//! Timing of flash operations.
//!
//! [`Timing`] is the contract: operations are issued, time passes, and watched events are reported when they
//! are complete.

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

/// Completion time: a known time, or the completion of an in-flight operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum When {
    /// At this time.
    At(SimTime),
    /// At the completion of this operation; immediately if it is complete.
    With(Ticket),
}

impl When {
    /// Immediately.
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
        /// Time dies were held, by class, summed over all dies, in ns. A suspended operation does not hold
        /// its die. Suspending and resuming count for the suspended class.
        pub held_ns: [u64; Class::ALL.len()],
        /// Suspends; an operation counts once per suspend.
        pub suspends: u64,
    }
}

impl Occupancy {
    /// Time dies were held by `class`, in ns.
    pub fn of(&self, class: Class) -> u64 {
        self.held_ns[class as usize]
    }

    /// Time dies were held, summed over all dies, in ns.
    pub fn total_ns(&self) -> u64 {
        self.held_ns.iter().sum()
    }
}

/// Schedules flash operations in time.
///
/// **The caller promises** to issue operations in dependency order: a program after its dependencies, an
/// erase after the programs and reads of its block. It lets time pass with [`Timing::run`] and never asks for
/// a past time.
///
/// **The implementer promises** that operations on one block keep their issue order as far as flash requires
/// it. Pages are programmed in order. Reads and programs wait for erases issued earlier. An erase waits for
/// everything issued before it.
pub trait Timing: Clone + State {
    /// True if timing may be enabled.
    const TIMED: bool;

    /// True if timing is enabled.
    fn is_timed(&self) -> bool {
        Self::TIMED
    }

    /// Issues a page read that transfers `units` mapping units, not before `after`.
    fn read(&mut self, after: When, class: Class, units: u32, place: impl FnOnce() -> Place) -> When;

    /// Issues a page program, not before `after`.
    fn program(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When;

    /// Issues `count` consecutive reads of pages of one block. Returns the completion of the last.
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

    /// Issues `count` consecutive programs of pages of one block. Returns the completion of the last.
    fn programs(&mut self, after: When, class: Class, count: u32, place: impl Fn(u32) -> Place) -> When {
        (0..count).fold(after, |_, at| self.program(after, class, || place(at)))
    }

    /// Issues a block erase, not before `after`.
    fn erase(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When;

    /// Completion of both `a` and `b`.
    fn both(&mut self, a: When, b: When) -> When;

    /// Completion of all of `whens`.
    fn all(&mut self, whens: &[When]) -> When;

    /// Reports `token` at `when`. Read reports with [`Timing::next_reported`] or [`Timing::reported`].
    fn watch(&mut self, when: When, token: u64);

    /// Current time.
    fn now(&self) -> SimTime;

    /// Time of the next event, if anything is in flight.
    fn next_event(&self) -> Option<SimTime>;

    /// Lets time pass until a watched event is reported, but no further than `until`. True if one is
    /// reported.
    fn run(&mut self, until: SimTime) -> bool;

    /// True if [`Timing::next_reported`] would return a token.
    fn has_reported(&self) -> bool;

    /// Takes the next reported token, in event order.
    fn next_reported(&mut self) -> Option<u64>;

    /// Takes all reported tokens and appends them to `tokens`.
    fn reported(&mut self, tokens: &mut Vec<u64>) {
        tokens.extend(std::iter::from_fn(|| self.next_reported()));
    }

    /// Begins issued operations where possible. Before this call, nothing issued at this instant has begun,
    /// so operations issued together can share array time.
    fn start(&mut self);

    /// Lets time pass until `when` and returns that time. Reports due before then stay available to
    /// [`Timing::next_reported`].
    fn finish(&mut self, when: When) -> SimTime;

    /// Lets time pass until everything issued is complete and returns that time.
    fn drain(&mut self) -> SimTime;

    /// Incomplete programs of `place`'s block; they are the last ones issued there.
    fn programs_ahead(&self, _place: impl FnOnce() -> Place) -> u32 {
        0
    }

    /// Completion of the last program or erase issued on `place`'s block.
    fn last_program(&self, _place: impl FnOnce() -> Place) -> When {
        When::START
    }

    /// Class of the last program or erase issued on `place`'s block, if incomplete.
    fn last_class(&self, _place: impl FnOnce() -> Place) -> Option<Class> {
        None
    }

    /// True if the operation behind `when` has begun on flash; `None` if it is complete.
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

    /// Operations issued to `die` and incomplete, those that wait for another operation included.
    fn backlog(&self, _die: u32) -> u32 {
        0
    }

    /// Dies that are not idle.
    fn busy_dies(&self) -> u32 {
        0
    }

    /// Class of the operation that holds `die`; `None` if the die is idle or timing is disabled.
    fn holder(&self, _die: u32) -> Option<Class> {
        None
    }

    /// Use of the dies' time until `at`, which is before the next event.
    fn occupancy(&self, _at: SimTime) -> Occupancy {
        Occupancy::default()
    }

    /// Event log; off without timing.
    #[inline(always)]
    fn log(&self) -> &EventLog {
        const { &EventLog::OFF }
    }

    /// Sets the event log; an off log stops logging. Times and results do not change.
    fn set_log(&mut self, _log: EventLog) {}
}

/// Instant operations, for runs that only count.
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

/// Timing switched on or off at construction. It saves a monomorphised type and its compile time, for drives
/// whose speed in counting runs does not matter.
#[derive(Clone, Debug)]
pub enum SwitchedTiming {
    /// With timing.
    On(Box<ArrayTiming>),
    /// Without timing: every operation is instant.
    Off(Untimed),
}

impl SwitchedTiming {
    /// Timing of `timing`; instant operations for `None`.
    pub fn new(timing: Option<ArrayTiming>) -> Self {
        timing.map_or_else(|| Self::Off(Untimed::default()), |timing| Self::On(Box::new(timing)))
    }
}

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
