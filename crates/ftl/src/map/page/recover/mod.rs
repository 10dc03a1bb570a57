//! Recovery of the map after a power cut.
//!
//! 1. The log yields the map at the end of the last epoch. No unit that this map refers to has been erased
//!    since.
//! 2. Blocks that were open in this epoch are scanned for newer pages. No other block has newer pages, as an
//!    epoch names each block before its first program.
//! 3. Each newer page names its owner in the out-of-band area and replaces the owner's map entry.
//! 4. Valid units, owners and block states are derived from the map.
//! 5. The result is made durable, empty blocks are erased, and the reserve of erased blocks is restored.
//!
//! Every logical unit then has its version at the end of the epoch, or a later one.

mod rescan;

use strobe_nand::{Cause, Nand, When};
use strobe_types::{BlockId, CellMode, Geometry, Lpn, Ppa, SimTime, nonzero};

use crate::gc::VictimPolicy;
use crate::journal::{Journal, Log, Tables};
use crate::map::page::PageMap;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::core::{Core, Stopped};
use crate::map::page::map::sharing::Sharing;
use crate::map::page::map::store::MapStore;
use crate::map::page::reclaim::Reason;
use crate::place::{Placement, StreamId};
use crate::recovery::damaged;
use crate::scan::{scan, sequence_in, stream_on_flash};
use crate::{FtlError, Recovery, RecoveryError};

pub(crate) struct Restorer<'a, N: Nand, V>(pub(crate) &'a mut Core<N, V>);

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Recovers a drive from `nand` after a power cut; power returns at `now`. `policy` is a fresh one.
    /// Temperatures, block ages and the state of wear levelling are lost.
    ///
    /// Cost: reads of the live log (at most two copies of the tables, plus the journal between them) and of pages
    /// written since the last epoch. With demand paging: reads of every page's out-of-band area, plus a read and a
    /// program for each outdated translation page.
    pub fn restart(
        nand: N,
        policy: V,
        config: PageMapConfig,
        now: SimTime,
    ) -> Result<(Self, Recovery), RecoveryError> {
        Self::restart_with_placement(nand, policy, None, config, now)
    }

    /// [`PageMap::restart`] with the placement of [`PlacementKind::Own`](crate::PlacementKind::Own).
    pub fn restart_with_placement(
        nand: N,
        policy: V,
        placement: Option<Box<dyn Placement>>,
        config: PageMapConfig,
        now: SimTime,
    ) -> Result<(Self, Recovery), RecoveryError> {
        Self::restart_at(nand, policy, placement, config, now, 1)
    }

    /// [`PageMap::restart`] with a policy whose last tick was `tick`.
    pub(crate) fn restart_at(
        mut nand: N,
        policy: V,
        placement: Option<Box<dyn Placement>>,
        config: PageMapConfig,
        now: SimTime,
        tick: u64,
    ) -> Result<(Self, Recovery), RecoveryError> {
        if !config.durable {
            return Err(RecoveryError::Volatile);
        }
        if let Some(translation) = &config.translation {
            return Self::restart_paged(nand, policy, placement, config, translation, now, tick);
        }
        let mut report = Recovery::new(now);
        let geometry = nand.geometry().clone();
        let demand = config.log_demand(&geometry);
        let (log, pages, illegible) = Log::find(&mut nand, config.map_blocks(&geometry), &mut report)?;
        let tables = [config.logical_units, config.virtual_map_entries];
        let mut journal = Journal::new(&geometry, demand, log, tables);
        let found = Tables::of(&pages, &journal, &mut report)?;
        journal.resume(&pages, illegible);
        let mut core = Core::new(nand, policy, placement, config, MapStore::Journaled(Box::new(journal)));
        core.tick = found.clock.tick.max(tick);
        let mut restorer = Restorer(&mut core);
        // If the end of the log is missing, recovery must fail: later data would be lost unnoticed.
        restorer.check_nothing_is_newer(&found)?;
        restorer.adopt(found, &mut report)?;
        let mut ftl = Self::of(core);
        ftl.finish(&mut report);
        Ok((ftl, report))
    }

    /// Makes recovered changes durable, erases empty blocks as needed, and restores the reserve.
    pub(crate) fn finish(&mut self, report: &mut Recovery) {
        self.core.streams.resume_handles();
        // An error means that the log is worn out: `commit` has ended the drive's life, and reads continue.
        let _ = self.core.commit(report.now());
        report.wait(&mut self.core.nand);
        let is_empty = |block: &BlockId| {
            self.core.blocks.state(*block) == BlockState::Closed && self.core.blocks.valid[block.index()] == 0
        };
        let empty: Vec<BlockId> = self.core.blocks.usable().filter(is_empty).collect();
        for block in empty {
            if self.core.check_stop().is_err() {
                break;
            }
            self.core.turn_to_group_of(block);
            if self.core.free_blocks() >= self.core.space.min_free_blocks {
                continue;
            }
            self.core.take(block);
            self.core.erase(report.now(), block, Cause::Recovery);
            report.blocks_erased += 1;
        }
        report.wait(&mut self.core.nand);
        if self.core.end_of_life.is_none() {
            self.core.retire_if_worn_out();
        }
        self.restore_reserve(report.now());
    }

    fn restore_reserve(&mut self, now: When) {
        // A power cut during collection leaves copies without the erases of their victims. The next power cut
        // could then use up the free pages of open blocks.
        for group in 0..self.core.space.groups.count {
            self.core.space.group = group;
            if self.core.end_of_life.is_none()
                && self.core.free_blocks() < self.core.space.min_free_blocks
                && let Err(error) = self.empty_the_emptiest(now).and_then(|()| self.reclaimer().collect(now))
            {
                self.core.end_of_life = Some(error);
            }
        }
    }

    /// Collects the blocks with the fewest valid units, regardless of the policy.
    fn empty_the_emptiest(&mut self, now: When) -> Result<(), FtlError> {
        if self.core.store.is_paged() {
            // With demand paging, copies also cause updates of translation pages: `collect` compacts them.
            return Ok(());
        }
        // A power cut during a copy costs a page. Repeated power cuts during a full victim could use up all
        // pages, but a nearly empty victim is erased after a page or two.
        let units_per_block = self.core.nand.geometry().units_per_block();
        let mut result = Ok(());
        while result.is_ok() && !self.core.has_enough(self.core.space.min_free_blocks) {
            let Some(block) = self.reclaimer().emptiest() else { break };
            if self.core.blocks.valid[block.index()] == units_per_block {
                break;
            }
            result = self.reclaimer().relocator().relocate_block(now, Reason::Collect, block).map(drop);
        }
        result
    }
}

