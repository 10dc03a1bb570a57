//! Read errors, compared with a naive model: a set of unreadable units.

use std::collections::BTreeSet;

use strobe_ftl::{FtlError, RecoveryError};
use strobe_ssd::{
    BuildError, Command, CommandError, CommandKind, DataMode, DriveConfig, FaultAt, Hint, Range, Simulated,
    StateReader, StateWriter, Status, Target, build,
};
use strobe_types::{Lba, Prng, SimTime};

use crate::setup::{READ, T0, TRANSFER, UNIT, buffered, closed, config, read_unit, shaped, write_unit};

const UNITS: u32 = 60;
const SECTORS: u64 = UNIT as u64;

fn small(mapping: &str, is_durable: bool, rng: &mut Prng) -> DriveConfig {
    let mut config = shaped(1, 1, 1 + rng.below(2));
    config.nand.data = DataMode::Bytes;
    config.nand.pages_per_block = 6;
    config.ftl.mapping = mapping.to_owned();
    config.ftl.logical_pages = Some(UNITS);
    config.ftl.log_blocks = 3;
    config.ftl.translation.cached_entries = 4 + rng.below(20);
    config.nand.any_page_order = mapping == "replacement-block";
    if matches!(mapping, "page" | "dftl") && rng.below(2) == 0 {
        config.nand.page_bytes = 8192;
        config.ftl.logical_pages = Some(2 * UNITS);
    }
    config.ftl.durable_map = is_durable.into();
    let works = |&blocks: &u32| {
        config.nand.blocks_per_plane = blocks;
        build(&config, false, 1).is_ok()
    };
    let least = (5..60).find(works).expect("enough flash");
    config.nand.blocks_per_plane = least + 1;
    config
}

fn unit(lpn: u64) -> Range {
    Range::new(Lba::new(lpn * SECTORS), UNIT)
}

fn write(range: Range) -> Command<'static> {
    Command::Write { range, fua: false, tag: Hint::None.into() }
}

fn saved(drive: &dyn Simulated) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = StateWriter::new(&mut bytes);
    drive.save_state(&mut out);
    out.finish().expect("saved");
    bytes
}

fn again(drive: &dyn Simulated, config: &DriveConfig, timing: bool) -> Box<dyn Simulated> {
    let bytes = saved(drive);
    let mut other = build(config, timing, 1).expect("built before");
    let (mut rest, length) = (&bytes[..], bytes.len() as u64);
    other.load_state(&mut StateReader::new(&mut rest, length)).expect("loaded");
    assert_eq!(saved(&*other), bytes);
    other
}

#[derive(Default)]
struct Model {
    mapped: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    /// Planned faults of units, each after a number of units written.
    coming: Vec<(u64, u64)>,
    written: u64,
    errors: [u64; 3],
}

impl Model {
    fn bring_faults(&mut self) {
        let (written, mapped, lost) = (self.written, &self.mapped, &mut self.lost);
        self.coming.retain(|&(unit, after)| {
            let comes = written >= after && mapped.contains(&unit);
            if comes {
                lost.insert(unit);
            }
            !comes
        });
    }

    fn stored(&mut self, lpn: u64) {
        self.lost.remove(&lpn);
        self.mapped.insert(lpn);
        self.written += 1;
    }
}

struct Pair {
    drive: Box<dyn Simulated>,
    model: Model,
    now: SimTime,
    units: u64,
}

impl Pair {
    fn execute(&mut self, command: &Command<'_>) -> bool {
        self.model.bring_faults();
        match self.drive.execute(self.now, command) {
            Ok(at) => {
                self.now = at;
                true
            }
            Err(error) => {
                assert!(matches!(error, CommandError::Unreadable { .. }), "{error}");
                assert_eq!(error.status(), Status { sct: 2, sc: 0x81 });
                false
            }
        }
    }

