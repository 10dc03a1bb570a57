//! Background collection: runs in steps, concurrently with host commands, in virtual time.
//!
//! 1. A victim is chosen (`choose.rs`). Several victims are in progress at once; `throttle.rs` sets the
//!    number.
//! 2. The valid units of the victim are read, a few pages per step.
//! 3. Units that were read wait until they fill pages of their stream. Those still valid are programmed
//!    (`carried.rs`).
//! 4. When all copies are on flash and the map on flash refers to them, the victim is erased.
//!
//! Victims are relocated whole, not in steps, if units of several are sorted together or the map is
//! demand-paged (`whole.rs`). SLC cache blocks are folded by the same steps (`fold.rs`).

mod carried;
mod choose;
mod copies;
mod fold;
mod slots;
mod throttle;
mod whole;

use strobe_nand::{Cause, Nand, Timing, Wanted, When};
use strobe_types::{BlockId, Geometry, Ppa, Ppn, State, Stored};

use self::copies::Copies;
use self::slots::Slots;
use crate::BACKGROUND;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::Reclaimer;

#[derive(Clone, Debug, Stored)]
struct Victim {
    block: BlockId,
    /// Number of valid units when chosen.
    valid: u32,
    /// Valid units when last counted.
    left: u32,
    /// Next unit to read if valid.
    next: Ppa,
    /// End of the block.
    end: Ppa,
    /// Units being read.
    reading: Vec<Ppa>,
    /// Number of units read and not yet programmed.
    carried: u32,
    /// In-flight programs of its copies.
    programs: u32,
    /// Completion times of these programs.
    copied: Vec<When>,
    /// Part of `FreeSpace::credit` for this victim, in units.
    credited: u64,
    is_erasing: bool,
    /// True for an SLC cache block.
    is_cached: bool,
    /// True for a block permanently in SLC mode, which returns to the cache.
    is_reserved: bool,
}

impl Default for Victim {
    fn default() -> Self {
        Self {
            block: BlockId::new(0),
            valid: 0,
            left: 0,
            next: Ppa::new(0),
            end: Ppa::new(0),
            reading: Vec::new(),
            carried: 0,
            programs: 0,
            copied: Vec::new(),
            credited: 0,
            is_erasing: false,
            is_cached: false,
            is_reserved: false,
        }
    }
}

#[derive(Clone, Debug, Default, State)]
pub(crate) struct Background {
    victims: Slots<Victim>,
    /// Units read and not yet programmed, with the number of their victim. One list per copy stream.
    carried: Vec<Vec<(Ppa, u64)>>,
    copies: Slots<Copies>,
    /// Number of victims being erased, commit included.
    erasing: u32,
    /// `Core::tick` of the last search that found no victim with enough gain.
    nothing_at: Option<u64>,
    /// True from the relocation of whole victims until their erase is reported.
    is_collecting_whole: bool,
    /// Pages of a victim read per step.
    read_pages: u32,
    /// Units of a row: one page on each plane of a die, or fewer pages by configuration.
    row_units: u32,
    /// Buffer: victims of carried units that the host has overwritten.
    spared: Vec<u64>,
    /// Buffer: pages to read, with the parts wanted.
    pages: Vec<(Ppn, Wanted)>,
    /// Buffer: reused for `Copies::of`.
    spare: Vec<u64>,
    /// Buffer: free space by plane, for the choice of a victim.
    free_by_plane: Vec<u32>,
    /// Next block for refresh to check.
    pub(super) patrol: u32,
}

// Tokens of events: the kind of the step, plus the number of a victim or of in-flight copies.
const READ: u64 = BACKGROUND;
const PROGRAMMED: u64 = BACKGROUND + (1 << 58);
const COMMITTED: u64 = BACKGROUND + (2 << 58);
const ERASED: u64 = BACKGROUND + (3 << 58);
const KIND: u64 = BACKGROUND | 3 << 58;

