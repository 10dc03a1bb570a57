//! Collection by garbage share, as in simulators of log-structured storage (SepBIT: Wang et al. 2022).
//!
//! Garbage is the invalid units of full blocks. After each page that the host writes:
//!
//! 1. Garbage is compared with a given share of all units that are written and not erased.
//! 2. If garbage exceeds the share, one full block is collected. At least that share of its units is invalid.
//!
//! Too few erased blocks still stop the world. With enough spare blocks this never happens, and further spare
//! blocks change nothing.

use strobe_nand::{Nand, When};

use super::{Reason, Reclaimer};
use crate::FtlError;
use crate::gc::VictimPolicy;

const MILLION: u64 = 1_000_000;

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Collects a block if garbage exceeds `ppm` millionths of the written units. Returns the time of its erase.
    pub(crate) fn collect_garbage(&mut self, now: When, ppm: u32) -> Result<When, FtlError> {
        let (garbage, written) = self.garbage();
        if garbage * MILLION <= u64::from(ppm) * written {
            return Ok(now);
        }
        let units = self.core.nand().geometry().units_per_block();
        // A victim must have at least the given share of invalid units.
        let most_valid = (u64::from(units) * (MILLION - u64::from(ppm)) / MILLION) as u32;
        let victim = self.core.choose_victim(Some(most_valid));
        let Some(victim) = victim.filter(|victim| self.core.blocks().valid[victim.index()] <= most_valid)
        else {
            return Ok(now);
        };
        self.core.stats.gc.runs += 1;
        self.relocator().relocate_block(now, Reason::Collect, victim)
    }

    /// Number of invalid units in full blocks, and of all units written and not erased.
    fn garbage(&self) -> (u64, u64) {
        let geometry = self.core.nand().geometry();
        let per_page = geometry.units_per_page();
        let (mut open_invalid, mut open_free) = (0, 0);
        for (block, pages) in self.core.streams.iter().flat_map(|stream| stream.open_blocks(geometry)) {
            open_invalid += u64::from(pages * per_page - self.core.blocks().valid[block.index()]);
            open_free += u64::from((geometry.pages_per_block() - pages) * per_page);
        }
        let blocks = u64::from(self.core.blocks().in_service() - self.core.blocks().free.count());
        let written = blocks * u64::from(geometry.units_per_block()) - open_free;
        // A shared unit is mapped twice, but valid once.
        let shared = self.core.map().sharing.as_ref().map_or(0, |sharing| u64::from(sharing.in_use()));
        let valid = u64::from(self.core.map().mapped) - shared;
        (written - valid - open_invalid, written)
    }
}
