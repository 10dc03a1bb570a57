//! Construction of a chip, fresh or from an image.

use strobe_types::{Geometry, Prng, StopFlag};

use super::undo::UndoLog;
use super::{Block, Chip};
use crate::cut::Cuts;
use crate::wear::factory_bad;
use crate::{BlockState, Medium, OpCounts, Timing, WearConfig};

pub(crate) struct Restored {
    pub(crate) oob_lpn: Vec<u32>,
    pub(crate) blocks: Vec<BlockState>,
    pub(crate) counts: OpCounts,
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Host memory for a chip of this geometry, in bytes.
    pub fn memory_bytes(geometry: &Geometry) -> u64 {
        let (per_unit, per_page) = M::footprint(geometry);
        u64::from(geometry.units()) * (4 + per_unit)
            + u64::from(geometry.pages()) * per_page
            + u64::from(geometry.blocks()) * std::mem::size_of::<Block>() as u64
    }

    /// Host memory for a chip of this geometry before any write, in bytes.
    pub fn empty_memory_bytes(geometry: &Geometry) -> u64 {
        u64::from(geometry.units()) * 4
            + M::empty_footprint(geometry)
            + u64::from(geometry.blocks()) * std::mem::size_of::<Block>() as u64
    }

    /// A fresh array: every block erased, factory-bad blocks marked.
    ///
    /// `seed` decides which blocks are bad and which programs fail.
    pub fn new(geometry: Geometry, wear: WearConfig, timing: T, seed: u64) -> Self {
        let medium = M::new(&geometry);
        Self::on_medium(geometry, wear, timing, seed, medium)
    }

    pub(crate) fn on_medium(geometry: Geometry, wear: WearConfig, timing: T, seed: u64, medium: M) -> Self {
        let bad = factory_bad(geometry.blocks(), &wear, seed);
        let fresh = Restored {
            oob_lpn: vec![0; geometry.units() as usize],
            blocks: bad.into_iter().map(|bad| BlockState { bad, ..BlockState::default() }).collect(),
            counts: OpCounts::default(),
        };
        Self::restore(geometry, wear, timing, seed, medium, fresh)
    }

    pub(crate) fn restore(
        geometry: Geometry,
        wear: WearConfig,
        timing: T,
        seed: u64,
        medium: M,
        restored: Restored,
    ) -> Self {
        let Restored { oob_lpn, blocks, counts } = restored;
        Self {
            oob_lpn: oob_lpn.into(),
            blocks: blocks.into_iter().map(Block::from).collect(),
            slc_pages: 0,
            programmed: None,
            watched: None,
            parts: 1,
            page_by_page: wear.program_fail_rate > 0.0,
            wear,
            // The stream depends on past operations: a reopened image must not repeat the failures of the
            // fresh array.
            program_fails: Prng::derive(seed.wrapping_add(counts.changes()), "program-fail"),
            counts,
            cuts: Cuts::default(),
            undo_log: UndoLog::default(),
            retries: None,
            faults: None,
            stop: StopFlag::default(),
            timing,
            medium,
            geometry,
        }
    }
}
