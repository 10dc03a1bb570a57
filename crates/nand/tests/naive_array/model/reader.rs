//! Planes that read together, and what their registers hold.

use super::Group;

/// Present or coming content of a reader's page registers.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    Nothing,
    /// The commands from `at` on are still to be sent.
    Commands {
        group: Group,
        at: usize,
    },
    Sensing {
        group: Group,
        until: u64,
    },
    /// The cache registers are not free.
    Sensed {
        group: Group,
    },
}

/// All planes of a die, or one of them.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) reading: Reading,
    /// The group in the cache registers: the pages from that number on are still to be sent.
    pub(super) sending: Option<(Group, usize)>,
}

impl Reader {
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        let reading = match &self.reading {
            Reading::Nothing => None,
            Reading::Commands { group, .. } | Reading::Sensing { group, .. } | Reading::Sensed { group } => {
                Some(group)
            }
        };
        reading.into_iter().chain(self.sending.as_ref().map(|(group, _)| group))
    }
}
