//! Garbage collection in steps, beside the host's work, at the time at which it is done.
//!
//! A victim is chosen, its valid units are read a few at a time, those that are still valid when they have arrived are
//! programmed, and when all of them are on flash and the map says so the block is erased. Several victims are under
//! way at once. Three marks, in blocks of room, say what goes on: below `soft` victims are chosen; below `pace` the host
//! waits, so that it gets what collection has earned and no more; below the least that is safe (`min_free_blocks`) it
//! gets no further block, and whoever cannot wait has `collect.rs` finish the work on the spot.

mod whole;

use std::collections::BTreeMap;

use strobe_nand::{Cause, Nand, Timing, Unit, When};
use strobe_types::{BlockId, Geometry, Ppa};

use super::{BlockState, PageMap};
use crate::gc::{BlockView, Migration, VictimPolicy};
use crate::{BACKGROUND, FtlError};

/// How collection in the background is paced, in blocks of room: erased ones, and what is left of open ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Victims are chosen below this.
    pub soft: u32,
    /// The host waits below this.
    pub pace: u32,
    /// Victims under way at once, at most.
    pub victims: u32,
}

/// A block that is being emptied.
#[derive(Clone, Debug)]
struct Victim {
    block: BlockId,
    /// Valid units when it was chosen, and those of them that have been moved or given up since.
    valid: u32,
    left: u32,
    /// The next unit to be looked at, and the end of the block.
    next: Ppa,
    end: Ppa,
    /// What is being read.
    reading: Vec<Ppa>,
    /// Units that have been read and wait for a page to be full.
    carried: u32,
    /// Programs that are on their way.
    programs: u32,
    /// When those of them are done that have been issued so far.
    copied: When,
    /// Its part of [`Background::earned`].
    earned: u64,
    is_erasing: bool,
}

/// A program of copies on its way.
#[derive(Clone, Debug)]
struct Copies {
    /// Where they go: runs of units.
    runs: Vec<(Ppa, u32)>,
    /// Where they come from, one after the other.
    sources: Vec<Ppa>,
    /// The victims they are of.
    of: Vec<u64>,
}

/// What goes on in the background.
#[derive(Clone, Debug, Default)]
pub(super) struct Background {
    marks: Option<Marks>,
    victims: BTreeMap<u64, Victim>,
    /// Units that have been read, in the order in which they have arrived, with the number of their victim.
    carried: Vec<(Ppa, u64)>,
    copies: BTreeMap<u64, Copies>,
    /// The number of the next victim or program.
    next: u64,
    /// Units earned so far by the victims under way: what their erases will give, in the measure in which they have
    /// been emptied.
    earned: u64,
    /// There was nothing to gain when a victim was last looked for, at this tick.
    nothing_at: Option<u64>,
    /// Whole victims are being collected, until the token of their erase.
    is_collecting_whole: bool,
    /// Pages of a victim that are read at a time.
    read_pages: u32,
    /// Units of a row: a page on each plane of a die.
    row_units: u32,
    spare: Vec<(Ppa, u32)>,
}

/// What a token stands for.
const READ: u64 = BACKGROUND;
const PROGRAMMED: u64 = BACKGROUND + (1 << 58);
const COMMITTED: u64 = BACKGROUND + (2 << 58);
const ERASED: u64 = BACKGROUND + (3 << 58);
const KIND: u64 = BACKGROUND | 3 << 58;

impl Background {
    pub(super) fn new(marks: Option<Marks>, geometry: &Geometry) -> Self {
        let planes = geometry.spec().planes_per_die;
        Self {
            marks,
            read_pages: Self::READ_PAGES.max(2 * planes),
            row_units: planes * geometry.units_per_page(),
            ..Self::default()
        }
    }

    /// Pages of a victim that are read at a time, at least.
    const READ_PAGES: u32 = 8;

    /// Whether units of blocks that are being emptied are still valid.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.victims.is_empty()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The block of the units from `first` to `end` is about to be erased: copies that come from there, or go there, are
    /// found on their way no more.
    pub(super) fn forget(&mut self, first: Ppa, end: Ppa) {
        let is_there = |ppa: Ppa| ppa >= first && ppa < end;
        for copies in self.copies.values_mut() {
            let goes = copies.runs.iter().any(|&(to, _)| is_there(to));
            if goes || copies.sources.iter().any(|&from| is_there(from)) {
                copies.runs.clear();
            }
        }
    }

