//! Planes that read together, with their registers.
//!
//! The array gives pages to the page registers; from there they move to the cache registers, and go over the bus.

use super::config::Class;
use super::queues::{Group, Queues};
use strobe_types::Stored;

/// Progress of a group of reads that still occupies the page registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Step {
    /// Its commands go over the bus, or wait for it: that of this page is next.
    Commands(u32),
    /// The array is at work.
    Sensing,
    /// The pages are there, and the cache registers are not free.
    Sensed,
}

/// Pages that go over the bus, or wait for it.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Sending {
    /// The first that has not arrived.
    pub(super) page: u32,
    pub(super) class: Class,
}

/// All planes of a die; or, where planes read independently, one of them.
#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Reader {
    /// Group that occupies the page registers.
    pub(super) array: Option<(Group, Step)>,
    /// Group in the cache registers.
    pub(super) sending: Option<Sending>,
    /// Reads that wait for this plane, where planes read independently.
    pub(super) queues: Queues,
}

impl Reader {
    /// True if another read may begin. With cache reads it may begin while the last one is sent.
    pub(super) fn is_free(&self, cache_read: bool) -> bool {
        self.array.is_none() && (cache_read || self.sending.is_none())
    }

    /// The most urgent class that is read for.
    pub(super) fn class(&self) -> Option<Class> {
        let array = self.array.map(|(group, _)| group.class);
        let sending = self.sending.map(|sending| sending.class);
        array.into_iter().chain(sending).min()
    }
}
