//! Replay of recorded requests on a drive in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use strobe_lab::RunError;
use strobe_nand::NandOp;
use strobe_ssd::{
    Command, DriveConfig, Hint, LogVictim, NvramConfig, NvramPolicyName, Range, SectorRange, Simulated, build,
};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};

use super::pattern::{Pattern, is_metadata};
use super::{Absorbed, NVRAM_SECTORS, OFFSETS, SCHEMES, Workload, offsets};
use crate::{Options, PaperError};
use strobe_lab::points::Watch;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) mapping: &'static str,
    pub(super) absorbed: Absorbed,
    /// Partition offset in sectors.
    pub(super) offset: u32,
    pub(super) victim: LogVictim,
}

/// Schemes compared in the paper: FAST is slower in Camera-MS500, log-block in PostMark.
pub(super) const COMPARED: [&str; 2] = ["log-block", "fast"];

/// Default victim rule of log-block: a table scan for the fullest log.
const LOG_VICTIM: LogVictim = LogVictim::Fullest;

pub(super) const LOG_VICTIMS: [(&str, LogVictim); 5] = [
    ("fullest", LOG_VICTIM),
    ("lru", LogVictim::Lru),
    ("fifo", LogVictim::Fifo),
    ("emptiest", LogVictim::Emptiest),
    ("mru", LogVictim::Mru),
];

impl Cell {
    pub(super) fn new(workload: Workload, mapping: &'static str, absorbed: Absorbed) -> Self {
        Self { workload, mapping, absorbed, offset: 0, victim: LOG_VICTIM }
    }

    pub(super) fn all(options: &Options, camera: &Pattern) -> Vec<Self> {
        let mut cells = Vec::new();
        for workload in Workload::ALL {
            for absorbed in [Absorbed::No, Absorbed::FileSystem, Absorbed::Device] {
                cells.extend(SCHEMES.map(|scheme| Cell::new(workload, scheme.mapping, absorbed)));
            }
            for absorbed in [Absorbed::No, Absorbed::FileSystem] {
                let with = |(_, victim)| Cell { victim, ..Cell::new(workload, "log-block", absorbed) };
                let others = LOG_VICTIMS.into_iter().filter(|&(_, victim)| victim != LOG_VICTIM);
                cells.extend(others.map(with));
            }
        }
        let in_paper = || SCHEMES.into_iter().filter(|scheme| scheme.in_paper);
        let offsets = offsets(options.scale, camera.hottest_sector());
        for offset in offsets.into_iter().filter(|&offset| offset > 0) {
            for absorbed in [Absorbed::No, Absorbed::FileSystem] {
                let cell = |mapping| Cell { offset, ..Cell::new(Workload::Camera, mapping, absorbed) };
                cells.extend(in_paper().map(|scheme| cell(scheme.mapping)));
            }
        }
        cells
    }

    /// PostMark before absorption on the two compared schemes, at `offsets`.
    pub(super) fn compared(offsets: impl IntoIterator<Item = u32>) -> Vec<Self> {
        let at = |offset| {
            COMPARED.map(|mapping| Cell { offset, ..Cell::new(Workload::PostMark, mapping, Absorbed::No) })
        };
        offsets.into_iter().flat_map(at).collect()
    }

    pub(super) fn predicted(offset: u32) -> Vec<Self> {
        let mut cells = Vec::new();
        for absorbed in [Absorbed::No, Absorbed::FileSystem] {
            let cell = |mapping| Cell { offset, ..Cell::new(Workload::PostMark, mapping, absorbed) };
            cells.extend(SCHEMES.into_iter().filter(|of| of.in_paper).map(|scheme| cell(scheme.mapping)));
        }
        // Offset 0 is part of the other runs.
        if offset == 0 { Vec::new() } else { cells }
    }