    fn step(&mut self, rng: &mut Prng) {
        let lpn = rng.below_u64(self.units);
        let count = 1 + rng.below_u64((self.units - lpn).min(4));
        let range = Range::new(Lba::new(lpn * SECTORS), (count * SECTORS) as u32);
        let touched = lpn..lpn + count;
        match rng.below(10) {
            0..=2 => {
                let is_read = self.execute(&Command::Read { range });
                let is_lost = self.model.lost.range(touched).next().is_some();
                assert_eq!(is_read, !is_lost, "read of {lpn} and {} more", count - 1);
                self.model.errors[0] += u64::from(is_lost);
            }
            3 => {
                self.execute(&Command::Deallocate(&[range]));
                for lpn in touched {
                    self.model.lost.remove(&lpn);
                    self.model.mapped.remove(&lpn);
                }
            }
            // Three sectors of one unit.
            4 => {
                let part = Range::new(Lba::new(lpn * SECTORS + 2), 3);
                let is_written = self.execute(&write(part));
                assert_eq!(is_written, !self.model.lost.contains(&lpn), "part of unit {lpn}");
                if is_written {
                    self.model.stored(lpn);
                }
                self.model.errors[1] += u64::from(!is_written);
            }
            5 if lpn > 0 => {
                let source = rng.below_u64(lpn);
                let copy = Command::Copy { destination: Lba::new(lpn * SECTORS), sources: &[unit(source)] };
                let is_copied = self.execute(&copy);
                assert_eq!(is_copied, !self.model.lost.contains(&source), "copy of {source} to {lpn}");
                if is_copied {
                    self.model.lost.remove(&lpn);
                    if self.model.mapped.contains(&source) {
                        self.model.mapped.insert(lpn);
                    } else {
                        self.model.mapped.remove(&lpn);
                    }
                }
                self.model.errors[2] += u64::from(!is_copied);
            }
            // From the second sector of one unit to the second of another: all of it or nothing.
            6 if count > 1 => {
                let part = Range::new(Lba::new(lpn * SECTORS + 1), ((count - 1) * SECTORS) as u32);
                let (tail, ends) = (lpn + count - 1, [lpn, lpn + count - 1]);
                let is_zeroed = self.execute(&Command::WriteZeroes { range: part, deallocate: true });
                assert_eq!(
                    is_zeroed,
                    !ends.iter().any(|end| self.model.lost.contains(end)),
                    "zeroes at {lpn}"
                );
                if is_zeroed {
                    for lpn in lpn + 1..tail {
                        self.model.lost.remove(&lpn);
                        self.model.mapped.remove(&lpn);
                    }
                    ends.into_iter().for_each(|end| self.model.stored(end));
                }
            }
            _ => {
                assert!(self.execute(&write(range)));
                touched.for_each(|lpn| self.model.stored(lpn));
            }
        }
    }

    fn check(&mut self) {
        self.drive.check().expect("state");
        for lpn in 0..self.units {
            let is_read = self.execute(&Command::Read { range: unit(lpn) });
            assert_eq!(is_read, !self.model.lost.contains(&lpn), "unit {lpn}");
            self.model.errors[0] += u64::from(!is_read);
        }
        let kinds = [CommandKind::Read, CommandKind::Write, CommandKind::Copy];
        assert_eq!(kinds.map(|kind| self.drive.host_counts().errors(kind)), self.model.errors);
    }
}

/// Returns failed reads and relocated units.
fn compare(mapping: &str, seed: u64) -> (u64, u64) {
    let mut rng = Prng::derive(seed, mapping);
    let mut config = small(mapping, false, &mut rng);
    let units = u64::from(config.ftl.logical_pages.expect("given"));
    let timing = rng.below(2) == 0;
    if timing && mapping == "page" && rng.below(2) == 0 {
        config.ftl.gc.mode = strobe_ssd::GcMode::Background;
    }
    let mut model = Model::default();
    for _ in 0..40 {
        let (lpn, after) = (rng.below_u64(units), rng.below_u64(1500));
        model.coming.push((lpn, after));
        let fault = FaultAt { unit: Some(lpn as u32), after_writes: after, ..FaultAt::default() };
        config.nand.faults.at.push(fault);
    }
    let drive = build(&config, timing, 1).unwrap_or_else(|error| panic!("{error}: {config:?}"));
    let mut pair = Pair { drive, model, now: T0, units };
    for step in 0..900 {
        pair.step(&mut rng);
        if step % 300 == 299 {
            pair.check();
            pair.drive = again(&*pair.drive, &config, timing);
        }
    }
    let reads = pair.model.errors[0];
    assert!(pair.drive.stats().uncorrectable_reads >= reads);
    let stats = pair.drive.stats();
    (reads, stats.gc.units_moved)
}

