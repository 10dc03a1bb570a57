//! Placement handles from commands through the caches to streams.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{
    Inspectable as _, Isolation, MappingScheme as _, PageMap, PageMapConfig, PlacementKind, Watermarks,
};
use strobe_nand::{Cause, Chip, Nand as _, NandOp, StampMedium, Timing, Untimed, WearConfig};
use strobe_ssd::{
    Command, CommandError, DataTag, Device as _, Drive, DriveConfig, GcMode, Inspect as _, Range, SchemeName,
    Status, WearLevelingName,
};
use strobe_types::{BlockId, Lba, Prng};

use super::setup::{T0, array_timing, cached, closed, config, geometry, write_unit};

const HANDLES: u8 = 3;

fn drive<T: Timing>(config: &DriveConfig, timing: T) -> Drive<PageMap<Chip<T, StampMedium>, Greedy>> {
    isolated(config, timing, Isolation::Persistent)
}

fn isolated<T: Timing>(
    config: &DriveConfig,
    timing: T,
    isolation: Isolation,
) -> Drive<PageMap<Chip<T, StampMedium>, Greedy>> {
    let chip = Chip::new(geometry(config), WearConfig::default(), timing, 1);
    let policy = Greedy::new(chip.geometry().blocks());
    let map = PageMapConfig {
        placement: PlacementKind::Handles { count: HANDLES, isolation, unit_blocks: 2, groups: 1 },
        watermarks: Some(Watermarks { high: 26, low: 22, victims: 2, read_pages: 4 }),
        ..PageMapConfig::new(config.logical_units() as u32)
    };
    Drive::new(PageMap::new(chip, policy, map).expect("room"), &config.controller)
}

/// Handle h writes the units whose number is h modulo [`HANDLES`].
fn assert_handles_are_apart<T: Timing + Send>(config: &DriveConfig, timing: T, what: &str) {
    let mut drive = drive(config, timing);
    let units = config.logical_units();
    let mut rng = Prng::new(1);
    let mut queue = closed(8);
    for _ in 0..100 {
        let write = |_| {
            let unit = u64::from(rng.below(units as u32));
            write_unit(unit).placed((unit % u64::from(HANDLES)) as u16)
        };
        let requests: Vec<_> = (0..60).map(write).collect();
        assert_eq!(drive.issue(&requests, &[], &mut queue).expect("runs"), requests.len());
    }
    drive.check().expect("sound");
    let ftl = drive.ftl();
    assert!(ftl.stats().gc.victims > 50, "{what}: {:?}", ftl.stats().gc);
    let (nand, geometry) = (ftl.nand(), ftl.nand().geometry());
    for block in (0..geometry.blocks()).map(BlockId::new) {
        let (first, info) = (geometry.first_unit(block), ftl.block_info(block));
        let written = (0..info.written).filter_map(|at| nand.lpn(first.plus(at)));
        let mut handles: Vec<u32> = written.map(|lpn| lpn.get() % u32::from(HANDLES)).collect();
        handles.sort_unstable();
        handles.dedup();
        assert!(handles.len() <= 1, "{what}: {block:?} has units of handles {handles:?}, {info:?}");
    }
}

#[test]
fn units_of_different_handles_never_share_blocks() {
    let mut plain = config();
    plain.nand.blocks_per_plane = 60;
    plain.ftl.logical_pages = Some(160);
    let mut buffered = plain.clone();
    buffered.controller.write_buffer_bytes = 16 * 4096;
    let kinds = [("plain", plain.clone()), ("buffered", buffered), ("non-volatile cache", cached(plain, 24))];
    for (what, config) in kinds {
        assert_handles_are_apart(&config, Untimed::default(), what);
        assert_handles_are_apart(&config, array_timing(&config), &format!("{what}, timed"));
    }
}

#[test]
fn a_handle_that_the_drive_does_not_have_is_refused() {
    let mut config = config();
    config.nand.blocks_per_plane = 60;
    let mut drive = drive(&config, Untimed::default());
    for handle in [HANDLES.into(), u16::MAX] {
        let error = CommandError::NoSuchHandle { handle, handles: HANDLES.into() };
        let write =
            Command::Write { range: Range::new(Lba::new(0), 8), fua: false, tag: DataTag::placed(handle) };
        assert_eq!(drive.execute(T0, &write), Err(error.clone()));
        assert_eq!(error.status(), Status::INVALID_FIELD);
        let batch = [write_unit(1), write_unit(2).placed(handle), write_unit(3)];
        assert_eq!(drive.issue(&batch, &[], &mut closed(1)), Err((1, error)));
    }
    assert_eq!(drive.mapped_units(), 1, "what came before the refused request is done");
}

