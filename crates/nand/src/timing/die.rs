//! One die: what waits for it, and what it is doing.

use strobe_types::{SimTime, Stored};

use super::channel::Carry;
use super::config::Class;
use super::ops::NONE;
use super::queues::{Group, Queues};

/// Activity of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Phase {
    Idle,
    /// Reads: its readers are at work, see [`super::reader`].
    Readers,
    /// Programs: one page after the other comes over the bus, behind its command; erases: their commands do.
    Loading,
    /// Command, array time and transfer of a single read on an unshared bus.
    Reading,
    /// Programs and erases: the array is busy from [`Die::from`] until [`Die::until`]. Before that, the page of
    /// a single program comes over an unshared bus.
    Array,
    /// From the suspend until the die can read.
    Suspending,
    /// From the resume until the array is at work again.
    Resuming,
}

/// A program or erase that has been interrupted, or is being.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Suspended {
    pub(super) group: Group,
    pub(super) left_ns: u64,
}

/// The page of a program that the register holds, or will, while the array is at work (cache program).
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Next {
    pub(super) group: Group,
    /// All of it has come over the bus.
    pub(super) is_loaded: bool,
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Die {
    pub(super) channel: u32,
    /// Operations waiting for the die. With independent plane reads, reads wait at their reader instead.
    pub(super) queues: Queues,
    pub(super) phase: Phase,
    pub(super) since: SimTime,
    /// For what it is held, unless it is idle.
    pub(super) class: Class,
    /// When the array is at work, if it is.
    pub(super) from: SimTime,
    pub(super) until: SimTime,
    /// Group in progress; `None` if the die is idle or only its readers are busy.
    pub(super) current: Option<Group>,
    pub(super) next: Option<Next>,
    /// The page of a program, or the command of an erase, that is on the bus, or waits for it.
    pub(super) loads: u32,
    /// Parts of that page that have arrived: the flash pages of a word line cross the bus one by one.
    pub(super) parts_loaded: u32,
    /// Transfer on the bus for this die, if any.
    pub(super) carried: Carry,
    pub(super) suspended: Option<Suspended>,
    /// Suspensions of the current program or erase so far.
    pub(super) suspends: u32,
}

impl Die {
    pub(super) fn new(channel: u32) -> Self {
        Self {
            channel,
            queues: Queues::default(),
            phase: Phase::Idle,
            since: SimTime::ZERO,
            class: Class::HostRead,
            from: SimTime::ZERO,
            until: SimTime::ZERO,
            current: None,
            next: None,
            loads: NONE,
            parts_loaded: 0,
            carried: Carry::Load,
            suspended: None,
            suspends: 0,
        }
    }
}
