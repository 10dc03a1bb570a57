//! Simulation of each file system, and its cost.

use strobe_lab::RunError;
use strobe_lab::runner::drive_command;
use strobe_nand::{Cause, NandOp};
use strobe_ssd::{CommandError, DriveConfig, DriveStats, DurableMap, HostQueue, Pacing, Simulated, build};
use strobe_types::SimTime;
use strobe_workload::lfs::{Lfs, LfsCommand, LfsConfig, LfsCounts, LfsDisk};

use serde::{Deserialize, Serialize};

use super::{ALL, COMMAND_US, Options, PaperError, Phase, Scale, Setup};
use strobe_lab::points::Watch;

/// Size of drive and file system. The quick size has the same number of blocks and segments as the full one,
/// but shorter ones: the number decides how much spare space is available.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Divisor of the size of blocks and segments.
    share: u32,
    blocks: u32,
    /// Blocks per plane added to the spare ones.
    more_blocks: u32,
}

/// Full size: the Jasmine preset with 4 GiB and 7 %.
const PLANES: u32 = 8;
const BLOCKS: u32 = 512;
const PAGES_PER_BLOCK: u32 = 128;
const UNITS_PER_PAGE: u32 = 2;
/// In blocks of 4 KiB: 2 MiB, as in F2FS.
const SEGMENT_BLOCKS: u32 = 512;
const MIB_BLOCKS: u32 = 256;
const BLOCK_BYTES: u32 = 4096;
/// A few tables and the two blocks of the checkpoint itself.
const CHECKPOINT_BLOCKS: u32 = 8;

impl Size {
    fn of(scale: Scale) -> Self {
        match scale {
            Scale::Full => Self { share: 1, blocks: BLOCKS, more_blocks: 0 },
            Scale::Quick => Self { share: 4, blocks: BLOCKS, more_blocks: 0 },
            Scale::Tiny => Self { share: 16, blocks: 16, more_blocks: 8 },
        }
    }

    fn pages_per_block(self) -> u32 {
        PAGES_PER_BLOCK / self.share
    }

    /// In blocks of 4 KiB.
    fn logical_blocks(self) -> u32 {
        PLANES * self.blocks * self.pages_per_block() * UNITS_PER_PAGE
    }

    /// 100 MiB in full, as in the paper's Tiobench.
    fn window_blocks(self) -> u32 {
        self.logical_blocks() / 40
    }

    /// Scaled cleaning batch in blocks.
    fn of_batch(self, blocks: u32) -> u32 {
        // Smaller batches would fill up the drive more often, so the quick scale keeps the full batch.
        if self.blocks == BLOCKS { blocks } else { blocks / self.share }
    }

    fn file_system(self, setup: &Setup) -> LfsConfig {
        let batch = self.of_batch(setup.batch_mib * MIB_BLOCKS);
        let segment_blocks = SEGMENT_BLOCKS / self.share;
        // As much data as cleaning gains space between two of its checkpoints.
        let checkpoint_every = ((1.0 - setup.victims) * f64::from(batch)) as u64;
        LfsConfig {
            cleaning: setup.mode.cleaning,
            segment_bytes: segment_blocks * BLOCK_BYTES,
            cleaned_segments: batch.div_ceil(segment_blocks),
            checkpoint_bytes: CHECKPOINT_BLOCKS * BLOCK_BYTES,
            checkpoint_every: checkpoint_every * u64::from(BLOCK_BYTES),
            trims: setup.trims,
            sync: setup.sync,
            ..LfsConfig::default()
        }
    }

    fn drive(self, setup: &Setup, options: &Options) -> Result<DriveConfig, PaperError> {
        let mut drive = crate::drive(setup.model.preset, options, |drive| {
            if setup.command_us != COMMAND_US {
                drive.controller.command_ns = u64::from(setup.command_us) * 1000;
            }
            let (nand, ftl) = (&mut drive.nand, &mut drive.ftl);
            nand.blocks_per_plane =
                self.blocks + self.more_blocks + setup.spare.blocks * self.blocks / BLOCKS;
            nand.pages_per_block = self.pages_per_block();
            nand.endurance_pe = 0;
            ftl.logical_pages = Some(self.logical_blocks());
            ftl.copy_mode = setup.mode.copy_mode;
            ftl.virtual_map_entries = self.of_batch(setup.entries);
            ftl.durable_map = setup.model.map.unwrap_or(ftl.durable_map);
            if setup.in_memory != ALL {
                ftl.mapping = "dftl".to_owned();
                ftl.translation.cached_entries = self.logical_blocks() / setup.in_memory.part;
            }
        })?;
        // Demand paging always has its map in pages, so the key has no effect.
        if drive.ftl.mapping != "page" {
            drive.ftl.durable_map = DurableMap::Journal;
        }
        Ok(drive)
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) setup: Setup,
    drive: DriveConfig,
    seed: u64,
    scale: Scale,
}

