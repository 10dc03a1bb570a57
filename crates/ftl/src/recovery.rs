use strobe_nand::{Nand, When};
use strobe_types::{Ppn, SimTime};

/// Findings, work and duration of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Time when power returned.
    pub started: SimTime,
    /// Time when the drive was ready for commands.
    pub finished: SimTime,
    /// Pages of the map's log read.
    pub log_pages: u64,
    /// Journal epochs applied.
    pub epochs: u64,
    /// Checkpoint segments read.
    pub segments: u64,
    /// Data pages read: those written after the last epoch; with demand paging or block mapping, all.
    pub scanned_pages: u64,
    /// Mapping units found in these pages and added to the map.
    pub units_found: u64,
    /// Illegible pages of the log or of data: failed, or torn by a power cut.
    pub illegible_pages: u64,
    /// Blocks erased: their erase was interrupted, or they hold no valid data.
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

    pub(crate) fn now(&self) -> When {
        When::At(self.finished)
    }

    pub(crate) fn wait(&mut self, nand: &mut impl Nand) {
        self.finished = self.finished.max(nand.drain());
    }
}

/// Reason for a failed recovery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The drive keeps no map on flash.
    #[error(
        "this drive keeps its map in memory only and loses all data in a power cut; set drive.ftl.durable_map = true"
    )]
    Volatile,
    /// The simulated flash keeps no contents.
    #[error(
        "drive.nand.data = \"none\" stores no contents that could be recovered; use \"stamp\" or \"bytes\""
    )]
    NoContents,
    /// The content of flash contradicts itself.
    #[error("the map on flash is damaged: {0}")]
    Damaged(String),
    /// An unreadable page of the log.
    #[error(
        "the map cannot be recovered: flash page {0} of its log cannot be read, and no second copy exists"
    )]
    MapUnreadable(Ppn),
    /// The simulation was stopped.
    #[error("interrupted")]
    Interrupted,
}

pub(crate) fn damaged<T>(what: String) -> Result<T, RecoveryError> {
    Err(RecoveryError::Damaged(what))
}