    fn name(&self) -> String {
        let Self { workload, mapping, absorbed, offset, .. } = self;
        format!("{} on {mapping}, {}, offset {offset}", workload.name(), absorbed.name())
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    #[serde(skip)]
    pub(super) cell: Cell,
    workload: &'static str,
    absorbed: &'static str,
    offset: u32,
    drive: DriveConfig,
    /// Scale and seed determine the requests.
    scale: crate::Scale,
    seed: u64,
}

impl Point {
    pub(super) fn new(cell: Cell, pattern: &Pattern, options: &Options) -> Result<Self, PaperError> {
        Ok(Self {
            cell,
            workload: cell.workload.name(),
            absorbed: cell.absorbed.name(),
            offset: cell.offset,
            drive: drive(&cell, pattern, options)?,
            scale: options.scale,
            seed: options.seed,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    requests: u64,
    drive_ns: u64,
    pub(super) programs: u64,
    pub(super) reads: u64,
    pub(super) erases: u64,
    /// Switch, partial and full merges, and blocks erased by them.
    pub(super) merges: [u64; 3],
    pub(super) merge_erases: u64,
    /// Merged log blocks, pages used in them, and thrashed log blocks.
    logs: u64,
    log_pages: u64,
    thrashed_logs: u64,
}

impl Outcome {
    /// Execution time with `host_ns` per request; host and drive do not overlap.
    pub(super) fn seconds(&self, host_ns: f64) -> f64 {
        (self.drive_ns as f64 + self.requests as f64 * host_ns) / 1e9
    }

    pub(super) fn drive_seconds(&self) -> f64 {
        self.drive_ns as f64 / 1e9
    }

    pub(super) fn requests(&self) -> f64 {
        self.requests as f64
    }

    pub(super) fn pages_at_merge(&self) -> Option<f64> {
        (self.logs > 0).then(|| self.log_pages as f64 / self.logs as f64)
    }

    /// Share of log blocks merged within 200 writes of their opening, in percent.
    pub(super) fn thrashed_percent(&self) -> Option<f64> {
        (self.logs > 0).then(|| 100.0 * self.thrashed_logs as f64 / self.logs as f64)
    }

    pub(super) fn operations(&self, op: NandOp) -> u64 {
        match op {
            NandOp::Program => self.programs,
            NandOp::Read => self.reads,
            NandOp::Erase => self.erases,
        }
    }
}

/// Non-volatile memory of the file system, with LRU eviction of sectors to the drive.
#[derive(Default)]
struct Nvram {
    written: BTreeMap<u64, u64>,
    by_age: BTreeSet<(u64, u64)>,
    clock: u64,
}

impl Nvram {
    /// Returns the evicted sector if the memory is full.
    fn write(&mut self, sector: u64) -> Option<u64> {
        self.clock += 1;
        if let Some(before) = self.written.insert(sector, self.clock) {
            self.by_age.remove(&(before, sector));
        }
        self.by_age.insert((self.clock, sector));
        if self.written.len() <= NVRAM_SECTORS {
            return None;
        }
        let (_, oldest) = self.by_age.pop_first()?;
        self.written.remove(&oldest);
        Some(oldest)
    }
}

fn drive(cell: &Cell, pattern: &Pattern, options: &Options) -> Result<DriveConfig, PaperError> {
    crate::drive("ez-x5-32m", options, |drive| {
        drive.ftl.mapping = cell.mapping.to_owned();
        if cell.mapping == "log-block" {
            drive.ftl.log_victim = cell.victim;
        }
        // Space for the volume at any partition offset.
        drive.ftl.logical_pages = Some(65_536 + OFFSETS);
        if cell.absorbed == Absorbed::Device {
            let sectors = pattern.data_start + u64::from(cell.offset);
            drive.controller.nvram = NvramConfig {
                bytes: NVRAM_SECTORS as u64 * SECTOR_BYTES,
                policy: NvramPolicyName::LbaRange,
                ranges: vec![SectorRange { first_sector: 0, sectors }],
                ..NvramConfig::default()
            };
        }
    })
}

pub(super) fn run(point: &Point, pattern: &Pattern, watch: &dyn Watch) -> Result<Outcome, PaperError> {
    let Point { cell, drive, seed, .. } = point;
    let failed = |error: RunError| PaperError::Run { run: cell.name(), error: Box::new(error) };
    let mut drive = build(drive, true, *seed).map_err(|error| failed(error.into()))?;
    drive.set_stop(watch.stop_flag());
    let offset = u64::from(cell.offset);
    let mut now = SimTime::ZERO;
    for write in pattern.format() {
        now = send(&mut *drive, now, write.sector + offset, write.count).map_err(failed)?;
    }
    // Formatting is not measured.
    let start = drive.settle(now).map_err(|error| failed(RunError::Command(error)))?;
    let before = drive.stats();
    let mut nvram = Nvram::default();
    let (mut now, mut requests) = (start, 0);
    for (at, write) in pattern.writes().iter().enumerate() {
        if at % 65_536 == 0 && watch.stopped() {
            return Err(PaperError::Interrupted);
        }
        // The file system keeps metadata; only evicted sectors reach the drive.
        if cell.absorbed == Absorbed::FileSystem && is_metadata(write) {
            let sectors = write.sector..write.sector + u64::from(write.count);
            for evicted in sectors.filter_map(|sector| nvram.write(sector)) {
                requests += 1;
                now = send(&mut *drive, now, evicted + offset, 1).map_err(failed)?;
            }
            continue;
        }
        requests += 1;
        now = send(&mut *drive, now, write.sector + offset, write.count).map_err(failed)?;
    }
    let stats = drive.stats().since(&before);
    let merges = stats.merges.unwrap_or_default();
    Ok(Outcome {
        requests,
        drive_ns: now.since(start),
        programs: stats.nand.total(NandOp::Program),
        reads: stats.nand.total(NandOp::Read),
        erases: stats.nand.total(NandOp::Erase),
        merges: [merges.switched, merges.partial, merges.full],
        merge_erases: merges.blocks_erased,
        logs: merges.logs,
        log_pages: merges.log_pages,
        thrashed_logs: merges.thrashed_logs,
    })
}

fn send(drive: &mut dyn Simulated, now: SimTime, sector: u64, count: u32) -> Result<SimTime, RunError> {
    let range = Range::new(Lba::new(sector), count);
    drive
        .execute(now, &Command::Write { range, fua: false, tag: Hint::None.into() })
        .map_err(RunError::Command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, nvram::pattern};

    #[test]
    fn the_hosts_time_is_the_same_before_or_after() {
        let options = Options::new(Scale::Tiny, 1);
        let pattern = pattern::record(Workload::Camera, &options).expect("a pattern");
        for scheme in SCHEMES {
            let cell = Cell::new(Workload::Camera, scheme.mapping, Absorbed::No);
            let mut point = Point::new(cell, &pattern, &options).expect("a drive");
            let alone = run(&point, &pattern, &()).expect("runs");
            point.drive.controller.command_ns = 460_000;
            let together = run(&point, &pattern, &()).expect("runs");
            let [added, inside] = [alone.seconds(460_000.0), together.seconds(0.0)];
            assert!((added / inside - 1.0).abs() < 1e-9, "{}: {added} s, {inside} s", scheme.label);
        }
    }
}