impl Point {
    pub(super) fn new(setup: Setup, options: &Options) -> Result<Self, PaperError> {
        let drive = Size::of(options.scale).drive(&setup, options)?;
        Ok(Self { setup, drive, seed: options.seed, scale: options.scale })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Share of the file system's blocks used by files.
    pub(super) fill: f64,
    pub(super) windows: Vec<Window>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    ns: u64,
    /// Blocks written by the application, blocks of cleaned segments, and live blocks in these.
    written: u64,
    cleaned: u64,
    moved: u64,
    /// In the order of [`Cause::ALL`].
    programs: Vec<u64>,
    /// Blocks copied, and those without an entry in the virtual map.
    copied: u64,
    without_entry: u64,
}

impl Window {
    /// Pages programmed for `cause` per page of new data.
    pub(super) fn programs(&self, cause: Cause) -> f64 {
        let at = Cause::ALL.iter().position(|&of| of == cause);
        self.per_page(at.map_or(0, |at| self.programs[at]))
    }

    pub(super) fn all_programs(&self) -> f64 {
        self.per_page(self.programs.iter().sum())
    }

    fn per_page(&self, pages: u64) -> f64 {
        pages as f64 * f64::from(UNITS_PER_PAGE) / self.written as f64
    }

    /// Time per block of new data.
    pub(super) fn us(&self) -> f64 {
        self.ns as f64 / 1e3 / self.written as f64
    }

    pub(super) fn victims_live(&self) -> Option<f64> {
        (self.cleaned > 0).then(|| self.moved as f64 / self.cleaned as f64)
    }

    /// Share of copies without a free entry in the virtual map.
    pub(super) fn map_full(&self) -> Option<f64> {
        (self.copied > 0).then(|| self.without_entry as f64 / self.copied as f64)
    }
}

/// Size of the files, in blocks, that gives victims the live share `setup.victims`.
fn file_blocks(setup: &Setup, log_blocks: u32) -> u32 {
    // Updates are uniform and the oldest segments are cleaned. A segment of age a, in updates per file block,
    // has the live share exp(−a).
    let age = -libm::log(setup.victims);
    let share = match setup.phase {
        // The oldest segment has seen all updates that fit into the log: a = (1 − share) / share.
        Phase::Aged => 1.0 / (1.0 + age),
        // The log wraps once per (1 − victims) × its blocks of updates: a = (1 − victims) / share.
        Phase::Sustained => (1.0 - setup.victims) / age,
    };
    (share * f64::from(log_blocks)) as u32
}

pub(super) fn measure(point: &Point, options: &Options, watch: &dyn Watch) -> Result<Measured, PaperError> {
    let setup = &point.setup;
    let run = || format!("{} of victims {} live", setup.mode.name, setup.victims);
    let failed = |error: RunError| PaperError::Run { run: run(), error: Box::new(error) };
    let size = Size::of(options.scale);
    let mut drive = build(&point.drive, true, options.seed).map_err(|error| failed(error.into()))?;
    drive.set_stop(watch.stop_flag());
    let command = |error| failed(RunError::Command(error));
    let config = size.file_system(setup);
    let layout = config.layout(point.drive.logical_bytes()).map_err(|error| failed(error.into()))?;
    let file_blocks = file_blocks(setup, layout.log_blocks());
    let mut lfs = Lfs::new(layout, file_blocks, options.seed);
    let mut disk = Disk::new(drive, config.queue_depth);
    lfs.create(&mut disk).and_then(|()| lfs.age(&mut disk)).map_err(command)?;
    let update = |lfs: &mut Lfs, disk: &mut Disk, blocks: u32| {
        for done in 0..blocks / layout.update_blocks {
            if done % 1024 == 0 && watch.stopped() {
                return Err(PaperError::Interrupted);
            }
            lfs.update_at_random(disk).map_err(command)?;
        }
        lfs.checkpoint(disk).map_err(command)
    };
    // Sustained runs are preceded by random updates of one file-set size.
    let (blocks, windows) = match setup.phase {
        Phase::Aged => (size.window_blocks(), setup.windows()),
        Phase::Sustained => {
            update(&mut lfs, &mut disk, file_blocks)?;
            (file_blocks, 1)
        }
    };
    let mut measured = Vec::new();
    for _ in 0..windows {
        let before = Snapshot::of(&lfs, &disk);
        update(&mut lfs, &mut disk, blocks)?;
        measured.push(before.until(&Snapshot::of(&lfs, &disk)));
    }
    let fill = f64::from(file_blocks) / f64::from(layout.segments * layout.segment_blocks);
    Ok(Measured { fill, windows: measured })
}

struct Disk {
    drive: Box<dyn Simulated>,
    queue: HostQueue,
    pacing: Pacing,
}

impl Disk {
    fn new(drive: Box<dyn Simulated>, depth: u32) -> Self {
        let pacing = Pacing::Closed { depth, interval_ns: 0 };
        Self { drive, queue: HostQueue::new(pacing, SimTime::ZERO), pacing }
    }
}

impl LfsDisk for Disk {
    type Error = CommandError;

    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), CommandError> {
        self.queue.send(&mut *self.drive, None, &drive_command(&command))
    }

