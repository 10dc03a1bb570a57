use strobe_nand::Nand;
use strobe_types::{BlockId, named};

use crate::place::StreamId;

named! {
    /// State of a block.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Stage {
        /// Erased, or its erase is in flight.
        #[default]
        Erased => "erased",
        /// Takes writes.
        Open => "open",
        /// Takes no more writes.
        Full => "full",
        /// Valid units are being moved elsewhere.
        Emptying => "emptying",
        /// Reserved for the drive's own tables.
        Tables => "tables",
        /// Out of service.
        Bad => "bad",
    }
}

named! {
    /// Purpose a block was opened for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Stream {
        /// Unknown: the block is erased, was filled before a power cut, or is in a scheme without streams.
        #[default]
        Unknown => "unknown",
        /// Host writes, and relocated units without a separate stream.
        Host => "host",
        /// Units moved by garbage collection.
        Moved => "moved",
        /// Cold units moved by garbage collection.
        Cold => "cold",
        /// Units moved by wear levelling.
        Leveled => "leveled",
        /// Pages of the map.
        Map => "map",
        /// Host writes in SLC mode.
        Slc => "slc",
    }
}

/// A block, seen independently of the mapping scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// State of the block.
    pub stage: Stage,
    /// Purpose it was opened for.
    pub stream: Stream,
    /// Number of its stream; `None` if unknown or not chosen by a placement.
    pub number: Option<StreamId>,
    /// Units that hold a current version; 0 in [`Stage::Tables`].
    pub valid: u32,
    /// Units programmed since the last erase, padding included.
    pub written: u32,
    /// Capacity in units in its present cell mode.
    pub units: u32,
    /// Successful erases.
    pub erases: u32,
}

impl BlockInfo {
    pub(crate) fn of_flash<N: Nand>(nand: &N, block: BlockId, stage: Stage, valid: u32) -> Self {
        let (flash, per_page) = (nand.block(block), nand.geometry().units_per_page());
        Self {
            stage,
            stream: Stream::Unknown,
            number: None,
            valid,
            written: flash.pages_programmed * per_page,
            units: nand.pages_of(block) * per_page,
            erases: flash.erase_count,
        }
    }
}
