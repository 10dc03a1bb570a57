//! Bounded latency under closed loops that never pause, on drives of all kinds.
//!
//! The bound is twice the work of a die that moves all of its blocks, each with its deadlines, and serves a read
//! for every outstanding command. Refresh, for reads or retention, adds its share of the time. Suspended operations,
//! idle work, refresh, folds, buffers and caches must all finish while reads continue.

use strobe_ssd::{
    Command, Completion, DataMode, DataTag, DriveConfig, GcMode, GcStream, Hint, Range, ScheduleTable,
    Simulated, build,
};
use strobe_types::{Lba, Prng, SimTime};

use crate::cut_in_time::drives::{Kind, any_drive, handles, may_fail};
use crate::cut_in_time::fill;
use crate::setup;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths {
    pub(crate) readers: u64,
    pub(crate) writers: u64,
    pub(crate) flushers: u64,
}

impl Depths {
    fn all(&self) -> u64 {
        self.readers + self.writers + self.flushers
    }
}

fn bound_ns(config: &DriveConfig, depths: Depths) -> u64 {
    let (nand, schedule) = (&config.nand, &config.controller.schedule);
    let on_bus = |bytes: u64| bytes * 1000 / u64::from(nand.channel_mb_s.max(1)) + nand.command_ns;
    let transfer_ns = if nand.channel_mb_s == 0 { nand.command_ns } else { on_bus(nand.page_bytes.into()) };
    let retries = u64::from(nand.read_retry.most) * u64::from(nand.read_retry.fresh > 0.0)
        + u64::from(nand.read_retry.most);
    let read_ns = (nand.read_ns.longest().max(nand.slc.read_ns) + transfer_ns) * (1 + retries);
    let waiting_ns = depths.all() * 6 * read_ns;
    // With a deadline, which counts from the start of its array time, an operation is not suspended past it.
    let suspend = &nand.suspend;
    let cycle_ns = suspend.suspend_ns + suspend.resume_ns;
    let suspended_ns = |deadline_ns: u64| match (suspend.most, deadline_ns) {
        (0, _) => 0,
        (most, 0) => u64::from(most) * (cycle_ns + waiting_ns),
        (_, deadline_ns) => deadline_ns + cycle_ns + read_ns,
    };
    let longest_ns = schedule.host_program_ns.max(schedule.background_program_ns);
    let program_ns = nand.program_ns.longest().max(nand.slc.program_ns * u64::from(nand.pages_per_program));
    let erase_ns = nand.erase_ns.max(nand.slc.erase_ns) + suspended_ns(schedule.erase_ns);
    let page_ns = read_ns + program_ns + transfer_ns + suspended_ns(longest_ns);
    let dies = u64::from(nand.channels * nand.dies_per_channel);
    let blocks = dies * u64::from(nand.planes_per_die * nand.blocks_per_plane);
    let block_ns = u64::from(nand.pages_per_block) * page_ns + erase_ns;
    let deadlines_ns = schedule.host_program_ns
        + schedule.background_read_ns
        + schedule.background_program_ns
        + schedule.erase_ns;
    // Victims may be relocated one by one, and each waits for its deadlines, as reads are always queued.
    let once_ns = blocks * (block_ns + deadlines_ns);
    // All blocks are relocated within this retention time.
    let days_ns = match config.ftl.refresh.days {
        days if days > 0.0 => (days / nand.read_retry.days_per_second * 1e9) as u64,
        _ => 0,
    };
    // A block is relocated after this many reads, each at least `fastest_ns` long.
    let fastest_ns = nand.command_ns + nand.read_ns.shortest().min(nand.slc.read_ns);
    let between_ns = u64::from(config.ftl.refresh.reads) * fastest_ns;
    let share = |work_ns: u64, every_ns: u64| match every_ns {
        0 => 0.0,
        every_ns => work_ns as f64 / every_ns as f64,
    };
    // Refresh recurs during the time that it adds. Above nine tenths of the time there is no useful bound.
    let share = share(block_ns + deadlines_ns, between_ns) + share(once_ns, days_ns);
    if share > 0.9 {
        return u64::MAX / 4;
    }
    ((waiting_ns + 2 * once_ns) as f64 / (1.0 - share)) as u64
}

pub(crate) struct Loops {
    pub(crate) drive: Box<dyn Simulated>,
    pub(crate) depths: Depths,
    pub(crate) rng: Prng,
    pub(crate) now: SimTime,
    pub(crate) longest_ns: u64,
    pub(crate) done: [u64; 3],
    /// Handles that a write may name.
    pub(crate) handles: u32,
}

impl Loops {
    fn kind(&self, tag: u64) -> usize {
        usize::from(tag >= self.depths.readers)
            + usize::from(tag >= self.depths.readers + self.depths.writers)
    }

