//! Planes that read together, with their registers.
//!
//! The array reads pages into the page registers. From there they move to the cache registers and over the
//! bus.

use super::config::Class;
use super::queues::{Group, Queues};
use strobe_types::Stored;

/// Progress of a group of reads in the page registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Step {
    /// Its commands use the bus or wait for it; the command of this page is next.
    Commands(u32),
    Sensing,
    /// The pages are in the page registers and wait for the cache registers.
    Sensed,
}

#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Sending {
    pub(super) page: u32,
    pub(super) class: Class,
}

/// All planes of a die, or one plane if planes read independently.
#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Reader {
    pub(super) array: Option<(Group, Step)>,
    pub(super) sending: Option<Sending>,
    pub(super) queues: Queues,
}

impl Reader {
    /// True if a read may begin. With cache reads, the last page may still be sent.
    pub(super) fn is_free(&self, cache_read: bool) -> bool {
        self.array.is_none() && (cache_read || self.sending.is_none())
    }

    pub(super) fn class(&self) -> Option<Class> {
        let array = self.array.map(|(group, _)| group.class);
        let sending = self.sending.map(|sending| sending.class);
        array.into_iter().chain(sending).min()
    }
}
