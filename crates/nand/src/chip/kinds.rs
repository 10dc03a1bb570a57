//! Chip variants: pages in any order, word lines, SLC mode, and another timing model.

use super::Chip;
use super::undo::UndoLog;
use crate::cut::Cuts;
use crate::{Medium, Timing, Wanted};

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Lets a fresh chip program the pages of a block in any order, each once between erases. Small-page SLC
    /// chips allow this (Samsung K9F1208 limits only the number of partial programs of a page). Larger pages
    /// and more levels per cell disturb their neighbours and must be programmed in order.
    #[must_use]
    pub fn in_any_order(mut self) -> Self {
        self.programmed = Some(vec![false; self.geometry.pages() as usize]);
        self
    }

    /// Makes each page a word line of `parts` flash pages, programmed together and read one by one. `parts`
    /// is 1 to [`Wanted::PARTS_MOST`] and divides the mapping units of a page.
    #[must_use]
    pub fn in_word_lines(mut self, parts: u32) -> Self {
        let divides = (1..=Wanted::PARTS_MOST as u32).contains(&parts)
            && self.geometry.units_per_page().is_multiple_of(parts);
        assert!(divides, "{parts} flash pages to a word line of {} units", self.geometry.units_per_page());
        self.parts = parts;
        self
    }

    /// Enables SLC mode for cells of `bits` bits; 0 disables it.
    ///
    /// # Panics
    /// If the pages of a block are not a multiple of `bits`, or if the chip takes pages in any order.
    #[must_use]
    pub fn with_slc(mut self, bits: u32) -> Self {
        let pages = self.geometry.pages_per_block();
        assert!(bits == 0 || pages.is_multiple_of(bits), "{pages} pages of {bits} bits");
        assert!(bits == 0 || self.programmed.is_none(), "SLC mode and pages in any order");
        self.slc_pages = pages.checked_div(bits).unwrap_or(0);
        self
    }

    /// Replaces the timing model by `timing`. No operation may be in flight.
    pub fn with_timing<U: Timing>(self, timing: U) -> Chip<U, M> {
        debug_assert!(self.timing.next_event().is_none(), "an operation is in flight");
        // Planned cuts and the undo log refer to operations of the old timing model.
        let cuts = Cuts::default();
        let Self {
            geometry,
            oob_lpn,
            blocks,
            counts,
            wear,
            program_fails,
            faults,
            slc_pages,
            programmed,
            watched,
            parts,
            page_by_page,
            retries,
            stop,
            medium,
            ..
        } = self;
        let undo_log = UndoLog::default();
        Chip {
            geometry,
            oob_lpn,
            blocks,
            counts,
            wear,
            program_fails,
            faults,
            slc_pages,
            programmed,
            watched,
            parts,
            page_by_page,
            cuts,
            undo_log,
            retries,
            stop,
            timing,
            medium,
        }
    }
}