    fn submit(&mut self, tag: u64) {
        let sectors = self.drive.sectors();
        let lba = self.rng.below_u64(sectors);
        let range = Range::new(Lba::new(lba), 1 + self.rng.below((sectors - lba).min(6) as u32));
        let hint = if self.rng.below(3) == 0 { Hint::Metadata } else { Hint::None };
        let fua = self.rng.below(5) == 0;
        let command = match self.kind(tag) {
            0 => Command::Read { range },
            1 => {
                let handle = if self.handles > 1 { self.rng.below(self.handles) as u16 } else { 0 };
                Command::Write { range, fua, tag: DataTag { hint, handle } }
            }
            _ => Command::Flush,
        };
        let bytes = vec![1; range.bytes() as usize];
        let data = (self.kind(tag) == 1).then_some(&bytes[..]);
        self.drive.submit(self.now, tag, &command, data);
    }

    /// Submits the first commands and runs. False at end of life.
    pub(crate) fn run(&mut self, until: SimTime, most: u64) -> bool {
        (0..self.depths.all()).for_each(|tag| self.submit(tag));
        self.resume(until, most)
    }

    /// Runs until `until` or `most` completions in all. False at end of life.
    pub(crate) fn resume(&mut self, until: SimTime, most: u64) -> bool {
        let mut completions: Vec<Completion> = Vec::new();
        while self.now < until && self.done.iter().sum::<u64>() < most {
            let next = self.drive.next_event().expect("commands are outstanding");
            self.drive.advance(next, &mut completions);
            self.now = self.now.max(next);
            for Completion { tag, at, issued, result, .. } in completions.drain(..) {
                if let Err(error) = result {
                    println!("after {} commands: {error}", self.done.iter().sum::<u64>());
                    return false;
                }
                self.longest_ns = self.longest_ns.max(at.since(issued));
                self.done[self.kind(tag)] += 1;
                self.submit(tag);
            }
        }
        if let Some((_, submitted)) = self.drive.oldest_outstanding() {
            self.longest_ns = self.longest_ns.max(self.now.since(submitted.min(self.now)));
        }
        true
    }
}

/// Drives with handles have more open blocks, so a longer bound.
const fn commands_most(kind: Kind) -> u64 {
    if matches!(kind, Kind::Handles) { 500_000 } else { 100_000 }
}

/// Compares the drive of `seed` with its bound; `None` without a drive. False if the commands ran out first:
/// starvation would go undetected.
fn compare(kind: Kind, seed: u64) -> Option<bool> {
    let mut rng = Prng::derive(seed, "waiting");
    let (mut config, _) = any_drive(kind, &mut rng)?;
    // Bounds that a short run can violate: by deadlines, or by few suspends.
    if rng.below(2) == 0 {
        let (host_program_ns, background_read_ns) = (300 + rng.below_u64(3_000), 2_000);
        let (background_program_ns, erase_ns) = (3_000, 4_000);
        config.controller.schedule =
            ScheduleTable { host_program_ns, background_read_ns, background_program_ns, erase_ns };
    } else {
        config.nand.suspend.most = config.nand.suspend.most.min(2);
        config.controller.schedule = ScheduleTable {
            host_program_ns: 0,
            background_read_ns: 0,
            background_program_ns: 0,
            erase_ns: 0,
        };
    }
    // Refresh after a few reads takes nearly all of the dies' time, and the bound would be too long to check.
    if rng.below(4) > 0 {
        config.ftl.refresh.reads = config.ftl.refresh.reads.saturating_mul(50);
        config.ftl.refresh.days *= 50.0;
    }
    let mut drive = build(&config, true, seed).ok()?;
    let now = fill(&mut *drive).ok()?;
    let one_of = |rng: &mut Prng, depths: &[u64]| depths[rng.below(depths.len() as u32) as usize];
    let depths = Depths {
        readers: one_of(&mut rng, &[1, 4, 16, 40]),
        writers: one_of(&mut rng, &[1, 1, 4, 12]),
        flushers: one_of(&mut rng, &[0, 1]),
    };
    let bound_ns = bound_ns(&config, depths);
    let mut loops = Loops { drive, depths, rng, now, longest_ns: 0, done: [0; 3], handles: handles(&config) };
    let until = now + bound_ns + bound_ns / 8;
    let goes_on = loops.run(until, commands_most(kind));
    assert!(goes_on || may_fail(&config), "seed {seed}: a command failed on {config:?}");
    let Loops { longest_ns, done, now: end, .. } = loops;
    assert!(
        longest_ns <= bound_ns,
        "seed {seed}: a command took {longest_ns} ns, {bound_ns} at most; {depths:?}, done {done:?}, of {config:?}"
    );
    Some(goes_on && end > now + bound_ns)
}

