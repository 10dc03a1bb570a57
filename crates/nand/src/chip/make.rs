//! How a chip is made: fresh, from an image, or from another one.

use strobe_types::{Geometry, Prng};

use super::undo::OnTheirWay;
use super::{Block, Chip};
use crate::cut::Cuts;
use crate::wear::factory_bad;
use crate::{BlockState, Medium, OpCounts, Timing, WearConfig};

/// What a chip knows beside what its medium keeps, as read back from an image.
pub(crate) struct Restored {
    /// LPN of each programmed unit, [`PADDING`] where there is none.
    pub(crate) oob_lpn: Vec<u32>,
    pub(crate) blocks: Vec<BlockState>,
    pub(crate) counts: OpCounts,
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// A fresh array: every block erased, factory-bad ones marked.
    ///
    /// `seed` decides which blocks are bad and which programs fail.
    pub fn new(geometry: Geometry, wear: WearConfig, timing: T, seed: u64) -> Self {
        let medium = M::new(&geometry);
        Self::on_medium(geometry, wear, timing, seed, medium)
    }

    /// [`Chip::new`] on a given medium, which is empty.
    pub(crate) fn on_medium(geometry: Geometry, wear: WearConfig, timing: T, seed: u64, medium: M) -> Self {
        let bad = factory_bad(geometry.blocks(), &wear, seed);
        let fresh = Restored {
            oob_lpn: vec![0; geometry.units() as usize],
            blocks: bad.into_iter().map(|bad| BlockState { bad, ..BlockState::default() }).collect(),
            counts: OpCounts::default(),
        };
        Self::restore(geometry, wear, timing, seed, medium, fresh)
    }

    /// The chip that was kept as `restored` and `medium`.
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
            oob_lpn,
            blocks: blocks.into_iter().map(Block::from).collect(),
            slc_pages: 0,
            programmed: None,
            page_by_page: wear.program_fail_rate > 0.0,
            wear,
            // Not the same chances again as when the array was new.
            faults: Prng::derive(seed.wrapping_add(counts.changes()), "program-fail"),
            counts,
            cuts: Cuts::default(),
            on_their_way: OnTheirWay::default(),
            retries: None,
            timing,
            medium,
            geometry,
        }
    }

    /// The same, fresh, chip for programs in any order of the pages of a block, each once between erases,
    /// as small-page single-level chips allow (Samsung K9F1208: only the number of partial programs of a
    /// page is limited). Larger pages and more levels per cell disturb their neighbours and must be
    /// programmed in order.
    #[must_use]
    pub fn in_any_order(mut self) -> Self {
        self.programmed = Some(vec![false; self.geometry.pages() as usize]);
        self
    }

    /// The same chip, whose cells hold `bits` bits each, so that its blocks can be in SLC mode; 0: they cannot.
    ///
    /// # Panics
    /// If the pages of a block do not divide by `bits`, or if it takes pages in any order, which such cells do not.
    #[must_use]
    pub fn with_slc(mut self, bits: u32) -> Self {
        let pages = self.geometry.pages_per_block();
        assert!(bits == 0 || pages.is_multiple_of(bits), "{pages} pages of {bits} bits");
        assert!(bits == 0 || self.programmed.is_none(), "SLC mode and pages in any order");
        self.slc_pages = pages.checked_div(bits).unwrap_or(0);
        self
    }

    /// The same chip with the times of `timing`. Nothing may be on its way.
    pub fn with_timing<U: Timing>(self, timing: U) -> Chip<U, M> {
        debug_assert!(self.timing.next_event().is_none(), "an operation is on its way");
        let cuts = Cuts::default();
        let Self {
            geometry,
            oob_lpn,
            blocks,
            counts,
            wear,
            faults,
            slc_pages,
            programmed,
            page_by_page,
            retries,
            medium,
            ..
        } = self;
        let on_their_way = OnTheirWay::default();
        Chip {
            geometry,
            oob_lpn,
            blocks,
            counts,
            wear,
            faults,
            slc_pages,
            programmed,
            page_by_page,
            cuts,
            on_their_way,
            retries,
            timing,
            medium,
        }
    }
}
