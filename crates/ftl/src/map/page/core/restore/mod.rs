//! Restores the state of the core from what recovery found on flash.

mod paged;

use strobe_nand::{Cause, Nand};
use strobe_types::{BlockId, CellMode, Geometry, Lpn, Ppa, nonzero};

use crate::gc::VictimPolicy;
use crate::journal::Tables;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::{Core, Stopped};
use crate::map::page::map::sharing::Sharing;
use crate::place::StreamId;
use crate::recovery::damaged;
use crate::scan::{scan, sequence_in, stream_on_flash};
use crate::{Recovery, RecoveryError};

pub(crate) struct Restorer<'a, N: Nand, V>(pub(crate) &'a mut Core<N, V>);

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Takes all full blocks from the victim policy. It stays, as the ticks it sees must not decrease, and recovery
    /// reports the full blocks again.
    pub(crate) fn forget_candidates(&mut self) {
        for block in self.blocks.usable().filter(|&block| self.blocks.state(block) == BlockState::Closed) {
            self.policies.victims.taken(block);
        }
    }

    /// Waits for the operations of `report`.
    pub(crate) fn wait(&mut self, report: &mut Recovery) {
        report.wait(&mut self.nand);
    }
}

impl<N: Nand, V: VictimPolicy> Restorer<'_, N, V> {
    /// Restores the state in the log, then applies the pages programmed after the last epoch.
    pub(crate) fn adopt(&mut self, found: Tables, report: &mut Recovery) -> Result<(), RecoveryError> {
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
    pub(crate) fn check_nothing_is_newer(&self, found: &Tables) -> Result<(), RecoveryError> {
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
            let (is_cached, mode) = if self.0.streams.table.is_slc(StreamId::new(stream as u8)) {
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
        self.0.wait(report);
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