#[test]
fn a_set_of_lost_units_is_all_there_is_to_read_errors() {
    for mapping in ["page", "dftl", "replacement-block", "log-block", "fast"] {
        let (mut failed, mut moved) = (0, 0);
        for seed in 0..12 {
            let (reads, units) = compare(mapping, seed);
            (failed, moved) = (failed + reads, moved + units);
        }
        assert!(failed > 150 && moved > 1000, "{mapping}: {failed} failed, {moved} moved");
    }
}

#[test]
fn a_power_cut_leaves_lost_units_lost() {
    let mut cuts = 0;
    for mapping in ["page", "dftl", "replacement-block", "log-block", "fast"] {
        for (seed, timing) in [(1, false), (2, true)] {
            let mut rng = Prng::derive(seed, mapping);
            let mut config = small(mapping, true, &mut rng);
            let units = u64::from(config.ftl.logical_pages.expect("given"));
            let lost: Vec<u64> = (0..units).step_by(7).collect();
            for &lpn in &lost {
                let (unit, after_writes) = (Some(lpn as u32), units);
                config.nand.faults.at.push(FaultAt { unit, after_writes, ..FaultAt::default() });
            }
            let mut drive = build(&config, timing, 1).unwrap_or_else(|error| panic!("{error}: {config:?}"));
            let mut now = T0;
            for lpn in 0..units {
                now = drive.execute(now, &write(unit(lpn))).expect("written");
            }
            now = drive.execute(now, &Command::Flush).expect("flushed");
            drive.execute(now, &Command::Read { range: unit(lost[0]) }).expect_err("lost");
            drive.cut_everywhere();
            let mut left = Vec::new();
            for _ in 0..400 {
                let lpn = rng.below_u64(units);
                if !lpn.is_multiple_of(7) {
                    now = drive.execute(now, &write(unit(lpn))).expect("written");
                }
                // Checks a few of very many.
                left.extend(drive.take_cuts().into_iter().filter(|_| rng.below(12) == 0));
            }
            assert!(drive.stats().gc.units_moved > 100, "{mapping}: nothing was moved");
            cuts += left.len();
            for cut in left {
                let (mut drive, recovery) = cut.drive.restart(now).expect("found again");
                drive.check().expect("state");
                for lpn in 0..units {
                    let read = drive.execute(recovery.finished, &Command::Read { range: unit(lpn) });
                    assert_eq!(read.is_err(), lpn.is_multiple_of(7), "{mapping}: unit {lpn}, {read:?}");
                }
            }
        }
    }
    assert!(cuts > 300, "{cuts} cuts");
}

#[test]
fn a_read_that_fails_takes_all_its_retries_and_the_rest_of_the_drive_is_as_before() {
    let mut config = config();
    let retry = &mut config.nand.read_retry;
    (retry.fresh, retry.most, retry.fails_beyond_most) = (100.0, 3, true);
    let mut drive = build(&config, true, 1).expect("a drive");
    let mut now = drive.execute(T0, &write(unit(0))).expect("written");
    drive.submit(now, 1, &Command::Read { range: unit(0) }, None);
    let mut done = Vec::new();
    while let Some(next) = drive.next_event() {
        drive.advance(next, &mut done);
    }
    assert!(matches!(done[0].result, Err(CommandError::Unreadable { lba: 0, sectors: UNIT })), "{done:?}");
    assert_eq!(done[0].at.since(now), 4 * (READ + TRANSFER), "four reads");
    // Without the key the last retry corrects it.
    config.nand.read_retry.fails_beyond_most = false;
    let mut drive = build(&config, true, 1).expect("a drive");
    now = drive.execute(T0, &write(unit(0))).expect("written");
    drive.execute(now, &Command::Read { range: unit(0) }).expect("corrected");
    assert_eq!((drive.stats().read_retries, drive.stats().uncorrectable_reads), (3, 0));
}

