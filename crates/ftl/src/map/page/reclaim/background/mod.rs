//! Garbage collection in steps, next to the host's work, at the time at which it is done.
//!
//! 1. A victim is chosen (`choose.rs`). Several are under way at once; `throttle.rs` says how many.
//! 2. Its valid units are read, a few pages at a time.
//! 3. Those that are still valid when they have arrived wait until they fill pages of their stream, and are programmed
//!    (`carried.rs`).
//! 4. When all of them are on flash, and the map on flash says so, the victim is erased.
//!
//! Whole victims are collected at once where several are sorted together, or the map is on flash itself (`whole.rs`).
//! Blocks of the SLC cache are folded by the same steps (`fold.rs`).

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

/// A block that is being emptied.
#[derive(Clone, Debug, Stored)]
struct Victim {
    block: BlockId,
    /// Valid units when it was chosen, and those of them that have been moved or given up since.
    valid: u32,
    left: u32,
    /// The next unit to be looked at, and the end of the block.
    next: Ppa,
    end: Ppa,
    /// Units being read.
    reading: Vec<Ppa>,
    /// Units that have been read and wait for a page to be full.
    carried: u32,
    /// Programs that are on their way.
    programs: u32,
    /// When each of them is done.
    copied: Vec<When>,
    /// Its part of what victims have earned.
    earned: u64,
    is_erasing: bool,
    /// It is of the SLC cache, and perhaps goes back to it.
    is_cached: bool,
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
            earned: 0,
            is_erasing: false,
            is_cached: false,
            is_reserved: false,
        }
    }
}

/// Background collection at work.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct Background {
    victims: Slots<Victim>,
    /// Units that have been read, by stream of relocated units, in the order in which they have arrived, with the number
    /// of their victim.
    carried: Vec<Vec<(Ppa, u64)>>,
    copies: Slots<Copies>,
    /// Victims that wait for their erase: there is nothing left to be done for them.
    erasing: u32,
    /// There was nothing to gain when a victim was last looked for, at this tick.
    nothing_at: Option<u64>,
    /// Whole victims are being collected, until the token of their erase.
    is_collecting_whole: bool,
    /// Pages of a victim that are read at a time.
    read_pages: u32,
    /// Units of a row: a page on each plane of a die, or as many as are to be together.
    row_units: u32,
    /// Victims units of which the host has overwritten while they waited for a program.
    spared: Vec<u64>,
    /// Pages that are about to be read, with the number of their units.
    pages: Vec<(Ppn, Wanted)>,
    /// Memory for victims' numbers.
    spare: Vec<u64>,
    /// Room on each plane, while a victim is chosen.
    plane_room: Vec<u32>,
    /// The block whose age is looked at next.
    pub(super) patrol: u32,
}

/// Kinds of tokens.
const READ: u64 = BACKGROUND;
const PROGRAMMED: u64 = BACKGROUND + (1 << 58);
const COMMITTED: u64 = BACKGROUND + (2 << 58);
const ERASED: u64 = BACKGROUND + (3 << 58);
const KIND: u64 = BACKGROUND | 3 << 58;

impl Background {
    /// Copies are programmed `row_pages` pages at a time, to `streams` streams.
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

    /// True if victims of the policy are being emptied.
    fn is_collecting_garbage(&self) -> bool {
        self.victims.values().any(|victim| !victim.is_cached)
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Programs of a victim's units on their way beyond which no more of it is read.
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
        let geometry = self.core.nand.geometry();
        let next = geometry.first_unit(block);
        let end = next.plus(geometry.units_per_block());
        let (number, victim) = self.background.victims.add();
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

    /// Reads the next valid units of a victim, or erases it when there are none.
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
            if per_page > 1 {
                let others = (1..next.get() - unit.get()).map(|at| unit.plus(at));
                reading.extend(others.filter(|&ppa| self.core.blocks.validity.get(ppa)));
            }
            pages.push((page, self.core.nand.wanted(reading[from..].iter().copied())));
        }
        let arrived = (!pages.is_empty()).then(|| self.core.nand.read_pages(&pages, Cause::Gc).when);
        self.background.pages = pages;
        // Map entries are anywhere in memory: they are near when the units have arrived.
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

    /// Goes on where flash has reported `token`.
    pub(crate) fn go_on_with(&mut self, token: u64) {
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

    /// Notes what a victim has earned: its whole block, in the measure in which it has been emptied.
    fn note_earned(&mut self, number: u64) {
        let per_block = u64::from(self.core.nand.geometry().units_per_block());
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        victim.left = self.core.blocks.valid[victim.block.index()];
        let done = u64::from(victim.valid.saturating_sub(victim.left));
        let earned = match victim.valid {
            // Its block goes back to the SLC cache.
            _ if victim.is_reserved => 0,
            0 => per_block,
            valid => per_block * done / u64::from(valid),
        };
        self.core.space.credit = self.core.space.credit + earned - victim.earned;
        victim.earned = earned;
    }

    /// Takes a victim off the list, and what it has earned.
    fn remove_victim(&mut self, number: u64) -> Option<BlockId> {
        let victim = self.background.victims.remove(number)?;
        self.core.space.credit -= victim.earned;
        self.core.blocks.emptying -= 1;
        self.background.erasing -= u32::from(victim.is_erasing);
        Some(victim.block)
    }

    /// Erases a victim, or prepares that, if nothing of it is left to be moved.
    fn finish_victim(&mut self, number: u64) {
        self.note_earned(number);
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
        // Nothing is erased before the map on flash says where its units are now.
        match self.core.commit(When::START) {
            Ok(done) => self.core.nand.timing_mut().watch(done, COMMITTED + number),
            Err(_) => {
                // The block is not to be erased, and no candidate any more.
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
            self.core.note_cache_erase(block);
            return self.core.nand.timing_mut().watch(done, ERASED + number);
        }
        self.remove_victim(number);
        self.core.take_out_of_service(block);
    }

    fn on_erased(&mut self, number: u64) {
        if std::mem::take(&mut self.background.is_collecting_whole) {
            return;
        }
        let Some(block) = self.remove_victim(number) else { return };
        self.core.block_is_erased(block);
        // At the end of life nothing more is moved: perhaps no epoch names the blocks that would be written.
        if self.core.policies.leveler.is_some() && self.core.end_of_life.is_none() {
            let _ = self.level(When::START);
        }
    }
}
