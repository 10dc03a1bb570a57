//! [`Inspect`] for [`Drive`]: counters, blocks and checks.

use strobe_ftl::{BlockInfo, CheckError, Inspectable, WearSummary};
use strobe_nand::{Class, Nand, Payload, Timing};
use strobe_types::{BlockId, Lba, Lpn, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::CommandKind;
use crate::device::Inspect;
use crate::latency::Latency;
use crate::nvram::Nvram;
use crate::stats::{DriveStats, ReclaimUnits};

impl<F: Inspectable> Inspect for Drive<F> {
    fn logical_units(&self) -> u32 {
        self.ftl.logical_units()
    }

    fn oldest_outstanding(&self) -> Option<(CommandKind, SimTime)> {
        self.in_flight.oldest()
    }

    fn mapped_units(&self) -> u32 {
        self.ftl.mapped_units()
    }

    fn is_allocated(&self, lba: Lba) -> bool {
        let unit = lba.get() / u64::from(self.geometry.sectors_per_unit());
        let Some(lpn) = u32::try_from(unit).ok().filter(|&unit| unit < self.ftl.logical_units()) else {
            return false;
        };
        let lpn = Lpn::new(lpn);
        // A cached unit is newer than flash. Tombstones and zeros in the cache do not count as data.
        let is_cached =
            |nvram: &Nvram<F::Payload>| nvram.get(lpn).map(|payload| payload != F::Payload::zero());
        if let Some(holds) = self.nvram.as_ref().and_then(is_cached) {
            return holds;
        }
        self.buffer.as_ref().is_some_and(|buffer| buffer.get(lpn).is_some()) || self.ftl.locate(lpn).is_some()
    }

    fn free_blocks(&self) -> u32 {
        self.ftl.free_blocks()
    }

    fn slc_blocks(&self) -> Option<u32> {
        self.ftl.slc_blocks()
    }

    fn reclaim_units(&self) -> Option<ReclaimUnits> {
        let handles = self.ftl.placement_handles()?;
        let page_sectors = u64::from(self.geometry.page_bytes()) / SECTOR_BYTES;
        let unit_sectors = handles.unit_pages() * page_sectors;
        let left = |(handle, &pages): (u16, &u64)| {
            let waiting = self.buffer.as_ref().map_or(0, |buffer| buffer.units_with(handle));
            let waiting = waiting * u64::from(self.geometry.sectors_per_unit()) % unit_sectors;
            // Buffered units may fill this reclaim unit and continue in the next one.
            let left = (pages * page_sectors + unit_sectors - waiting) % unit_sectors;
            if left == 0 { unit_sectors } else { left }
        };
        let sectors_left = (0..).zip(handles.pages_left()).map(left).collect();
        let (isolation, groups) = (handles.isolation(), handles.groups());
        Some(ReclaimUnits { isolation, unit_sectors, groups, sectors_left })
    }

    fn earlier_power_on_ns(&self) -> u64 {
        self.ftl.nand().earlier_power_on_ns()
    }

    fn blocks(&self) -> Vec<BlockInfo> {
        (0..self.geometry.blocks()).map(|block| self.ftl.block_info(BlockId::new(block))).collect()
    }

    fn locate(&self, unit: Lpn) -> Option<(BlockId, u32)> {
        let place = self.ftl.locate(unit)?;
        let block = self.geometry.block_of(place);
        Some((block, place.get() - self.geometry.first_unit(block).get()))
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
            streams: self.ftl.stream_counts().to_vec(),
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