#[test]
fn a_transient_fault_fails_one_host_read_and_no_read_of_the_drive() {
    for timing in [false, true] {
        let mut config = config();
        config.nand.blocks_per_plane = 25;
        for lpn in 0..160 {
            config.nand.faults.at.push(FaultAt { unit: Some(lpn), transient: true, ..FaultAt::default() });
        }
        let mut drive = build(&config, timing, 1).expect("a drive");
        let mut now = T0;
        for lpn in 0..160 {
            now = drive.execute(now, &write(unit(lpn))).expect("written");
        }
        drive.execute(now, &Command::Read { range: unit(5) }).expect_err("the first read fails");
        now = drive.execute(now, &Command::Read { range: unit(5) }).expect("the second does not");
        // Collection reads pages that host reads have not read.
        for lpn in (0..160).step_by(2).cycle().take(400) {
            now = drive.execute(now, &write(unit(lpn))).expect("written");
        }
        assert!(drive.stats().gc.units_moved > 40);
        let failed = (1..160).step_by(2).filter(|&lpn| lpn != 5);
        let failed =
            failed.filter(|&lpn| drive.execute(now, &Command::Read { range: unit(lpn) }).is_err()).count();
        assert!(failed < 60, "{failed} of 79 were not moved");
        assert_eq!(drive.host_counts().errors(CommandKind::Read), failed as u64 + 1);
    }
}

#[test]
fn a_flash_page_that_fails_takes_all_its_units_until_its_block_is_erased() {
    let mut config = config();
    config.nand.page_bytes = 8192;
    config.ftl.logical_pages = Some(300);
    let at = FaultAt { block: Some(0), page: Some(1), after_writes: 4, ..FaultAt::default() };
    config.nand.faults.at.push(at);
    let mut drive = build(&config, false, 1).expect("a drive");
    // Two units to a page, in the order in which they are written.
    drive.execute(T0, &write(Range::new(Lba::new(0), 6 * UNIT))).expect("written");
    let fails =
        |drive: &mut dyn Simulated, lpn| drive.execute(T0, &Command::Read { range: unit(lpn) }).is_err();
    let lost: Vec<u64> = (0..6).filter(|&lpn| fails(&mut *drive, lpn)).collect();
    assert_eq!(lost, [2, 3]);
    drive.execute(T0, &write(unit(2))).expect("written");
    assert_eq!([2, 3].map(|lpn| fails(&mut *drive, lpn)), [false, true]);
}