impl Background {
    /// Copies go to `streams` copy streams, in rows of `row_pages` pages.
    pub(crate) fn new(
        watermarks: Option<Watermarks>,
        row_pages: u32,
        streams: usize,
        geometry: &Geometry,
    ) -> Self {
        Self {
            carried: vec![Vec::new(); streams],
            read_pages: watermarks.map_or(0, |watermarks| watermarks.read_pages),
            row_units: row_pages * geometry.units_per_page(),
            ..Self::default()
        }
    }

    fn is_collecting_garbage(&self) -> bool {
        self.victims.values().any(|victim| !victim.is_cached)
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Limit of in-flight programs: above it, a victim is not read further.
    const PROGRAMS_AHEAD: u32 = 4;

    fn begin_victim(&mut self, block: BlockId, valid: u32) {
        let (is_cached, is_reserved) = (self.core.is_cached(block), self.core.is_reserved(block));
        let expected = if is_cached { BlockState::Cached } else { BlockState::Closed };
        assert_eq!(self.core.blocks.state(block), expected, "policy chose {block:?}");
        if is_cached {
            self.core.stats.slc().blocks_folded += 1;
        } else {
            self.core.stats.gc.runs += u64::from(!self.background.is_collecting_garbage());
            self.core.stats.gc.victims += 1;
        }
        self.core.log().victims(Cause::Gc, &[block]);
        self.core.show_victim(block);
        self.core.take(block);
        self.core.blocks.begin_emptying(block);
        self.core.space.copies_left += u64::from(valid);
        let geometry = self.core.nand.geometry();
        let next = geometry.first_unit(block);
        let end = next.plus(geometry.units_per_block());
        let (number, victim) = self.background.victims.add();
        // Slots keep the buffers of earlier victims.
        let (mut reading, mut copied) =
            (std::mem::take(&mut victim.reading), std::mem::take(&mut victim.copied));
        reading.clear();
        copied.clear();
        *victim = Victim {
            block,
            valid,
            left: valid,
            next,
            end,
            reading,
            copied,
            is_cached,
            is_reserved,
            ..Victim::default()
        };
        self.read_on(number);
    }

    /// Reads the next valid units of a victim, or finishes the victim if none is left.
    fn read_on(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        if !victim.reading.is_empty() || victim.programs > Self::PROGRAMS_AHEAD {
            return;
        }
        let (mut next, end) = (victim.next, victim.end);
        let mut reading = std::mem::take(&mut victim.reading);
        let per_page = self.core.nand.geometry().units_per_page();
        let mut pages = std::mem::take(&mut self.background.pages);
        pages.clear();
        while (pages.len() as u32) < self.background.read_pages {
            let Some(unit) = self.core.blocks.validity.next(next, end) else {
                next = end;
                break;
            };
            let page = self.core.nand.geometry().page_of(unit);
            next = self.core.nand.geometry().first_unit_of_page(page).plus(per_page);
            let from = reading.len();
            reading.push(unit);
            // One read covers all valid units of the page.
            if per_page > 1 {
                let others = (1..next.get() - unit.get()).map(|at| unit.plus(at));
                reading.extend(others.filter(|&ppa| self.core.blocks.validity.get(ppa)));
            }
            pages.push((page, self.core.nand.wanted(reading[from..].iter().copied())));
        }
        let arrived = (!pages.is_empty()).then(|| self.core.nand.read_pages(&pages, Cause::Gc).when);
        self.background.pages = pages;
        // Map entries are scattered in memory: fetch them while the units are being read.
        for &ppa in &reading {
            self.core.map.prefetch(self.core.owner_of(ppa));
        }
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        (victim.next, victim.reading) = (next, reading);
        match arrived {
            Some(arrived) => self.core.nand.timing_mut().watch(arrived, READ + number),
            None => self.finish_victim(number),
        }
    }

    pub(crate) fn on_event(&mut self, token: u64) {
        let number = token & !KIND;
        match token & KIND {
            READ => self.on_read(number),
            PROGRAMMED => self.on_programmed(number),
            COMMITTED => self.erase_victim(number),
            _ => self.on_erased(number),
        }
        self.program_last();
        self.collect_in_background();
    }

    fn on_read(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        victim.carried += victim.reading.len() as u32;
        let mut reading = std::mem::take(&mut victim.reading);
        for unit in reading.drain(..) {
            let to = self.stream_of_copy(unit);
            self.background.carried[to].push((unit, number));
        }
        if let Some(victim) = self.background.victims.get_mut(number) {
            victim.reading = reading;
        }
        if self.program_carried(false).is_err() {
            return;
        }
        self.read_on(number);
    }

    fn on_programmed(&mut self, number: u64) {
        // No entry: the work was finished synchronously in the meantime.
        let Some(copies) = self.background.copies.remove(number) else { return };
        let of = std::mem::replace(&mut copies.of, std::mem::take(&mut self.background.spare));
        for &of in &of {
            let Some(victim) = self.background.victims.get_mut(of) else { continue };
            victim.programs -= 1;
            if victim.programs == 0 {
                victim.copied.clear();
            }
            if victim.next < victim.end {
                self.read_on(of);
            } else if victim.programs == 0 {
                self.finish_victim(of);
            }
        }
        self.background.spare = of;
    }

    /// Credits the victim with a share of its block, proportional to the valid units already moved or
    /// overwritten.
    fn update_credit(&mut self, number: u64) {
        let per_block = u64::from(self.core.nand.geometry().units_per_block());
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        let left = self.core.blocks.valid[victim.block.index()];
        self.core.space.copies_left -= u64::from(victim.left - left);
        victim.left = left;
        let done = u64::from(victim.valid.saturating_sub(victim.left));
        let credited = match victim.valid {
            // A block permanently in SLC mode returns to the cache: no credit.
            _ if victim.is_reserved => 0,
            0 => per_block,
            valid => per_block * done / u64::from(valid),
        };
        self.core.space.credit = self.core.space.credit + credited - victim.credited;
        victim.credited = credited;
    }

    fn remove_victim(&mut self, number: u64) -> Option<BlockId> {
        let victim = self.background.victims.remove(number)?;
        self.core.space.credit -= victim.credited;
        self.core.space.copies_left -= u64::from(victim.left);
        self.core.blocks.emptying -= 1;
        self.background.erasing -= u32::from(victim.is_erasing);
        Some(victim.block)
    }

    /// Erases the victim if no unit is left to move. With a journal, commits the map first.
    fn finish_victim(&mut self, number: u64) {
        self.update_credit(number);
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        let is_moved = victim.next >= victim.end
            && victim.reading.is_empty()
            && victim.carried == 0
            && victim.programs == 0;
        if !is_moved || std::mem::replace(&mut victim.is_erasing, true) {
            return;
        }
        self.background.erasing += 1;
        if !self.core.store.is_journaled() {
            return self.erase_victim(number);
        }
        // Nothing is erased before the map on flash refers to the copies.
        match self.core.commit(When::START) {
            Ok(done) => self.core.nand.timing_mut().watch(done, COMMITTED + number),
            Err(_) => {
                // The log is worn out: the last epoch still refers to the block, so it must not be erased.
                if let Some(block) = self.remove_victim(number) {
                    self.core.blocks.retire(block);
                }
            }
        }
    }

    fn erase_victim(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get(number) else { return };
        let block = victim.block;
        self.core.forget_victim(block);
        self.core.store.block_left(block);
        let (done, is_good) = match self.core.nand.erase(When::START, block, Cause::Gc) {
            Ok(done) => (done, true),
            Err(failed) => (failed.at, false),
        };
        if is_good {
            self.core.blocks.erased();
            self.core.count_cache_erase(block);
            return self.core.nand.timing_mut().watch(done, ERASED + number);
        }
        self.remove_victim(number);
        self.core.stats.gc.erase_failures += 1;
        self.core.take_out_of_service(block);
    }

    fn on_erased(&mut self, number: u64) {
        // Whole victims are freed by their relocation, and no victim is in progress in steps.
        if std::mem::take(&mut self.background.is_collecting_whole) {
            return;
        }
        let Some(block) = self.remove_victim(number) else { return };
        self.core.block_is_erased(block);
        // Not at end of life: with a worn-out log, no epoch could name the blocks opened for copies.
        if self.core.policies.leveler.is_some() && self.core.end_of_life.is_none() {
            let _ = self.level(When::START);
        }
    }
}
