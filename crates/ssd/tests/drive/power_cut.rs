//! Power cuts at every flash operation of every command: all commands, write buffer, non-volatile cache,
//! logical copies. The oracle is `Simulated::watch`.

use strobe_ssd::{
    Command, CopyMode, DataMode, DriveConfig, DurableMap, Hint, LogVictim, NvramPolicyName, Range,
    RecoveryError, SectorRange, Simulated, build,
};
use strobe_types::{Lba, Lpn, Prng};

use crate::setup::{T0, config};

const UNIT: u64 = 4;

fn durable() -> DriveConfig {
    let mut config = config();
    config.nand.blocks_per_plane = 24;
    config.nand.pages_per_block = 4;
    config.nand.page_bytes = 2048;
    config.nand.data = DataMode::Bytes;
    config.ftl.mapping_unit_bytes = 2048;
    config.ftl.logical_pages = Some(30);
    config.ftl.durable_map = true.into();
    config
}

fn fresh(config: &DriveConfig) -> Box<dyn Simulated> {
    let mut drive = build(config, false, 1).expect("a drive");
    drive.watch();
    drive
}

fn run(drive: &mut dyn Simulated, command: &Command<'_>) {
    drive.execute(T0, command).expect("the command is fine");
}

fn units(first: u64, count: u64) -> Range {
    Range::new(Lba::new(first * UNIT), (count * UNIT) as u32)
}

fn write(first: u64, count: u64) -> Command<'static> {
    Command::Write { range: units(first, count), fua: false, tag: Hint::None.into() }
}

fn restarted(drive: &dyn Simulated) -> Box<dyn Simulated> {
    drive.freeze().restart(T0).expect("recovers").0
}

#[test]
fn what_only_the_write_buffer_holds_is_lost_and_allowed_to_be() {
    let mut config = durable();
    config.controller.write_buffer_bytes = 16 * 2048;
    let mut drive = fresh(&config);
    run(&mut *drive, &write(0, 8));
    let verdict = restarted(&*drive).verify().expect("watched");
    assert_eq!((verdict.unflushed, verdict.newest, verdict.older), (8, 0, 8));
    assert_eq!(verdict.wrong, []);
    run(&mut *drive, &Command::Flush);
    let verdict = restarted(&*drive).verify().expect("watched");
    assert_eq!((verdict.units, verdict.unflushed, verdict.wrong), (30, 0, vec![]));
}

#[test]
fn a_forced_write_is_kept_beside_others_that_are_not() {
    let mut config = durable();
    config.controller.write_buffer_bytes = 16 * 2048;
    let mut drive = fresh(&config);
    run(&mut *drive, &write(0, 3));
    run(&mut *drive, &Command::Write { range: units(1, 1), fua: true, tag: Hint::None.into() });
    let verdict = restarted(&*drive).verify().expect("watched");
    assert_eq!((verdict.unflushed, verdict.older, verdict.wrong), (2, 2, vec![]));
}

#[test]
fn a_flush_that_was_cut_short_promises_nothing() {
    let mut config = durable();
    config.controller.write_buffer_bytes = 16 * 2048;
    let mut drive = fresh(&config);
    run(&mut *drive, &write(0, 8));
    drive.plan_cut(drive.operations() + 4);
    run(&mut *drive, &Command::Flush);
    assert!(drive.was_cut());
    let verdict = drive.restart(T0).expect("recovers").0.verify().expect("watched");
    assert_eq!((verdict.unflushed, verdict.newest + verdict.older, verdict.wrong), (8, 8, vec![]));
}

#[test]
fn a_cut_with_nothing_planned_is_one_between_commands() {
    let mut drive = fresh(&durable());
    run(&mut *drive, &write(0, 8));
    assert!(!drive.was_cut());
    let (mut back, recovery) = drive.freeze().restart(T0).expect("recovers");
    assert_eq!(recovery.illegible_pages, 0);
    let verdict = back.verify().expect("watched");
    assert_eq!((verdict.newest, verdict.wrong), (8, vec![]));
}

