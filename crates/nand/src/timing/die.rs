//! A die: its queues and its activity.

use strobe_types::{SimTime, Stored};

use super::channel::Carry;
use super::config::Class;
use super::ops::NONE;
use super::queues::{Group, Queues};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Phase {
    Idle,
    /// Reads: its readers are at work, see [`super::reader`].
    Readers,
    /// Programs: commands and pages cross the bus, plane by plane. Erases: commands only.
    Loading,
    /// Command, array time and transfer of a single read on an unshared bus.
    Reading,
    /// Programs and erases: the array is busy from [`Die::from`] until [`Die::until`]. Before `from`, the
    /// page of a single program comes over an unshared bus.
    Array,
    /// From the suspend until the die can read.
    Suspending,
    /// From the resume until the array continues.
    Resuming,
}

/// Operation that is being suspended, suspended, or being resumed.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Suspended {
    pub(super) group: Group,
    pub(super) left_ns: u64,
    /// Host reads with a later deadline do not delay the resume.
    pub(super) deadline: SimTime,
}

/// Cache program: the page loaded while the array is busy.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Next {
    pub(super) group: Group,
    pub(super) is_loaded: bool,
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Die {
    pub(super) channel: u32,
    pub(super) queues: Queues,
    pub(super) phase: Phase,
    pub(super) since: SimTime,
    pub(super) class: Class,
    pub(super) from: SimTime,
    pub(super) until: SimTime,
    pub(super) current: Option<Group>,
    pub(super) next: Option<Next>,
    pub(super) loads: u32,
    /// Flash pages of the word line that have crossed the bus.
    pub(super) parts_loaded: u32,
    pub(super) carried: Carry,
    pub(super) suspended: Option<Suspended>,
    /// Array start of the current program or erase; `suspends` counts its suspends.
    pub(super) began: SimTime,
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
            began: SimTime::ZERO,
            suspends: 0,
        }
    }
}
