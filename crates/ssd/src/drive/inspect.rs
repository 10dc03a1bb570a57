//! [`Inspect`] for [`Drive`]: counters, blocks and checks.

use strobe_ftl::{BlockInfo, CheckError, Inspectable, WearSummary};
use strobe_nand::{Class, Nand, Timing};
use strobe_types::{BlockId, SimTime};

use super::Drive;
use crate::device::Inspect;
use crate::latency::Latency;
use crate::nvram::Nvram;
use crate::stats::DriveStats;

impl<F: Inspectable> Inspect for Drive<F> {
    fn logical_units(&self) -> u32 {
        self.ftl.logical_units()
    }

    fn mapped_units(&self) -> u32 {
        self.ftl.mapped_units()
    }

    fn free_blocks(&self) -> u32 {
        self.ftl.free_blocks()
    }

    fn slc_blocks(&self) -> Option<u32> {
        self.ftl.slc_blocks()
    }

    fn blocks(&self) -> Vec<BlockInfo> {
        (0..self.geometry.blocks()).map(|block| self.ftl.block_info(BlockId::new(block))).collect()
    }

    fn die_holders(&self) -> Vec<Option<Class>> {
        let timing = self.ftl.nand().timing();
        let dies = if timing.is_timed() { self.geometry.dies() } else { 0 };
        (0..dies).map(|die| timing.holder(die)).collect()
    }

    fn stats(&self) -> DriveStats {
        self.stats_at(self.events_now())
    }

    fn stats_at(&self, now: SimTime) -> DriveStats {
        DriveStats {
            host: self.host,
            stalls: self.stalls,
            nand: self.ftl.nand().counts().since(&self.before),
            read_retries: self.ftl.nand().retries(),
            uncorrectable_reads: self.ftl.nand().uncorrectable(),
            gc: self.ftl.stats().gc,
            merges: self.ftl.stats().merges,
            translation: self.ftl.stats().translation,
            slc: self.ftl.stats().slc,
            copies: self.ftl.stats().copies,
            nvram: self.nvram.as_ref().map(Nvram::stats),
            occupancy: self.ftl.nand().timing().occupancy(now),
        }
    }

    fn latency(&self) -> &Latency {
        &self.latency
    }

    fn clear_latency(&mut self) {
        self.latency.clear();
    }

    fn wear(&self) -> WearSummary {
        self.ftl.wear()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.ftl.check()?;
        let Some(nvram) = &self.nvram else { return Ok(()) };
        nvram.check()?;
        match self.buffer.as_ref().and_then(|buffer| buffer.units().find(|&lpn| nvram.holds(lpn))) {
            None => Ok(()),
            Some(lpn) => Err(CheckError(format!("{lpn:?} is in the non-volatile cache and in the buffer"))),
        }
    }

    fn failure(&self) -> Option<&str> {
        self.ftl.nand().failure()
    }

    fn operations(&self) -> u64 {
        self.ftl.nand().counts().changes()
    }
}