#[test]
fn a_rate_fails_the_same_reads_each_time_and_runs_go_on() {
    let mut config = buffered(config(), 4);
    config.nand.faults.read_rate = 0.01;
    let run = |seed| {
        let mut drive = build(&config, true, seed).expect("a drive");
        let mut queue = closed(4);
        let mut requests: Vec<_> = (0..160).map(write_unit).collect();
        let mut rng = Prng::new(3);
        requests.extend((0..4000).map(|_| match rng.below(2) {
            0 => write_unit(rng.below_u64(160)),
            _ => read_unit(rng.below_u64(160)),
        }));
        drive.run(&requests, &[], &mut queue).expect("a read error is a result");
        drive.check().expect("state");
        (drive.host_counts().errors(CommandKind::Read), drive.stats().uncorrectable_reads, queue.now())
    };
    let (errors, pages, _) = run(1);
    assert!(errors > 10 && pages >= errors, "{errors} reads failed, {pages} pages");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn no_read_of_a_copy_on_its_way_is_lost_in_silence() {
    let mut config = config();
    config.ftl.logical_pages = Some(200);
    config.ftl.gc.mode = strobe_ssd::GcMode::Background;
    config.nand.faults.read_rate = 0.05;
    let (mut drive, mut rng) = (build(&config, true, 1).expect("a drive"), Prng::new(5));
    let (mut now, mut done) = (T0, Vec::new());
    let (mut lost, mut told) = (BTreeSet::new(), BTreeSet::new());
    for tag in 0..30_000 {
        now = drive.next_event().map_or(now, |next| next.max(now));
        drive.advance(now, &mut done);
        let lpn = if tag < 200 { tag } else { rng.below_u64(200) };
        if tag >= 200 && tag % 8 > 0 {
            let before = drive.stats().uncorrectable_reads;
            drive.submit(now, tag, &Command::Read { range: unit(lpn) }, None);
            if drive.stats().uncorrectable_reads > before {
                lost.insert(tag);
            }
        } else {
            drive.submit(now, tag, &write(unit(lpn)), None);
        }
        told.extend(done.drain(..).filter(|done| done.result.is_err()).map(|done| done.tag));
    }
    while let Some(next) = drive.next_event() {
        drive.advance(next, &mut done);
    }
    told.extend(done.drain(..).filter(|done| done.result.is_err()).map(|done| done.tag));
    assert!(lost.len() > 500 && drive.stats().gc.units_moved > 500, "{} reads lost", lost.len());
    let silent: Vec<_> = lost.difference(&told).collect();
    assert!(silent.is_empty(), "{} of {} reads were lost in silence", silent.len(), lost.len());
}

#[test]
fn a_translation_page_that_cannot_be_read_ends_the_life_of_the_drive() {
    let mut config = config();
    config.ftl.mapping = "dftl".to_owned();
    config.ftl.translation.cached_entries = 4;
    config.nand.faults.read_rate = 1.0;
    let mut drive = build(&config, false, 1).expect("a drive");
    let result = (0..160).try_for_each(|lpn| drive.execute(T0, &write(unit(lpn))).map(drop));
    let error = result.expect_err("its map is lost");
    assert!(matches!(error, CommandError::Ftl(FtlError::MapUnreadable { .. })), "{error}");
    let read = drive.execute(T0, &Command::Read { range: unit(0) });
    assert_eq!(read, Err(error), "nothing is served");
}

#[test]
fn a_page_of_the_log_that_cannot_be_read_is_no_drive() {
    let mut config = config();
    config.ftl.durable_map = true.into();
    config.nand.data = DataMode::Stamp;
    config.nand.faults.read_rate = 1.0;
    let mut drive = build(&config, false, 1).expect("a drive");
    drive.execute(T0, &write(unit(0))).expect("written");
    drive.execute(T0, &Command::Flush).expect("flushed");
    let error = drive.restart(T0).map(drop).expect_err("no map");
    assert!(matches!(error, RecoveryError::MapUnreadable(_)), "{error}");
}

#[test]
fn faults_beyond_the_drive_are_refused_with_its_last_place() {
    let refused = |fault: FaultAt| {
        let mut config = config();
        config.nand.faults.at = vec![FaultAt { unit: Some(0), ..FaultAt::default() }, fault];
        build(&config, false, 1).map(drop).expect_err("refused")
    };
    let none = FaultAt::default();
    for (fault, key, last) in [
        (FaultAt { unit: Some(160), ..none.clone() }, "drive.nand.faults.at[1].unit", 159),
        (
            FaultAt { unit: Some(150), units: 11, ..none.clone() },
            "drive.nand.faults.at[1].unit + units - 1",
            159,
        ),
        (FaultAt { block: Some(32), page: Some(0), ..none.clone() }, "drive.nand.faults.at[1].block", 31),
        (FaultAt { block: Some(0), page: Some(8), ..none.clone() }, "drive.nand.faults.at[1].page", 7),
    ] {
        let error = refused(fault).to_string();
        assert!(error.contains(key) && error.ends_with(&format!("give 0 to {last}")), "{error}");
    }
    let both = FaultAt { unit: Some(1), block: Some(0), page: Some(0), ..none.clone() };
    for fault in [none.clone(), both, FaultAt { block: Some(0), ..none }] {
        assert!(matches!(refused(fault), BuildError::FaultPlace { at: 1 }));
    }
    let mut config = config();
    config.nand.faults.read_rate = -0.1;
    let error = build(&config, false, 1).map(drop).expect_err("refused").to_string();
    assert!(error.contains("drive.nand.faults.read_rate") && error.contains("0"), "{error}");
}

#[test]
fn a_target_keeps_its_first_error_and_its_counts_when_its_drive_is_replaced() {
    let mut config = config();
    config.nand.data = DataMode::Bytes;
    let drive = || build(&config, true, 1).expect("a drive");
    let mut target = Target::new(drive());
    let mut answers = Vec::new();
    let read = |lpn| [Command::Read { range: unit(lpn) }];
    target.submit(T0, 1, &read(u32::MAX.into()), None);
    target.advance(SimTime::from_ns(1_000_000_000), &mut answers);
    let error = target.first_error().expect("beyond the end").to_owned();
    target.submit(SimTime::from_ns(1_000_000_000), 2, &read(0), None);
    assert!(target.next_event().is_some());
    target.replace_drive(drive());
    assert_eq!(target.next_event(), None);
    assert_eq!(target.first_error(), Some(&*error));
    assert_eq!((target.requests().read, target.requests().failed), (2, 1));
}
