//! State of a block as an observer sees it, independent of the mapping scheme.

use strobe_nand::Nand;
use strobe_types::{BlockId, named};

use crate::place::StreamId;

named! {
    /// State of a block.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Stage {
        /// Erased, or waiting for its erase with nothing valid in it: it is about to be at hand.
        #[default]
        Erased => "erased",
        /// Has room, and takes writes.
        Open => "open",
        /// Takes no more writes.
        Full => "full",
        /// Its valid units are being moved elsewhere.
        Emptying => "emptying",
        /// Reserved for the drive's own tables.
        Tables => "tables",
        /// Out of service.
        Bad => "bad",
    }
}

named! {
    /// Purpose for which a block was opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Stream {
        /// Nobody knows: it is erased, was found so after a power cut, or the scheme has no streams.
        #[default]
        Unknown => "unknown",
        /// Host writes; relocated units too, if they have no stream of their own.
        Host => "host",
        /// Units that collection has moved.
        Moved => "moved",
        /// Cold units that collection has moved.
        Cold => "cold",
        /// Units that wear levelling has moved.
        Leveled => "leveled",
        /// Pages of the map.
        Map => "map",
        /// Host writes in SLC mode.
        Slc => "slc",
    }
}

/// A block as an observer sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// State of the block.
    pub stage: Stage,
    /// Purpose for which it was opened.
    pub stream: Stream,
    /// Number of its stream, if it is one of those that a placement chooses; `None` if nobody knows.
    pub number: Option<StreamId>,
    /// Units that hold the current version of something; 0 in [`Stage::Tables`].
    pub valid: u32,
    /// Units programmed since its erase, padding included.
    pub written: u32,
    /// Units that it has room for, as its cells are used now.
    pub units: u32,
    /// Successful erases.
    pub erases: u32,
}

impl BlockInfo {
    /// `block` of `nand`, of whose units `valid` are.
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