fn assert_programs_add_up<T: Timing + Send>(config: &DriveConfig, timing: T, isolation: Isolation) {
    let mut drive = isolated(config, timing, isolation);
    let units = config.logical_units();
    let mut rng = Prng::new(2);
    let mut queue = closed(8);
    for round in 0..60 {
        let write = |_| {
            let unit = u64::from(rng.below(units as u32));
            write_unit(unit).placed((unit % u64::from(HANDLES)) as u16)
        };
        let requests: Vec<_> = (0..60).map(write).collect();
        drive.run(&requests, &[], &mut queue).expect("runs");
        if round % 10 == 0 {
            drive.begin_unit(queue.now(), 1).expect("begun");
        }
    }
    drive.check().expect("sound");
    let (stats, counted) = (drive.stats(), drive.ftl().nand().counts());
    let all: u64 = stats.streams.iter().map(|counts| counts.pages).sum();
    assert_eq!(all, counted.total(NandOp::Program), "{isolation:?}: {:?}", stats.streams);
    let written: u64 = stats.streams.iter().map(|counts| counts.host_units).sum();
    assert_eq!(written, drive.ftl().stats().host_units_written, "{isolation:?}");
    // Streams of relocated data: one that the handles share, or one for each.
    let moved = if isolation == Isolation::Initial { 1 } else { HANDLES };
    assert_eq!(stats.streams.len(), usize::from(HANDLES + moved), "{isolation:?}");
    assert!(stats.streams.iter().all(|counts| counts.pages > 0), "{isolation:?}: {:?}", stats.streams);
    assert!(counted.get(NandOp::Program, Cause::Pad) > 0, "{isolation:?}: units are ended early");
}

#[test]
fn the_programs_of_all_handles_are_those_of_the_chip() {
    let mut config = config();
    config.nand.blocks_per_plane = 60;
    config.ftl.logical_pages = Some(160);
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        assert_programs_add_up(&config, Untimed::default(), isolation);
        assert_programs_add_up(&config, array_timing(&config), isolation);
    }
}

#[test]
fn a_handle_fills_its_unit_and_begins_the_next() {
    let mut config = config();
    config.nand.blocks_per_plane = 60;
    for buffer in [0, 16 * 4096] {
        config.controller.write_buffer_bytes = buffer;
        let mut drive = drive(&config, Untimed::default());
        let (planes, pages) = (drive.geometry().planes(), drive.geometry().units_per_block());
        let sectors = drive.geometry().sectors_per_unit();
        let left = |drive: &Drive<_>| -> Vec<u64> {
            let units = drive.reclaim_units().expect("handles");
            assert_eq!(units.unit_sectors, u64::from(2 * planes * pages * sectors));
            units.sectors_left.iter().map(|&left| left / u64::from(sectors)).collect()
        };
        let full = u64::from(2 * planes * pages);
        assert_eq!(left(&drive), [full; 3]);
        let write = |drive: &mut Drive<_>, count: u64, handle: u16| {
            (0..count).for_each(|unit| {
                let range = Range::new(Lba::new((unit % 10) * u64::from(sectors)), sectors);
                let write = Command::Write { range, fua: true, tag: DataTag::placed(handle) };
                drive.execute(T0, &write).expect("runs");
            });
        };
        write(&mut drive, 3, 1);
        let range = Range::new(Lba::new(0), sectors);
        let cached = Command::Write { range, fua: false, tag: DataTag::placed(1) };
        drive.execute(T0, &cached).expect("runs");
        let per_page = u64::from(drive.geometry().units_per_page());
        // One page per write.
        let after = full - 3 * per_page - if buffer > 0 { 1 } else { per_page };
        assert_eq!(left(&drive), [full, after, full], "with a buffer of {buffer} bytes");
        drive.execute(T0, &Command::Flush).expect("flushed");
        let used = drive.ftl().nand().counts().total(NandOp::Program);
        drive.begin_unit(T0, 1).expect("begun");
        assert_eq!(left(&drive), [full; 3]);
        let padded = drive.ftl().nand().counts().get(NandOp::Program, Cause::Pad);
        assert!(padded > 0 && (used + padded).is_multiple_of(u64::from(drive.geometry().pages_per_block())));
        drive.begin_unit(T0, 1).expect("an empty unit stays");
        assert_eq!(drive.ftl().nand().counts().get(NandOp::Program, Cause::Pad), padded);
        write(&mut drive, full / per_page, 2);
        assert_eq!(left(&drive), [full; 3], "the next unit");
        let error = CommandError::NoSuchHandle { handle: 3, handles: 3 };
        assert_eq!(drive.begin_unit(T0, 3), Err(error));
        drive.check().expect("sound");
    }
}

