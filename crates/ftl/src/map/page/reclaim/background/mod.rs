//! Background collection: runs in steps, concurrently with host commands, in virtual time.
//!
//! 1. A victim is chosen (`choose.rs`). Several victims are in progress at once; `throttle.rs` sets the
//!    number.
//! 2. The valid units of the victim are read, a few pages per step.
//! 3. Units that were read wait until they fill pages of their stream. Those still valid are programmed
//!    (`carried.rs`).
//! 4. When all copies are on flash, the map on flash is updated: translation pages in batches (`updates.rs`), a
//!    journal by a commit.
//! 5. The victim is erased, or retired.
//!
//! Every [`Reason`] takes these steps. A placement may sort the units of several victims (`sorted.rs`). A command
//! that cannot wait completes the victims in progress in one call (`finish.rs`).

mod carried;
mod choose;
mod copies;
mod finish;
mod fold;
mod slots;
mod sorted;
mod throttle;
mod updates;

use strobe_nand::{Nand, Wanted, When};
use strobe_types::{BlockId, Geometry, Ppa, Ppn, State, Stored};

use self::copies::Copies;
use self::slots::{ROUNDS, Slots};
use self::sorted::Ordered;
use crate::BACKGROUND;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::space::{FreeSpace, Watermarks};
use crate::map::page::reclaim::{Reason, Reclaimer};

/// Stage of a victim after its last copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
enum Stage {
    /// Copies remain.
    #[default]
    Moving,
    /// Waits for the next round of updates.
    Moved,
    /// Waits for the present round of updates.
    Updating,
    /// Waits for a commit, or is being erased.
    Leaving,
}

#[derive(Clone, Debug, Stored)]
struct Victim {
    block: BlockId,
    reason: Reason,
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
    /// Number of units read and not yet programmed. With a leader, also those not read yet.
    carried: u32,
    /// Units of a leader and its followers that have not arrived, the next one last.
    order: Vec<Ordered>,
    /// In-flight programs of its copies.
    programs: u32,
    /// Completion times of these programs.
    copied: Vec<When>,
    /// Part of `FreeSpace::credit` for this victim, in units.
    credited: u64,
    stage: Stage,
    /// True if host data was moved, so translation pages must be updated.
    has_moved_data: bool,
    /// False for a block that does not return to the erased blocks: retired, or permanently in SLC mode.
    is_gained: bool,
}

impl Default for Victim {
    fn default() -> Self {
        Self {
            block: BlockId::new(0),
            reason: Reason::Collect,
            valid: 0,
            left: 0,
            next: Ppa::new(0),
            end: Ppa::new(0),
            reading: Vec::new(),
            carried: 0,
            order: Vec::new(),
            programs: 0,
            copied: Vec::new(),
            credited: 0,
            stage: Stage::Moving,
            has_moved_data: false,
            is_gained: true,
        }
    }
}

#[derive(Clone, Debug, Default, State)]
pub(crate) struct Background {
    victims: Slots<Victim>,
    /// Units read and not yet programmed, with the number of their victim. One list per stream.
    carried: Vec<Vec<(Ppa, u64)>>,
    copies: Slots<Copies>,
    /// Number of victims being erased, commit included.
    erasing: u32,
    /// Completion of the present round's last batch of updates.
    updates: Option<When>,
    /// Number of the present or last round of updates, below [`ROUNDS`].
    round: u64,
    /// `Core::tick` of the last search that found no victim with enough gain, by reclaim group. 0: none yet.
    nothing_at: Vec<u64>,
    /// Number of the victim that leads others; it may have left.
    leader: Option<u64>,
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

// Tokens of events: the kind of the step, plus the number of a victim, of in-flight copies, or of a round of updates.
const READ: u64 = BACKGROUND;
const PROGRAMMED: u64 = BACKGROUND + (1 << 58);
const COMMITTED: u64 = BACKGROUND + (2 << 58);
const ERASED: u64 = BACKGROUND + (3 << 58);
const KIND: u64 = BACKGROUND | 3 << 58;

impl Background {
    /// Copies go to `streams` streams, in rows of `row_pages` pages.
    pub(crate) fn new(space: &FreeSpace, row_pages: u32, streams: usize, geometry: &Geometry) -> Self {
        let watermarks = space.watermarks;
        let automatic = || Watermarks::read_pages_for(geometry.spec().planes_per_die);
        Self {
            carried: vec![Vec::new(); streams],
            nothing_at: vec![0; space.groups.count as usize],
            read_pages: watermarks.map_or_else(automatic, |watermarks| watermarks.read_pages),
            row_units: row_pages * geometry.units_per_page(),
            ..Self::default()
        }
    }