#[test]
fn the_torn_page_is_seen_and_counted() {
    let mut drive = fresh(&durable());
    drive.plan_cut(3);
    run(&mut *drive, &write(0, 4));
    let (back, recovery) = drive.restart(T0).expect("recovers");
    assert_eq!((recovery.units_found, recovery.illegible_pages), (1, 1));
    back.check().expect("state");
}

#[test]
fn a_volatile_drive_says_that_it_cannot() {
    let mut config = durable();
    config.ftl.durable_map = false.into();
    let error = fresh(&config).restart(T0).err();
    assert_eq!(error, Some(RecoveryError::Volatile));
}

#[test]
fn the_non_volatile_cache_survives_and_flushes_nothing() {
    let mut config = durable();
    config.controller.nvram.bytes = 8 * 2048;
    let mut drive = fresh(&config);
    run(&mut *drive, &write(0, 6));
    run(&mut *drive, &Command::Flush);
    assert_eq!(drive.operations(), 0);
    let verdict = restarted(&*drive).verify().expect("watched");
    assert_eq!((verdict.unflushed, verdict.wrong), (0, vec![]));
}

fn any_config(rng: &mut Prng) -> DriveConfig {
    let mut config = durable();
    let buffers = [0, 0, 3, 8];
    let pick = rng.below(4) as usize;
    config.controller.write_buffer_bytes = buffers[pick] * 2048;
    if rng.below(2) == 0 {
        config.controller.nvram.bytes = u64::from(1 + rng.below(6)) * 2048;
        config.controller.nvram.policy =
            [NvramPolicyName::Lru, NvramPolicyName::LbaRange, NvramPolicyName::Hint][rng.below(3) as usize];
        if config.controller.nvram.policy == NvramPolicyName::LbaRange {
            config.controller.nvram.ranges = vec![SectorRange { first_sector: 8, sectors: 30 }];
        }
    }
    if rng.below(2) == 0 {
        config.ftl.copy_mode = CopyMode::Logical;
        config.ftl.virtual_map_entries = 1 + rng.below(12);
    }
    config.nand.channels = 1 + rng.below(2);
    let mappings = ["page", "page", "page", "dftl", "replacement-block", "log-block", "fast"];
    config.ftl.mapping = mappings[rng.below(7) as usize].to_owned();
    if config.ftl.mapping != "page" {
        config.ftl.log_blocks = 2 + rng.below(3);
        config.ftl.log_victim = [LogVictim::Lru, LogVictim::Fifo, LogVictim::Fullest][rng.below(3) as usize];
        config.ftl.translation.cached_entries = 1 + rng.below(20);
        if config.ftl.mapping != "dftl" {
            config.ftl.copy_mode = CopyMode::Physical;
        }
        config.nand.any_page_order = config.ftl.mapping == "replacement-block" || rng.below(2) == 0;
        config.nand.blocks_per_plane = 40;
    }
    if config.ftl.mapping == "page" && rng.below(3) == 0 {
        (config.ftl.durable_map, config.nand.blocks_per_plane) = (DurableMap::Pages, 40);
    }
    config.ftl.gc.victim = ["greedy", "fifo", "capi", "scata"][rng.below(4) as usize].to_owned();
    config
}

fn any_range(rng: &mut Prng, most: u64) -> Range {
    let sectors = 30 * UNIT;
    let lba = rng.below_u64(sectors);
    let aligned = rng.below(2) == 0;
    let lba = if aligned { lba / UNIT * UNIT } else { lba };
    let count = 1 + rng.below_u64((sectors - lba).min(most));
    let count = if aligned { count.next_multiple_of(UNIT).min(sectors - lba) } else { count };
    Range::new(Lba::new(lba), count as u32)
}

