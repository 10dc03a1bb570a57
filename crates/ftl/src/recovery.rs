//! Report of a recovery after a power cut.

use strobe_nand::{Nand, When};
use strobe_types::{Ppn, SimTime};

/// Findings, work and duration of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// When power was back.
    pub started: SimTime,
    /// When the drive was ready for commands.
    pub finished: SimTime,
    /// Pages of the map's log that were read.
    pub log_pages: u64,
    /// Epochs of the journal that were applied.
    pub epochs: u64,
    /// Segments of checkpoints that were read.
    pub segments: u64,
    /// Data pages read behind the last epoch, in the blocks that were open.
    pub scanned_pages: u64,
    /// Mapping units found there and taken over into the map.
    pub units_found: u64,
    /// Pages, of either kind, that hold nothing legible: cut short by this power cut or an earlier one,
    /// or failed.
    pub illegible_pages: u64,
    /// Blocks erased, because their erase had been cut short or to have enough erased ones at hand.
    pub blocks_erased: u64,
}

impl Recovery {
    pub(crate) fn new(now: SimTime) -> Self {
        Self { started: now, finished: now, ..Self::default() }
    }

    /// Duration in ns of virtual time.
    pub fn duration_ns(&self) -> u64 {
        self.finished.since(self.started)
    }

    /// When the next operation can be issued.
    pub(crate) fn now(&self) -> When {
        When::At(self.finished)
    }

    /// Waits until all operations on `nand` are complete.
    pub(crate) fn wait(&mut self, nand: &mut impl Nand) {
        self.finished = self.finished.max(nand.drain());
    }
}

/// Why no map could be found again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The drive was not set up to survive.
    #[error(
        "this drive keeps its map in memory only and loses everything with its power; set drive.ftl.durable_map = true"
    )]
    Volatile,
    /// The flash keeps no contents.
    #[error(
        "with drive.nand.data = \"none\" flash keeps nothing that could be recovered; use \"stamp\" or \"bytes\""
    )]
    NoContents,
    /// The content of flash contradicts itself.
    #[error("the map on flash is damaged: {0}")]
    Damaged(String),
    /// A page of the log cannot be read.
    #[error(
        "the map cannot be found again: flash page {0} of its log cannot be read, and there is no second copy"
    )]
    MapUnreadable(Ppn),
    /// Whoever runs the simulation has asked it to end.
    #[error("interrupted")]
    Interrupted,
}

/// Error for contents of flash that contradict themselves.
pub(crate) fn damaged<T>(what: String) -> Result<T, RecoveryError> {
    Err(RecoveryError::Damaged(what))
}