#[test]
fn handles_that_a_drive_cannot_have_are_refused_with_the_arithmetic() {
    let refusal = |change: &dyn Fn(&mut DriveConfig)| {
        let mut config = config();
        config.nand.blocks_per_plane = 60;
        config.ftl.placement.scheme = SchemeName::Handles.into();
        change(&mut config);
        strobe_ssd::build(&config, false, 1).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(&|_| {}), "");
    let block_mapped = refusal(&|config| config.ftl.mapping = "fast".into());
    assert!(block_mapped.contains("scheme = \"handles\" needs drive.ftl.mapping"), "{block_mapped}");
    let leveled = refusal(&|config| {
        config.ftl.placement.isolation = Isolation::Persistent;
        config.ftl.wear_leveling.kind = WearLevelingName::Swap;
    });
    assert!(leveled.contains("wear_leveling.kind = \"none\""), "{leveled}");
    let large = refusal(&|config| config.ftl.placement.unit_blocks = 1000);
    assert!(large.contains("2 placement handles") && large.contains("of 1000 blocks"), "{large}");
    // Four dies.
    let grouped = |groups: u8, change: &dyn Fn(&mut DriveConfig)| {
        refusal(&|config| {
            (config.nand.channels, config.nand.dies_per_channel) = (2, 2);
            config.ftl.gc.mode = GcMode::StopTheWorld;
            config.ftl.placement.groups = groups;
            change(config);
        })
    };
    assert_eq!(grouped(2, &|_| {}), "");
    assert_eq!(grouped(4, &|_| {}), "");
    let undivided = grouped(3, &|_| {});
    assert!(undivided.contains("4 dies") && undivided.contains("give 2 or 4"), "{undivided}");
    let many = grouped(4, &|config| config.ftl.placement.handles = 20);
    assert!(many.contains("make 80, at most 64"), "{many}");
    assert_eq!(grouped(2, &|config| config.ftl.gc.mode = GcMode::Background), "");
    let leveled = grouped(2, &|config| config.ftl.wear_leveling.kind = WearLevelingName::Swap);
    assert!(leveled.contains("wear_leveling.kind = \"none\""), "{leveled}");
    let full = grouped(4, &|config| config.ftl.logical_pages = Some(4 * 60 * 16));
    assert!(full.contains("reclaim"), "{full}");
}

/// A handle of a group is numbered group times handles plus the handle.
#[test]
fn handles_of_reclaim_groups_fill_units_of_their_own() {
    let victims = ["greedy", "fifo", "d-choices", "cost-benefit", "(1-u)/u*sqrt(age_closed)"];
    let modes = [GcMode::StopTheWorld, GcMode::Background];
    for (victim, mode) in victims.into_iter().flat_map(|victim| modes.map(|mode| (victim, mode))) {
        let mut config = config();
        config.nand.blocks_per_plane = 60;
        (config.nand.channels, config.nand.dies_per_channel) = (2, 2);
        config.ftl.logical_pages = Some(1000);
        config.ftl.gc.mode = mode;
        config.ftl.gc.victim = victim.to_owned();
        config.ftl.placement.scheme = SchemeName::Handles.into();
        config.ftl.placement.handles = 2;
        config.ftl.placement.groups = 2;
        let mut drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        let mut rng = Prng::new(7);
        let mut queue = closed(8);
        for _ in 0..200 {
            let write = |_| {
                let unit = u64::from(rng.below(1000));
                write_unit(unit).placed((unit % 4) as u16)
            };
            let requests: Vec<_> = (0..100).map(write).collect();
            drive.run(&requests, &[], &mut queue).expect("runs");
        }
        drive.check().expect("sound");
        let units = drive.reclaim_units().expect("handles");
        assert_eq!((units.groups, units.handles(), units.sectors_left.len()), (2, 2, 4));
        let stats = drive.stats();
        assert!(stats.gc.victims > 20, "{victim}: {:?}", stats.gc);
        let pages: u64 = stats.streams.iter().map(|counts| counts.pages).sum();
        assert_eq!(pages, stats.nand.total(NandOp::Program), "{victim}");
        // Four streams of the host, and one of relocated data in each group.
        assert_eq!(stats.streams.len(), 6, "{victim}");
        let error = CommandError::NoSuchHandle { handle: 4, handles: 4 };
        let write = write_unit(1).placed(4);
        assert_eq!(drive.issue(&[write], &[], &mut closed(1)), Err((0, error)));
    }
}
