//! The recorded requests on a drive, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use strobe_lab::RunError;
use strobe_ssd::{
    Command, DriveConfig, DriveStats, Hint, NvramConfig, NvramPolicyName, Range, SectorRange, Simulated,
    build,
};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};

use super::pattern::{Pattern, is_metadata};
use super::{Absorbed, HOST_NS, NVRAM_SECTORS, SCHEMES, Scheme, Workload, offsets};
use crate::{Options, PaperError, Scale, Watch};

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) scheme: Scheme,
    pub(super) absorbed: Absorbed,
    /// Sectors before the partition.
    pub(super) offset: u32,
}

impl Cell {
    /// Every run that the figures need.
    pub(super) fn all(scale: Scale) -> Vec<Self> {
        let mut cells = Vec::new();
        for workload in Workload::ALL {
            for absorbed in [Absorbed::No, Absorbed::FileSystem, Absorbed::Device] {
                let cell = |scheme| Cell { workload, scheme, absorbed, offset: 0 };
                cells.extend(SCHEMES.map(cell));
            }
        }
        for offset in offsets(scale).filter(|&offset| offset > 0) {
            for absorbed in [Absorbed::No, Absorbed::FileSystem] {
                let cell = |scheme| Cell { workload: Workload::Camera, scheme, absorbed, offset };
                cells.extend(SCHEMES.into_iter().filter(|scheme| scheme.in_paper).map(cell));
            }
        }
        cells
    }

    fn name(&self) -> String {
        let Self { workload, scheme, absorbed, offset } = self;
        format!("{} on {}, {}, offset {offset}", workload.name(), scheme.mapping, absorbed.name())
    }
}

/// What a run has come to.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) cell: Cell,
    /// Requests that reached the drive.
    pub(super) requests: u64,
    /// From the first request to the end of the last, in ns; of these the host's share.
    pub(super) ns: u64,
    pub(super) stats: DriveStats,
}

impl Measured {
    pub(super) fn seconds(&self) -> f64 {
        self.ns as f64 / 1e9
    }

    /// Without the host's share.
    pub(super) fn drive_seconds(&self) -> f64 {
        (self.ns - self.requests * HOST_NS) as f64 / 1e9
    }
}

/// Non-volatile memory of the file system: sectors stay until there is no room, then the one written
/// longest ago goes to the drive.
#[derive(Default)]
struct Nvram {
    written: BTreeMap<u64, u64>,
    by_age: BTreeSet<(u64, u64)>,
    clock: u64,
}

impl Nvram {
    /// Keeps `sector`; returns one that has to go for it.
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

fn drive(cell: &Cell, pattern: &Pattern) -> Result<DriveConfig, PaperError> {
    crate::drive("ez-x5-32m", |drive| {
        drive.ftl.mapping = cell.scheme.mapping.to_owned();
        // Room for the volume at any offset.
        drive.ftl.logical_pages = Some(65_536 + super::OFFSETS);
        // On this board the FTL is part of the host's kernel.
        drive.controller.command_ns = HOST_NS;
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

pub(super) fn run(
    cell: &Cell,
    pattern: &Pattern,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Measured, PaperError> {
    let failed = |error: RunError| PaperError::Run { run: cell.name(), error: Box::new(error) };
    let config = drive(cell, pattern)?;
    let mut drive = build(&config, true, options.seed).map_err(|error| failed(error.into()))?;
    let offset = u64::from(cell.offset);
    let mut now = SimTime::ZERO;
    for write in pattern.format() {
        now = send(&mut *drive, now, write.sector + offset, write.count).map_err(failed)?;
    }
    let start = drive.settle(now).map_err(|error| failed(RunError::Command(error)))?;
    let before = drive.stats();
    let mut nvram = Nvram::default();
    let (mut now, mut requests) = (start, 0);
    for (at, write) in pattern.writes().iter().enumerate() {
        if at % 65_536 == 0 && watch.stopped() {
            return Err(PaperError::Interrupted);
        }
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
    Ok(Measured { cell: *cell, requests, ns: now.since(start), stats })
}

fn send(drive: &mut dyn Simulated, now: SimTime, sector: u64, count: u32) -> Result<SimTime, RunError> {
    let range = Range::new(Lba::new(sector), count);
    drive.execute(now, &Command::Write { range, fua: false, hint: Hint::None }).map_err(RunError::Command)
}