    fn is_collecting_garbage(&self) -> bool {
        self.victims.values().any(|victim| victim.reason == Reason::Collect)
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Limit of in-flight programs: above it, a victim is not read further.
    const PROGRAMS_AHEAD: u32 = 4;

    /// Begins to empty `block`.
    pub(crate) fn begin_victim(&mut self, block: BlockId, reason: Reason) {
        if reason != Reason::Retire {
            self.core.take(block);
        }
        let number = self.add_victim(block, reason);
        let end =
            self.core.nand().geometry().first_unit(block).plus(self.core.nand().geometry().units_per_block());
        if let Some(victim) = self.background.victims.get_mut(number) {
            victim.end = end;
        }
        self.read_on(number);
    }

    /// Adds the taken `block`, none of whose units is to be read yet, to the victims in progress. Returns its
    /// number.
    fn add_victim(&mut self, block: BlockId, reason: Reason) -> u64 {
        let expected = match reason {
            Reason::Fold => BlockState::Cached,
            Reason::Retire => BlockState::Retiring,
            _ => BlockState::Closed,
        };
        assert_eq!(self.core.blocks().state(block), expected, "{reason:?} chose {block:?}");
        let valid = self.core.blocks().valid[block.index()];
        let is_gained = reason != Reason::Retire && !self.core.is_reserved(block);
        match reason {
            Reason::Wear => self.core.stats.gc.wear_blocks += 1,
            _ if self.core.is_cached(block) => self.core.stats.slc().blocks_folded += 1,
            _ => self.core.stats.gc.victims += 1,
        }
        let begins_run = reason == Reason::Collect && !self.background.is_collecting_garbage();
        self.core.stats.gc.runs += u64::from(begins_run);
        self.core.log().victims(reason.cause(), &[block]);
        self.core.show_victim(block);
        self.core.begin_emptying(block);
        self.core.space.victims_mut(block).copies_left += u64::from(valid);
        let first = self.core.nand().geometry().first_unit(block);
        let (number, victim) = self.background.victims.add();
        // Slots keep the buffers of earlier victims.
        let (mut reading, mut copied) =
            (std::mem::take(&mut victim.reading), std::mem::take(&mut victim.copied));
        reading.clear();
        copied.clear();
        *victim = Victim {
            block,
            reason,
            valid,
            left: valid,
            next: first,
            end: first,
            reading,
            copied,
            is_gained,
            ..Victim::default()
        };
        number
    }

    /// Reads the next valid units of a victim, or finishes the victim if none is left.
    fn read_on(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        if !victim.order.is_empty() {
            return self.read_in_order(number);
        }
        if !victim.reading.is_empty() || victim.programs > Self::PROGRAMS_AHEAD {
            return;
        }
        let (mut next, end, cause) = (victim.next, victim.end, victim.reason.cause());
        let mut reading = std::mem::take(&mut victim.reading);
        let per_page = self.core.nand().geometry().units_per_page();
        let mut pages = std::mem::take(&mut self.background.pages);
        pages.clear();
        while (pages.len() as u32) < self.background.read_pages {
            let Some(unit) = self.core.blocks().validity.next(next, end) else {
                next = end;
                break;
            };
            let page = self.core.nand().geometry().page_of(unit);
            next = self.core.nand().geometry().first_unit_of_page(page).plus(per_page);
            let from = reading.len();
            reading.push(unit);
            // One read covers all valid units of the page.
            if per_page > 1 {
                let others = (1..next.get() - unit.get()).map(|at| unit.plus(at));
                reading.extend(others.filter(|&ppa| self.core.blocks().validity.get(ppa)));
            }
            pages.push((page, self.core.nand().wanted(reading[from..].iter().copied())));
        }
        let arrived = (!pages.is_empty()).then(|| self.core.read_pages(&pages, cause).when);
        self.background.pages = pages;
        // Map entries are scattered in memory: fetch them while the units are being read.
        for &ppa in &reading {
            self.core.map().prefetch(self.core.owner_of(ppa));
        }
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        (victim.next, victim.reading) = (next, reading);
        match arrived {
            Some(arrived) => self.core.watch(arrived, READ + number),
            None => self.finish_victim(number),
        }
    }

    pub(crate) fn on_event(&mut self, token: u64) {
        let number = token & !KIND;
        match token & KIND {
            READ => self.on_read(number),
            PROGRAMMED => self.on_programmed(number),
            COMMITTED if number < ROUNDS => self.on_updated(number),
            COMMITTED => self.erase_victim(number),
            _ => self.on_erased(number),
        }
        self.program_last();
        self.collect_in_background();
    }

    fn on_read(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        if victim.order.is_empty() {
            self.take_arrived(number);
        } else {
            self.take_in_order(number);
        }
        if self.program_carried(false).is_err() {
            return;
        }
        self.read_on(number);
    }

    fn take_arrived(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        victim.carried += victim.reading.len() as u32;
        let reason = victim.reason;
        let mut reading = std::mem::take(&mut victim.reading);
        for unit in reading.drain(..) {
            let to = self.stream_of_copy(unit, reason);
            self.background.carried[to.index()].push((unit, number));
        }
        if let Some(victim) = self.background.victims.get_mut(number) {
            victim.reading = reading;
        }
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
        if let Some(leader) = self.background.leader {
            self.read_on(leader);
        }
    }

    /// Credits the victim with a share of its block, proportional to the valid units already moved or
    /// overwritten.
    fn update_credit(&mut self, number: u64) {
        let per_block = u64::from(self.core.nand().geometry().units_per_block());
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        let left = self.core.blocks().valid[victim.block.index()];
        let space = self.core.space.victims_mut(victim.block);
        space.copies_left -= u64::from(victim.left - left);
        victim.left = left;
        let done = u64::from(victim.valid.saturating_sub(victim.left));
        let credited = match victim.valid {
            _ if !victim.is_gained => 0,
            0 => per_block,
            valid => per_block * done / u64::from(valid),
        };
        space.credit = space.credit + credited - victim.credited;
        victim.credited = credited;
    }

    fn remove_victim(&mut self, number: u64) -> Option<BlockId> {
        let victim = self.background.victims.remove(number)?;
        let space = self.core.space.victims_mut(victim.block);
        space.credit -= victim.credited;
        space.copies_left -= u64::from(victim.left);
        self.core.end_emptying(victim.block);
        self.background.erasing -= u32::from(victim.stage == Stage::Leaving);
        Some(victim.block)
    }

    /// Updates the map on flash and erases the victim, if no unit is left to move.
    fn finish_victim(&mut self, number: u64) {
        self.update_credit(number);
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        let is_moved = victim.next >= victim.end
            && victim.reading.is_empty()
            && victim.order.is_empty()
            && victim.carried == 0
            && victim.programs == 0;
        if !is_moved || victim.stage != Stage::Moving {
            return;
        }
        if victim.has_moved_data && self.core.store.is_paged() {
            victim.stage = Stage::Moved;
            return self.begin_updates();
        }
        self.commit_victim(number);
    }

    /// Erases the victim. With a journal, commits the map first.
    fn commit_victim(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get_mut(number) else { return };
        victim.stage = Stage::Leaving;
        self.background.erasing += 1;
        if self.core.store.journal().is_none() {
            return self.erase_victim(number);
        }
        // Nothing is erased before the map on flash refers to the copies.
        match self.core.commit(When::START) {
            Ok(done) => self.core.watch(done, COMMITTED + number),
            // The log is worn out: the last epoch still refers to the block, so it must not be erased.
            Err(_) => self.keep_victim(number),
        }
    }

    /// Marks the block of a victim as retiring instead of erasing it, as the map on flash still refers to it.
    #[cold]
    fn keep_victim(&mut self, number: u64) {
        if let Some(block) = self.remove_victim(number) {
            self.core.mark_retiring(block);
        }
    }

    fn erase_victim(&mut self, number: u64) {
        let Some(victim) = self.background.victims.get(number) else { return };
        let (block, reason) = (victim.block, victim.reason);
        self.core.forget_victim(block);
        self.core.stats.gc.refreshed_blocks += u64::from(reason == Reason::Refresh);
        if reason == Reason::Retire {
            self.remove_victim(number);
            return self.core.take_out_of_service(block);
        }
        match self.core.begin_erase(When::START, block, reason.cause()) {
            Ok(done) => self.core.watch(done, ERASED + number),
            Err(_) => drop(self.remove_victim(number)),
        }
    }

    fn on_erased(&mut self, number: u64) {
        let reason = self.background.victims.get(number).map(|victim| victim.reason);
        let Some(block) = self.remove_victim(number) else { return };
        self.core.block_is_erased(block);
        // Levelling gains no space, so at most one block is levelled for each one collected.
        if reason == Some(Reason::Collect) {
            self.level_in_background();
        }
    }
}