    /// Where the copy that is on its way to `ppa` comes from.
    pub(super) fn source_of(&self, ppa: Ppa) -> Option<Ppa> {
        self.copies.values().find_map(|copies| {
            let mut before = 0;
            for &(first, count) in &copies.runs {
                match ppa.get().checked_sub(first.get()) {
                    Some(at) if at < count => return copies.sources.get((before + at) as usize).copied(),
                    _ => before += count,
                }
            }
            None
        })
    }
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Programs of a victim's units on their way beyond which no more of it is read.
    const PROGRAMS_AHEAD: u32 = 4;

    /// Room in units: erased blocks, what is left of open ones, and what victims under way have earned so far.
    fn room(&self) -> u64 {
        let geometry = self.nand.geometry();
        let open: u64 = self.streams.iter().map(|stream| u64::from(stream.room_pages())).sum();
        u64::from(self.blocks.free.count()) * u64::from(geometry.units_per_block())
            + open * u64::from(geometry.units_per_page())
            + self.background.earned
    }

    /// Whether the host may write now, rather than wait for what collection is about to earn.
    #[inline]
    pub(super) fn has_room_for_host(&self) -> bool {
        let Some(marks) = self.background.marks else { return true };
        if !self.background.is_at_work() || self.end_of_life.is_some() {
            return true;
        }
        let needs_block = self.streams[super::HOST].next_pages().is_none();
        if needs_block && self.must_collect() && self.blocks.retiring.is_empty() {
            return false;
        }
        self.room() > self.room_of(marks.pace)
    }

    /// Lets collection begin, if there is reason to.
    #[inline]
    pub(super) fn collect_in_background(&mut self) {
        let Some(marks) = self.background.marks else { return };
        if self.room() < self.room_of(marks.soft) {
            self.choose_in_background(marks);
        }
    }

    fn choose_in_background(&mut self, marks: Marks) {
        if self.end_of_life.is_some() || self.background.nothing_at == Some(self.tick) {
            return;
        }
        if self.config.migration != Migration::None || self.store.is_paged() {
            return self.collect_whole();
        }
        while (self.background.victims.len() as u32) < marks.victims
            && self.room() < self.room_of(marks.soft)
            && self.has_room_for_victim()
        {
            let units_per_block = self.nand.geometry().units_per_block();
            let view = BlockView { valid: &self.blocks.valid, units_per_block, tick: self.tick };
            let Some(block) = self.policy.choose(&view, &mut self.rng) else {
                self.background.nothing_at = Some(self.tick);
                return;
            };
            let valid = self.blocks.valid[block.index()];
            if valid + self.least_gain() > units_per_block {
                self.background.nothing_at = Some(self.tick);
                return;
            }
            self.begin_victim(block, valid);
        }
    }

    /// Whether one more victim can be emptied whatever becomes of those under way: its units fit into the erased blocks
    /// beyond those that are kept.
    fn has_room_for_victim(&self) -> bool {
        if self.background.victims.is_empty() {
            return true;
        }
        let geometry = self.nand.geometry();
        let left: u64 = self.background.victims.values().map(|victim| u64::from(victim.left)).sum();
        let wanted = (left / u64::from(geometry.units_per_block())) as u32
            + self.streams[self.roles.hot].lanes_without_room()
            + 2;
        self.blocks.free.count() > wanted
    }

    fn begin_victim(&mut self, block: BlockId, valid: u32) {
        assert_eq!(self.blocks.state(block), BlockState::Closed, "policy chose {block:?}");
        if self.background.victims.is_empty() {
            self.stats.gc.runs += 1;
        }
        self.stats.gc.victims += 1;
        self.take(block);
        self.blocks.states[block.index()] = BlockState::Emptying;
        let geometry = self.nand.geometry();
        let next = geometry.first_unit(block);
        let victim = Victim {
            block,
            valid,
            left: valid,
            next,
            end: next.plus(geometry.units_per_block()),
            reading: Vec::new(),
            carried: 0,
            programs: 0,
            copied: When::START,
            earned: 0,
            is_erasing: false,
        };
        let number = self.background.number();
        self.background.victims.insert(number, victim);
        self.read_on(number);
    }