fn compare_all(kind: Kind, seeds: std::ops::Range<u64>) {
    let seeds = strobe_testing::seeds(seeds);
    let is_whole = seeds.is_whole();
    let (mut conclusive, mut all) = (0, 0);
    for seed in seeds {
        conclusive += u32::from(compare(kind, seed.get()) == Some(true));
        all += 1;
    }
    assert!(conclusive > 0 || !is_whole, "none of {all} drives ran for longer than the bound");
}

#[test]
fn commands_of_drives_with_handles_complete_while_reads_go_on() {
    compare_all(Kind::Handles, 3_000..3_020);
}

#[test]
fn commands_of_page_mapped_drives_complete_while_reads_go_on() {
    compare_all(Kind::Page, 0..60);
}

#[test]
fn commands_of_drives_with_an_slc_cache_complete_while_reads_go_on() {
    compare_all(Kind::Slc, 1_000..1_040);
}

#[test]
fn commands_of_block_mapped_drives_complete_while_reads_go_on() {
    compare_all(Kind::Block, 2_000..2_030);
}

/// A nearly full drive that empties many victims at once: their copies and the host compete for erased blocks.
fn crowded_drive(rng: &mut Prng) -> DriveConfig {
    let one_of = |rng: &mut Prng, of: &[u32]| of[rng.below(of.len() as u32) as usize];
    let mut config = setup::config();
    config.nand.dies_per_channel = one_of(rng, &[1, 1, 2]);
    config.nand.planes_per_die = one_of(rng, &[1, 1, 2]);
    let planes = config.nand.dies_per_channel * config.nand.planes_per_die;
    (config.nand.blocks_per_plane, config.nand.pages_per_block) = (120 / planes, 64);
    config.nand.data = DataMode::Bytes;
    config.ftl.durable_map = (rng.below(3) == 0).into();
    let scheme = ["none", "hot-cold", "dac", "sepbit"][rng.below(4) as usize];
    config.ftl.placement.scheme = scheme.into();
    let gc = &mut config.ftl.gc;
    gc.mode = GcMode::Background;
    gc.stream = [GcStream::Own, GcStream::Own, GcStream::Host][rng.below(3) as usize];
    gc.victim = ["greedy", "fifo"][rng.below(2) as usize].to_owned();
    gc.victims = one_of(rng, &[1, 4, 8, 32]);
    gc.high_watermark_blocks = 12 + 8 * planes + rng.below(10);
    // Without a buffer all writes wait for space; with one, write-through does not.
    config.controller.write_buffer_bytes = u64::from(one_of(rng, &[0, 0, 256])) * 1024;
    let blocks = 120 - config.ftl.gc.high_watermark_blocks - one_of(rng, &[0, 4, 8]);
    config.ftl.logical_pages = Some(blocks * config.nand.pages_per_block);
    config
}

#[test]
fn many_victims_in_progress_leave_space_for_their_copies() {
    let (mut drives, mut collected) = (0, 0);
    let seeds = strobe_testing::seeds(40_000..40_060);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut rng = Prng::derive(seed.get(), "many victims");
        let config = crowded_drive(&mut rng);
        let Ok(mut drive) = build(&config, true, seed.get()) else { continue };
        let now = fill(&mut *drive).expect("filled");
        let depths = Depths { readers: 1, writers: 4 << (2 * rng.below(5)), flushers: rng.below(2).into() };
        let mut loops =
            Loops { drive, depths, rng, now, longest_ns: 0, done: [0; 3], handles: handles(&config) };
        let goes_on = loops.run(SimTime::from_ns(u64::MAX), 30_000);
        assert!(goes_on, "seed {}: a command failed on {config:?}", seed.get());
        loops.drive.check().unwrap_or_else(|error| panic!("seed {}: {error}", seed.get()));
        drives += 1;
        collected += u32::from(loops.drive.stats().gc.victims > 100);
    }
    assert!(!is_whole || (drives > 40 && collected > 30), "{collected} of {drives} drives collected");
}

/// Writes that could not wait filled the block that the copies of a victim were going to.
#[test]
fn writes_leave_space_for_copies_on_their_stream() {
    let mut rng = Prng::derive(987_674_409, "waiting");
    let (config, _) = any_drive(Kind::Slc, &mut rng).expect("a drive");
    let gc = &config.ftl.gc;
    assert_eq!(
        (gc.stream, config.nand.pages_per_block, config.nand.program_fail_rate),
        (GcStream::Host, 12, 0.0)
    );
    compare(Kind::Slc, 987_674_409).expect("a drive");
}

#[test]
#[ignore = "minutes long: make test-long"]
fn commands_of_many_drives_complete_while_reads_go_on() {
    compare_all(Kind::Page, 10_000..16_000);
    compare_all(Kind::Slc, 20_000..22_000);
    compare_all(Kind::Handles, 40_000..42_000);
    compare_all(Kind::Block, 30_000..32_000);
}