    fn wait(&mut self) -> Result<(), CommandError> {
        self.queue.finish(&mut *self.drive)?;
        self.queue = HostQueue::new(self.pacing, self.queue.finished());
        Ok(())
    }
}

struct Snapshot {
    stats: DriveStats,
    now: SimTime,
    counts: LfsCounts,
}

impl Snapshot {
    fn of(lfs: &Lfs, disk: &Disk) -> Self {
        Self { stats: disk.drive.stats(), now: disk.queue.finished(), counts: lfs.counts() }
    }

    fn until(self, later: &Self) -> Window {
        let stats = later.stats.since(&self.stats);
        let LfsCounts { written, cleaned, moved, .. } = later.counts.since(&self.counts);
        Window {
            ns: later.now.since(self.now),
            written,
            cleaned,
            moved,
            programs: Cause::ALL.iter().map(|&cause| stats.nand.get(NandOp::Program, cause)).collect(),
            copied: stats.copies.logical_units + stats.copies.physical_units,
            without_entry: stats.copies.map_full_units,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use strobe_workload::lfs::{Cleaning, LfsLayout, Trims};

    use super::*;
    use crate::logical_copy::{READ_WRITE, VICTIMS};

    struct Counter(u64);

    impl LfsDisk for Counter {
        type Error = Infallible;

        fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Infallible> {
            if let LfsCommand::Write(range) = command {
                self.0 += u64::from(range.sectors);
            }
            Ok(())
        }

        fn wait(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    const LAYOUT: LfsLayout = LfsLayout {
        block_sectors: 8,
        update_blocks: 4,
        request_blocks: 32,
        copy_ranges: 128,
        trim_ranges: 64,
        segments: 300,
        segment_blocks: 64,
        checkpoint_blocks: 1,
        cleaned_segments: 2,
        cleaning: Cleaning::Move,
        trims: Trims::EveryBlock,
        checkpoint_every: 64,
        sync: false,
    };

    #[test]
    fn victims_are_as_live_as_asked_for_and_cost_what_theory_says() {
        for (phase, victims) in VICTIMS.into_iter().flat_map(|u| [(Phase::Aged, u), (Phase::Sustained, u)]) {
            let file_blocks = file_blocks(&Setup::new(phase, victims, READ_WRITE), LAYOUT.log_blocks());
            let (mut lfs, mut disk) = (Lfs::new(LAYOUT, file_blocks, 1), Counter(0));
            let Ok(()) = lfs.create(&mut disk);
            let Ok(()) = lfs.age(&mut disk);
            let updates = |share: u32| file_blocks / LAYOUT.update_blocks * share / 100;
            let (before, after) = match phase {
                Phase::Aged => (0, updates(3)),
                Phase::Sustained => (updates(100), updates(100)),
            };
            (0..before).for_each(|_| lfs.update_at_random(&mut disk).expect("nothing fails"));
            let (start, start_sectors) = (lfs.counts(), disk.0);
            (0..after).for_each(|_| lfs.update_at_random(&mut disk).expect("nothing fails"));
            let done = lfs.counts().since(&start);
            let live = done.moved as f64 / done.cleaned as f64;
            // A short window may end long after the last cleaning or right after it. Its updates make
            // victims emptier than at its start.
            let (of_live, of_written) = if phase == Phase::Aged { (0.03, 0.1) } else { (0.01, 0.02) };
            assert!((live - victims).abs() < of_live, "{phase:?}, {victims}: {live}");
            let written = (disk.0 - start_sectors) as f64 / 8.0 / done.written as f64;
            let expected = 1.0 / (1.0 - live);
            assert!(
                (written / expected - 1.0).abs() < of_written,
                "{phase:?}, {victims}: {written} for {expected}"
            );
        }
    }
}