fn torture(seed: u64, commands: u32) -> u64 {
    let mut rng = Prng::new(seed);
    let config = any_config(&mut rng);
    let mut drive = fresh(&config);
    let mut cuts = 0;
    for number in 0..commands {
        let hint = if rng.below(3) == 0 { Hint::Metadata } else { Hint::None };
        let range = any_range(&mut rng, 5 * UNIT);
        let ranges = [any_range(&mut rng, 3 * UNIT), any_range(&mut rng, 2 * UNIT)];
        let command = match rng.below(16) {
            0 | 1 => Command::Deallocate(&ranges),
            2 => Command::Flush,
            3 => Command::WriteZeroes { range, deallocate: rng.below(2) == 0 },
            4..=7 => Command::Copy { destination: range.lba, sources: &ranges },
            8 => Command::Write { range, fua: true, tag: hint.into() },
            _ => Command::Write { range, fua: false, tag: hint.into() },
        };
        let place = || format!("seed {seed}, command {number} {command:?} on {config:?}");
        let mut after = drive.freeze();
        // Copies that overlap themselves or leave the drive are rejected.
        if after.execute(T0, &command).is_err() {
            continue;
        }
        for operation in drive.operations() + 1..=after.operations() {
            let mut cut = drive.freeze();
            cut.plan_cut(operation);
            run(&mut *cut, &command);
            assert!(cut.was_cut());
            let (mut back, _) =
                cut.restart(T0).unwrap_or_else(|error| panic!("{}, cut at {operation}: {error}", place()));
            back.check().unwrap_or_else(|error| panic!("{}, cut at {operation}: {error}", place()));
            let wrong: Vec<Lpn> = back.verify().expect("watched").wrong;
            assert_eq!(wrong, [], "{}, cut at {operation}", place());
            cuts += 1;
            if rng.below(20) == 0 {
                cuts += cut_again(back, &mut rng, &place);
            }
        }
        drive = after;
    }
    assert_eq!(drive.verify().expect("watched").wrong, [], "seed {seed}");
    cuts
}

/// Within a command, or within the recovery from the cut before.
fn cut_again(mut drive: Box<dyn Simulated>, rng: &mut Prng, place: &dyn Fn() -> String) -> u64 {
    let mut cuts = 0;
    for number in 0..8 {
        let range = any_range(rng, 5 * UNIT);
        let command = match rng.below(6) {
            0 => Command::Flush,
            1 => Command::WriteZeroes { range, deallocate: true },
            2 => Command::Write { range, fua: true, tag: Hint::Metadata.into() },
            _ => Command::Write { range, fua: false, tag: Hint::None.into() },
        };
        drive.plan_cut(drive.operations() + 1 + u64::from(rng.below(6)));
        run(&mut *drive, &command);
        // The command may take fewer operations.
        if !drive.was_cut() {
            continue;
        }
        cuts += 1;
        let failed = |error| panic!("{}, then {command:?}, cut {number}: {error}", place());
        (drive, _) = drive.restart(T0).unwrap_or_else(failed);
        drive.check().unwrap_or_else(|error| panic!("{}, then {command:?}: {error}", place()));
        let wrong = drive.verify().expect("watched").wrong;
        assert_eq!(wrong, [], "{}, then {command:?}, cut {number}", place());
    }
    cuts
}

#[test]
fn no_command_loses_what_was_flushed_wherever_it_is_cut() {
    let cuts: u64 = (0..60).map(|seed| torture(seed, 60)).sum();
    assert!(cuts > 5_000, "{cuts} cuts");
}

#[test]
#[ignore = "minutes long: make test-long"]
fn no_command_loses_what_was_flushed_in_many_drives() {
    let seeds = strobe_testing::seeds(1000..9000);
    let is_whole = seeds.is_whole();
    let cuts: u64 = seeds.map(|seed| torture(seed.get(), 60)).sum();
    assert!(cuts > 500_000 || !is_whole, "{cuts} cuts");
}