    /// Reads the next valid units of a victim, or erases it when there are none.
    fn read_on(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(&number) else { return };
        if !victim.reading.is_empty() || victim.programs > Self::PROGRAMS_AHEAD {
            return;
        }
        let (mut next, end) = (victim.next, victim.end);
        let mut reading = std::mem::take(&mut victim.reading);
        let per_page = self.nand.geometry().units_per_page();
        let (mut pages, mut arrived) = (0, None);
        while next < end && pages < self.background.read_pages {
            let from = reading.len();
            reading
                .extend((0..per_page).map(|at| next.plus(at)).filter(|&ppa| self.blocks.validity.get(ppa)));
            let units = (reading.len() - from) as u32;
            if units > 0 {
                let page = self.nand.geometry().page_of(next);
                // Reads of one block come in the order of their issue: when the last one is there all are.
                arrived = Some(self.nand.read(When::START, page, units, Cause::Gc));
                pages += 1;
            }
            next = next.plus(per_page);
        }
        let Some(victim) = self.background.victims.get_mut(&number) else { return };
        (victim.next, victim.reading) = (next, reading);
        match arrived {
            Some(arrived) => self.nand.timing_mut().watch(arrived, READ + number),
            None => self.finish_victim(number),
        }
    }

    /// Goes on where flash has reported `token`.
    pub(super) fn go_on_with(&mut self, token: u64) {
        let number = token & !KIND;
        match token & KIND {
            READ => self.has_read(number),
            PROGRAMMED => self.has_programmed(number),
            COMMITTED => self.erase_victim(number),
            _ => self.has_erased(number),
        }
        self.program_last();
        self.collect_in_background();
    }

    fn has_read(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(&number) else { return };
        let read = std::mem::take(&mut victim.reading);
        victim.carried += read.len() as u32;
        self.background.carried.extend(read.into_iter().map(|ppa| (ppa, number)));
        if self.program_carried(false).is_err() {
            return;
        }
        self.read_on(number);
    }

    /// Programs the units that have been read: whole rows of pages, one on each plane of a die, so that the planes
    /// share the time of the array; the rest, too, if it is `to_the_end`.
    fn program_carried(&mut self, to_the_end: bool) -> Result<(), FtlError> {
        let row = self.background.row_units as usize;
        if !to_the_end && self.background.carried.len() < row {
            return Ok(());
        }
        let mut carried = std::mem::take(&mut self.background.carried);
        // What the host has overwritten meanwhile need not be moved.
        let (blocks, victims) = (&self.blocks, &mut self.background.victims);
        let mut spared: Vec<u64> = Vec::new();
        carried.retain(|&(ppa, number)| {
            let is_valid = blocks.validity.get(ppa);
            if !is_valid && let Some(victim) = victims.get_mut(&number) {
                victim.carried -= 1;
                spared.push(number);
            }
            is_valid
        });
        let count = if to_the_end { carried.len() } else { carried.len() - carried.len() % row };
        let result = self.program_copies(&carried[..count]);
        match result {
            Ok(()) => drop(carried.drain(..count)),
            // The end of life: nothing more is moved.
            Err(_) => carried.clear(),
        }
        self.background.carried = carried;
        // That may have been all that was left of a victim.
        for number in spared {
            self.finish_victim(number);
        }
        result
    }

    fn program_copies(&mut self, copies: &[(Ppa, u64)]) -> Result<(), FtlError> {
        if copies.is_empty() {
            return Ok(());
        }
        let mut units = std::mem::take(&mut self.scratch.chunk);
        units.clear();
        for &(ppa, _) in copies {
            units.push(Unit { lpn: self.owner_of(ppa), payload: self.nand.payload(ppa) });
        }
        let mut sources = copies.iter();
        let mut runs = std::mem::take(&mut self.background.spare);
        let done = self.write_pages(When::START, self.roles.hot, Cause::Gc, &units, |ftl, run, to| {
            for (at, (unit, &(source, _))) in (0..).zip(run.iter().zip(&mut sources)) {
                ftl.remap(unit.lpn, source, to.plus(at));
                let block = ftl.nand.geometry().block_of(source);
                ftl.blocks.invalidate(source, block);
                ftl.policy.written(to.plus(at), ftl.tick);
            }
            runs.push((to, run.len() as u32));
            if ftl.store.is_journaled() {
                ftl.note_run(run, to);
            }
        });
        units.clear();
        self.scratch.chunk = units;
        let done = done?;
        self.stats.gc.units_moved += copies.len() as u64;
        let number = self.background.number();
        let mut of: Vec<u64> = Vec::new();
        for &(_, victim) in copies {
            if let Some(entry) = self.background.victims.get_mut(&victim) {
                entry.carried -= 1;
                if of.last() != Some(&victim) {
                    of.push(victim);
                }
            }
        }
        of.sort_unstable();
        of.dedup();
        for &victim in &of {
            let Some(entry) = self.background.victims.get_mut(&victim) else { continue };
            entry.programs += 1;
            let before = entry.copied;
            let copied = self.nand.both(before, done);
            if let Some(entry) = self.background.victims.get_mut(&victim) {
                entry.copied = copied;
            }
            self.note_earned(victim);
        }
        let sources = copies.iter().map(|&(ppa, _)| ppa).collect();
        self.background.copies.insert(number, Copies { runs, sources, of });
        self.nand.timing_mut().watch(done, PROGRAMMED + number);
        Ok(())
    }

