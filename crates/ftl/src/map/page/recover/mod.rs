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
use strobe_types::{BlockId, SimTime};

use crate::gc::VictimPolicy;
use crate::journal::{Journal, Log, Tables};
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::core::restore::Restorer;
use crate::map::page::map::store::MapStore;
use crate::map::page::reclaim::Reason;
use crate::place::Placement;
use crate::{FtlError, Recovery, RecoveryError};

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
        self.core.wait(report);
        let is_empty = |block: &BlockId| {
            self.core.blocks().state(*block) == BlockState::Closed
                && self.core.blocks().valid[block.index()] == 0
        };
        let empty: Vec<BlockId> = self.core.blocks().usable().filter(is_empty).collect();
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
        self.core.wait(report);
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
        let units_per_block = self.core.nand().geometry().units_per_block();
        let mut result = Ok(());
        while result.is_ok() && !self.core.has_enough(self.core.space.min_free_blocks) {
            let Some(block) = self.reclaimer().emptiest() else { break };
            if self.core.blocks().valid[block.index()] == units_per_block {
                break;
            }
            result = self.reclaimer().relocator().relocate_block(now, Reason::Collect, block).map(drop);
        }
        result
    }
}