impl<N: Nand, V: VictimPolicy> Restorer<'_, N, V> {
    /// Restores the state in the log, then applies the pages programmed after the last epoch.
    fn adopt(&mut self, found: Tables, report: &mut Recovery) -> Result<(), RecoveryError> {
        let geometry = self.0.nand.geometry().clone();
        self.0.sequence = found.clock.sequence;
        self.0.stats.host_units_written = found.clock.host_units;
        let (map, shared) = found.words.split_at(found.map_words as usize);
        let places = geometry.units() + self.0.config.virtual_map_entries;
        for (lpn, word) in nonzero(map) {
            let place = word - 1;
            if place >= places {
                return damaged(format!("a logical unit is mapped to {place}, which is out of range"));
            }
            let _ = self.0.map.set(Lpn::new(lpn as u32), Ppa::new(place));
        }
        if let Some(sharing) = &mut self.0.map.sharing {
            sharing.restore(shared, self.0.config.logical_units).or_else(damaged)?;
        }
        self.check_entries()?;
        self.check_blocks_named(&found, &geometry)?;
        // Pages programmed in open blocks after the epoch, in program order.
        let open = found.open.iter().map(|&[_, _, block, pages]| (BlockId::new(block), pages));
        let units = self.0.map.count();
        let mut newer = scan(&mut self.0.nand, open, true, units, report)?;
        newer.units.sort_unstable_by_key(|unit| (unit.sequence, unit.ppa));
        // Failed pages have sequence numbers but no units, so the scan reports the next number.
        self.0.sequence = self.0.sequence.max(newer.next_sequence);
        for unit in newer.units {
            self.take_over(unit.lpn, unit.ppa);
            report.units_found += 1;
        }
        self.count_valid(&geometry)?;
        self.restore_blocks(&found, &geometry, report)
    }

    fn check_blocks_named(&self, found: &Tables, geometry: &Geometry) -> Result<(), RecoveryError> {
        let named = found.open.iter().map(|&[_, _, block, pages]| (block, pages));
        for (block, pages) in named.chain(found.retiring.iter().map(|&block| (block, 0))) {
            if block >= geometry.blocks() || pages > self.0.nand.block(BlockId::new(block)).pages_programmed {
                return damaged(format!("block {block} should have at least {pages} pages"));
            }
        }
        Ok(())
    }

    /// Checks that only open blocks hold pages programmed after the last epoch. Otherwise the end of the log
    /// is missing.
    fn check_nothing_is_newer(&self, found: &Tables) -> Result<(), RecoveryError> {
        // Only damaged images fail this check, so it costs no flash time.
        let geometry = self.0.nand.geometry();
        for block in self.0.blocks.usable() {
            let pages = self.0.nand.block(block).pages_programmed;
            if pages > self.0.nand.pages_of(block) {
                return damaged(format!("{block:?} has {pages} pages, more than its cell mode allows"));
            }
            if pages == 0 || found.open.iter().any(|open| open[2] == block.get()) {
                continue;
            }
            for page in [0, pages - 1] {
                match self.0.nand.record(geometry.page(block, page)) {
                    None => return Err(RecoveryError::NoContents),
                    Some(record)
                        if sequence_in(record.sequence) >= found.clock.sequence && record.sequence > 0 =>
                    {
                        return damaged(format!("{block:?} was written after the last epoch in the log"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Checks that the units whose map entries are virtual numbers are exactly the owners in the virtual map.
    pub(crate) fn check_entries(&self) -> Result<(), RecoveryError> {
        let Some(sharing) = &self.0.map.sharing else { return Ok(()) };
        let mut owners = 0;
        for lpn in self.0.map.mapped_units() {
            let Some(vpn) = self.0.map.get(lpn).and_then(|entry| sharing.vpn(entry)) else { continue };
            if !sharing.is_owned_by(vpn, lpn) {
                return damaged(format!("logical unit {lpn} shares a unit that it does not own"));
            }
            owners += 1;
        }
        if owners == 2 * sharing.in_use() {
            Ok(())
        } else {
            damaged(format!("{} shared units have {owners} owners", sharing.in_use()))
        }
    }

    fn take_over(&mut self, lpn: Lpn, ppa: Ppa) {
        let old = self.0.map.set(lpn, ppa);
        // A newer page names one owner of a shared unit: the other owner keeps the old version alone.
        if let Some(vpn) = old.and_then(|old| self.0.map.sharing.as_ref()?.vpn(old)) {
            self.0.leave_shared(lpn, vpn);
        }
        self.0.store.unit_changed(lpn);
    }

    pub(crate) fn count_valid(&mut self, geometry: &Geometry) -> Result<(), RecoveryError> {
        let (mut from, end) = (Lpn::new(0), Lpn::new(self.0.map.count()));
        while let Some(lpn) = self.0.next_mapped(from, end).map_err(|Stopped| RecoveryError::Interrupted)? {
            from = lpn.plus(1);
            let (Some(entry), Some(ppa)) = (self.0.map.get(lpn), self.0.map.locate(lpn)) else { continue };
            self.0.map.mapped += 1;
            let is_second =
                |sharing: &Sharing| sharing.vpn(entry).is_some_and(|vpn| sharing.owners(vpn)[0] != lpn);
            // A shared unit has two owners but is valid once: it is counted with its first owner.
            if self.0.map.sharing.as_ref().is_some_and(is_second) {
                continue;
            }
            let block = geometry.block_of(ppa);
            let page = geometry.page_in_block(geometry.page_of(ppa));
            let (state, flash) = (self.0.blocks.state(block), self.0.nand.block(block));
            let is_there = page < flash.pages_programmed && !flash.half_erased;
            if !is_there || matches!(state, BlockState::Meta | BlockState::Bad) {
                return damaged(format!("{lpn:?} is mapped to {ppa:?}, which is not programmed"));
            }
            if self.0.map.sharing.is_none() && self.0.nand.lpn(ppa) != Some(lpn) {
                return damaged(format!("{lpn:?} is mapped to {ppa:?}, which holds another unit"));
            }
            if self.0.blocks.validity.get(ppa) {
                return damaged(format!("{ppa:?} belongs to two logical units"));
            }
            self.0.blocks.set_valid(ppa, block);
            if let Some(sharing) = &mut self.0.map.sharing {
                sharing.restore_owner(ppa, lpn, entry);
            }
        }
        Ok(())
    }

    fn restore_blocks(
        &mut self,
        found: &Tables,
        geometry: &Geometry,
        report: &mut Recovery,
    ) -> Result<(), RecoveryError> {
        for &block in &found.retiring {
            let block = BlockId::new(block);
            if self.0.blocks.state(block) == BlockState::Free {
                self.0.blocks.retire(block);
            }
        }
        for &[stream, lane, block, _] in &found.open {
            let block = BlockId::new(block);
            let pages = self.0.nand.block(block).pages_programmed;
            if self.0.blocks.state(block) != BlockState::Free || self.0.nand.block(block).half_erased {
                return damaged(format!("{block:?} is listed as open, but has another state"));
            }
            let (is_cached, mode) = if stream == u32::from(self.0.streams.table.slc.get()) {
                (true, CellMode::Slc)
            } else {
                (false, CellMode::Normal)
            };
            if pages == 0 && self.0.slc.is_some() {
                // Flash records the cell mode with the first program, and this block has none yet.
                self.0.nand.set_mode(block, mode);
            }
            if self.0.nand.block(block).mode != mode {
                return damaged(format!("{block:?} is open in another cell mode"));
            }
            if pages == self.0.nand.pages_of(block) {
                // The last epoch names this full block as open. A new epoch must end before its erase.
                self.0.store.blocks_changed();
                continue;
            }
            self.0.blocks.open(block, StreamId::new(stream as u8));
            if is_cached && let Some(slc) = &mut self.0.slc {
                slc.opened(block);
            }
            let frontier = self.0.streams.get_mut(stream);
            if !frontier.is_some_and(|frontier| frontier.resume(lane, block, pages, geometry)) {
                return damaged(format!(
                    "stream {stream} has two blocks open on lane {lane}, or no such lane"
                ));
            }
        }
        let blocks: Vec<BlockId> = self.0.blocks.usable().collect();
        for block in blocks {
            self.restore_block(block, geometry, report);
        }
        self.restore_cache_order(geometry);
        report.wait(&mut self.0.nand);
        Ok(())
    }

    fn restore_cache_order(&mut self, geometry: &Geometry) {
        let Some(slc) = &mut self.0.slc else { return };
        slc.sort_full(|block| {
            self.0.nand.record(geometry.page(block, 0)).map_or(0, |record| sequence_in(record.sequence))
        });
    }

    pub(crate) fn restore_block(&mut self, block: BlockId, geometry: &Geometry, report: &mut Recovery) {
        let (flash, valid) = (self.0.nand.block(block), self.0.blocks.valid[block.index()]);
        let is_full = flash.pages_programmed == self.0.nand.pages_of(block);
        let is_cached = flash.mode == CellMode::Slc && flash.pages_programmed > 0;
        let state = match self.0.blocks.state(block) {
            BlockState::Free if flash.half_erased => BlockState::Free,
            BlockState::Free if is_full && is_cached => BlockState::Cached,
            BlockState::Free if is_full => BlockState::Closed,
            // A partly filled block that is not open takes no further writes. With valid units, it retires.
            BlockState::Free if valid > 0 => BlockState::Retiring,
            state => state,
        };
        let (erases, is_erased) = (flash.erase_count, flash.is_erased());
        let is_reserved = self.0.is_reserved(block);
        if let Some(leveler) = &mut self.0.policies.leveler
            && !is_reserved
        {
            // A new leveler assumes that all blocks are free and never erased.
            if erases > 0 {
                leveler.left(block);
                leveler.erased(block, erases);
            }
            if state != BlockState::Free || !is_erased {
                leveler.left(block);
            }
        }
        self.0.blocks.states[block.index()] = state;
        if self.0.streams.handles.is_some()
            && self.0.blocks.stream_of(block).is_none()
            && let Some(stream) = stream_on_flash(&self.0.nand, block)
        {
            self.0.blocks.was_opened_for(block, stream);
        }
        if is_cached
            && matches!(state, BlockState::Cached | BlockState::Retiring)
            && let Some(slc) = &mut self.0.slc
        {
            slc.opened(block);
        }
        match state {
            BlockState::Free if !is_erased => {
                self.0.erase(report.now(), block, Cause::Recovery);
                report.blocks_erased += 1;
            }
            BlockState::Free if is_reserved => self.0.reserve(block),
            BlockState::Free => self.0.blocks.put_free(block, geometry, erases),
            BlockState::Closed | BlockState::Emptying | BlockState::Cached => {
                self.tell_policy(block, geometry);
                self.0.close(block);
            }
            BlockState::Open => self.tell_policy(block, geometry),
            BlockState::Retiring if !self.0.blocks.retiring.contains(&block) => {
                self.0.blocks.retiring.push(block)
            }
            BlockState::Retiring | BlockState::Bad | BlockState::Meta | BlockState::Reserved => {}
        }
    }

    fn tell_policy(&mut self, block: BlockId, geometry: &Geometry) {
        // The policy gets the events that it would have had before the power cut: open, writes,
        // invalidations.
        self.0.policies.victims.opened(block, self.0.nand.block(block).erase_count, self.0.tick);
        let first = geometry.first_unit(block);
        let programmed = self.0.nand.block(block).pages_programmed * geometry.units_per_page();
        let written: Vec<Ppa> =
            (0..programmed).map(|at| first.plus(at)).filter(|&ppa| self.0.nand.lpn(ppa).is_some()).collect();
        written.iter().for_each(|&ppa| self.0.policies.victims.written(ppa, self.0.tick));
        let mut valid = written.len() as u32;
        for ppa in written {
            if !self.0.blocks.validity.get(ppa) {
                valid -= 1;
                self.0.policies.victims.invalidated(ppa, block, valid, self.0.tick);
            }
        }
    }
}