    fn has_programmed(&mut self, number: u64) {
        let Some(copies) = self.background.copies.remove(&number) else { return };
        let Copies { mut runs, of, .. } = copies;
        runs.clear();
        self.background.spare = runs;
        for of in of {
            let Some(victim) = self.background.victims.get_mut(&of) else { continue };
            victim.programs -= 1;
            if victim.next < victim.end {
                self.read_on(of);
            } else if victim.programs == 0 {
                self.finish_victim(of);
            }
        }
    }

    /// Programs units that wait for a page to be full, if nobody brings any more.
    fn program_last(&mut self) {
        let brings = |victim: &Victim| victim.next < victim.end || !victim.reading.is_empty();
        if !self.background.carried.is_empty() && !self.background.victims.values().any(brings) {
            // An error is the end of life, which whoever writes next is told.
            let _ = self.program_carried(true);
        }
    }

    /// Notes what a victim has earned: its whole block, in the measure in which it has been emptied.
    fn note_earned(&mut self, number: u64) {
        let per_block = u64::from(self.nand.geometry().units_per_block());
        let Some(victim) = self.background.victims.get_mut(&number) else { return };
        victim.left = self.blocks.valid[victim.block.index()];
        let done = u64::from(victim.valid.saturating_sub(victim.left));
        let earned = match victim.valid {
            0 => per_block,
            valid => per_block * done / u64::from(valid),
        };
        self.background.earned = self.background.earned + earned - victim.earned;
        victim.earned = earned;
    }

    /// Takes a victim off the list, and what it has earned.
    fn remove_victim(&mut self, number: u64) -> Option<BlockId> {
        let victim = self.background.victims.remove(&number)?;
        self.background.earned -= victim.earned;
        Some(victim.block)
    }

    /// Erases a victim, or prepares that, if nothing of it is left to be moved.
    fn finish_victim(&mut self, number: u64) {
        self.note_earned(number);
        let Some(victim) = self.background.victims.get_mut(&number) else { return };
        let is_moved = victim.next >= victim.end
            && victim.reading.is_empty()
            && victim.carried == 0
            && victim.programs == 0;
        if !is_moved || std::mem::replace(&mut victim.is_erasing, true) {
            return;
        }
        let copied = victim.copied;
        if !self.store.is_journaled() {
            return self.erase_victim(number);
        }
        // Nothing is erased before the map on flash says where its units are now.
        match self.commit(copied) {
            Ok(done) => self.nand.timing_mut().watch(done, COMMITTED + number),
            Err(_) => {
                // The block is not to be erased, and no candidate any more.
                if let Some(block) = self.remove_victim(number) {
                    self.blocks.retire(block);
                }
            }
        }
    }

    fn erase_victim(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get(&number) else { return };
        let block = victim.block;
        self.store.block_left(block);
        let (done, is_good) = match self.nand.erase(When::START, block, Cause::Gc) {
            Ok(done) => (done, true),
            Err(failed) => (failed.at, false),
        };
        if is_good {
            return self.nand.timing_mut().watch(done, ERASED + number);
        }
        self.remove_victim(number);
        self.take_out_of_service(block);
    }

    fn has_erased(&mut self, number: u64) {
        if std::mem::take(&mut self.background.is_collecting_whole) {
            return;
        }
        let Some(block) = self.remove_victim(number) else { return };
        self.block_is_erased(block);
        if self.leveler.is_some() {
            let mut scratch = std::mem::take(&mut self.scratch);
            let _ = self.level(When::START, &mut scratch);
            self.scratch = scratch;
        }
    }
}
