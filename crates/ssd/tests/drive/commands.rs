//! The command set at its limits: rejections and their status, and the cost of each command.

use strobe_ftl::MappingScheme;
use strobe_nand::{ByteMedium, Cause, NandOp, StampMedium};
use strobe_ssd::{
    Command, CommandError, CommandKind, DataMode, Device, DriveConfig, Hint, Inspect, Limit, LimitsConfig,
    RANGES_MAX, Range, Status, TrimConfig, build,
};
use strobe_types::{Lba, Op, SimTime};

use crate::setup::{
    Host as _, PROGRAM, READ, T0, TRANSFER, UNIT, buffered, closed, config, contents, counting,
    mixed_requests, timed, unit_writes, write_unit,
};

const SECTORS: u64 = 160 * UNIT as u64;

fn range(lba: u64, sectors: u32) -> Range {
    Range::new(Lba::new(lba), sectors)
}

fn unit_range(unit: u64, units: u32) -> Range {
    range(unit * u64::from(UNIT), units * UNIT)
}

fn copy(destination: u64, sources: &[Range]) -> Command<'_> {
    Command::Copy { destination: Lba::new(destination), sources }
}

fn limited() -> DriveConfig {
    let mut config = config();
    config.controller.limits = LimitsConfig {
        trim_ranges: 3,
        trim_range_sectors: 16,
        trim_sectors: 40,
        copy_ranges: 2,
        copy_range_sectors: 20,
        copy_sectors: 30,
    };
    config
}

const TOO_LARGE: Status = Status { sct: 1, sc: 0x83 };
const INVALID: Status = Status { sct: 0, sc: 0x02 };
const OUTSIDE: Status = Status { sct: 0, sc: 0x80 };
const OVERLAP: Status = Status { sct: 1, sc: 0x87 };

#[test]
fn exactly_the_limit_passes_and_one_more_is_refused() {
    let mut drive = counting::<StampMedium>(&limited());
    let trims = [
        (vec![range(0, 1); 3], None),
        (vec![range(0, 1); 4], Some((Limit::Ranges, 4, 3))),
        (vec![range(5, 16)], None),
        (vec![range(5, 17)], Some((Limit::RangeSectors, 17, 16))),
        (vec![range(0, 16), range(16, 16), range(3, 8)], None),
        (vec![range(0, 16), range(16, 16), range(3, 9)], Some((Limit::Sectors, 41, 40))),
    ];
    let copies = [
        (vec![range(0, 1); 2], None),
        (vec![range(0, 1); 3], Some((Limit::Ranges, 3, 2))),
        (vec![range(0, 20)], None),
        (vec![range(0, 21)], Some((Limit::RangeSectors, 21, 20))),
        (vec![range(0, 20), range(50, 10)], None),
        (vec![range(0, 20), range(50, 11)], Some((Limit::Sectors, 31, 30))),
    ];
    let mut check = |op, command: &Command<'_>, expected: &Option<(Limit, u64, u64)>| {
        let before = drive.stats();
        let result = drive.execute(T0, command);
        match *expected {
            None => assert!(result.is_ok(), "{command:?}: {result:?}"),
            Some((limit, given, allowed)) => {
                let error = CommandError::TooLarge { op, limit, given, allowed };
                assert_eq!(error.status(), TOO_LARGE);
                assert_eq!(result, Err(error), "{command:?}");
                assert_eq!(drive.stats(), before);
            }
        }
    };
    for (ranges, expected) in &trims {
        check(CommandKind::Trim, &Command::Deallocate(ranges), expected);
    }
    for (sources, expected) in &copies {
        check(CommandKind::Copy, &copy(1000, sources), expected);
    }
}

#[test]
fn without_limits_the_format_is_the_limit() {
    let mut drive = counting::<StampMedium>(&config());
    let whole = vec![range(0, SECTORS as u32); RANGES_MAX];
    drive.execute(T0, &Command::Deallocate(&whole)).expect("256 ranges of everything");
    let sources = vec![range(0, 2); RANGES_MAX];
    drive.execute(T0, &copy(512, &sources)).expect("256 source ranges");
    for ranges in [0, RANGES_MAX + 1] {
        let many = vec![range(0, 1); ranges];
        for (op, command) in
            [(CommandKind::Trim, Command::Deallocate(&many)), (CommandKind::Copy, copy(600, &many))]
        {
            let error = CommandError::Ranges { op, ranges };
            assert_eq!(error.status(), INVALID);
            assert_eq!(drive.execute(T0, &command), Err(error));
        }
    }
}

fn wrong() -> Vec<(Command<'static>, Status)> {
    const GOOD: Range = Range::new(Lba::new(0), UNIT);
    const LAST: Range = Range::new(Lba::new(SECTORS - 1), 2);
    const FAR: Range = Range::new(Lba::new(u64::MAX), 1);
    const NONE: Range = Range::new(Lba::new(8), 0);
    const BEFORE: Range = Range::new(Lba::new(57), 8);
    const END: Range = Range::new(Lba::new(79), 1);
    const LONG: Range = Range::new(Lba::new(0), 15);
    vec![
        (Command::Read { range: LAST }, OUTSIDE),
        (Command::Read { range: NONE }, INVALID),
        (Command::Write { range: FAR, fua: false, tag: Hint::None.into() }, OUTSIDE),
        (Command::Write { range: FAR, fua: true, tag: Hint::None.into() }, OUTSIDE),
        (Command::Write { range: NONE, fua: true, tag: Hint::None.into() }, INVALID),
        (Command::Deallocate(&[]), INVALID),
        (Command::Deallocate(&[GOOD, LAST]), OUTSIDE),
        (Command::Deallocate(&[GOOD, NONE, FAR]), OUTSIDE),
        (Command::WriteZeroes { range: LAST, deallocate: true }, OUTSIDE),
        (Command::WriteZeroes { range: NONE, deallocate: false }, INVALID),
        (copy(64, &[]), INVALID),
        (copy(64, &[GOOD, NONE]), INVALID),
        (copy(64, &[GOOD, LAST]), OUTSIDE),
        (copy(SECTORS - 7, &[GOOD]), OUTSIDE),
        (copy(u64::MAX, &[GOOD]), OUTSIDE),
        // Each source must be clear of the whole destination.
        (copy(0, &[GOOD]), OVERLAP),
        (copy(7, &[GOOD]), OVERLAP),
        (copy(64, &[GOOD, BEFORE]), OVERLAP),
        (copy(64, &[END, LONG]), OVERLAP),
    ]
}

#[test]
fn a_wrong_command_gives_its_status_and_leaves_no_trace() {
    for buffer_units in [0, 4, 50] {
        let config = buffered(config(), buffer_units);
        let mut clean = timed::<StampMedium>(&config);
        let mut abused = timed::<StampMedium>(&config);
        let mut now = T0;
        let wrong = wrong();
        for (request, (bad, status)) in mixed_requests(SECTORS, UNIT, 500, 3).iter().zip(wrong.iter().cycle())
        {
            let error = abused.execute(now, bad).expect_err("wrong");
            assert_eq!(error.status(), *status, "{bad:?}: {error}");
            let done = clean.request(now, *request).expect("runs");
            assert_eq!(abused.request(now, *request), Ok(done));
            now = done;
        }
        assert_eq!(clean.stats(), abused.stats());
        assert_eq!(contents(&mut clean), contents(&mut abused));
    }
}

#[test]
fn a_copy_may_touch_its_sources() {
    let mut drive = counting::<ByteMedium>(&config());
    let data: Vec<u8> = (0..16 * 512).map(|n| (n / 7) as u8).collect();
    drive.write_bytes(T0, Lba::new(16), &data).expect("runs");
    let (before, behind) = (range(16, 8), range(24, 8));
    drive.execute(T0, &copy(32, &[behind])).expect("directly behind");
    drive.execute(T0, &copy(8, &[before, before])).expect_err("8 to 24 overlaps 16");
    drive.execute(T0, &copy(8, &[before])).expect("directly before");
    let mut out = vec![0; 32 * 512];
    drive.read_bytes(T0, Lba::new(8), &mut out).expect("runs");
    assert!(out[..4096] == data[..4096] && out[4096..12288] == data[..] && out[12288..] == data[4096..]);
}

#[test]
fn whole_units_are_copied_by_the_mapping_scheme_and_unmapped_ones_unmap() {
    let mut drive = counting::<StampMedium>(&config());
    for unit in [0, 1, 10, 11, 12] {
        drive.request(T0, write_unit(unit)).expect("runs");
    }
    // Units 0 and 1 hold data, 2 does not.
    let sources = [unit_range(0, 3)];
    drive.execute(T0, &copy(80, &sources)).expect("runs");
    let content = contents(&mut drive);
    assert_eq!((content[10], content[11], content[12]), (content[0], content[1], 0));
    assert_eq!(drive.mapped_units(), 4, "two of the source, two of the copy");
    let stats = drive.stats();
    assert_eq!((stats.host.commands(CommandKind::Copy), stats.host.bytes(CommandKind::Copy)), (1, 3 * 4096));
    assert_eq!(stats.host.units_written, 5);
    assert_eq!(stats.nand.get(NandOp::Program, Cause::Host), 5);
}

#[test]
fn a_copy_takes_the_newest_data_from_the_buffer_and_none_of_the_oldest_back() {
    let mut drive = timed::<ByteMedium>(&buffered(config(), 40));
    let unit = |byte: u8| vec![byte; 4096];
    let mut now = T0;
    for (at, byte) in [(0, 1), (10, 2)] {
        now = drive.write_bytes(now, Lba::new(at * 8), &unit(byte)).expect("runs");
    }
    now = drive.execute(now, &Command::Flush).expect("runs");
    // Newer versions of source and destination wait in the buffer.
    for (at, byte) in [(0, 3), (10, 4)] {
        now = drive.write_bytes(now, Lba::new(at * 8), &unit(byte)).expect("runs");
    }
    now = drive.execute(now, &copy(80, &[unit_range(0, 1)])).expect("runs");
    let mut out = unit(0);
    for step in ["before", "after"] {
        for at in [0, 10] {
            drive.read_bytes(now, Lba::new(at * 8), &mut out).expect("runs");
            assert!(out == unit(3), "unit {at} {step} the flush");
        }
        now = drive.execute(now, &Command::Flush).expect("runs");
    }
}

#[test]
fn a_long_misaligned_copy_moves_every_sector() {
    let mut config = config();
    config.nand.blocks_per_plane = 160;
    config.ftl.logical_pages = Some(900);
    for buffer_units in [0, 20] {
        let mut drive = timed::<ByteMedium>(&buffered(config.clone(), buffer_units));
        let data: Vec<u8> = (0..400 * 4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        drive.write_bytes(T0, Lba::new(0), &data).expect("runs");
        let source = range(3, 399 * UNIT);
        let lba = 450 * u64::from(UNIT) + 1;
        drive.execute(T0, &copy(lba, &[source])).expect("runs");
        let mut out = vec![0; source.sectors as usize * 512];
        drive.read_bytes(T0, Lba::new(lba), &mut out).expect("runs");
        assert!(out[..] == data[3 * 512..][..out.len()]);
        drive.check().expect("state");
        assert_eq!(drive.stats().host.units_written, 400 + 400);
    }
}

#[test]
fn forced_unit_access_waits_for_flash_and_a_write_does_not() {
    let mut drive = timed::<ByteMedium>(&buffered(config(), 40));
    let command = |fua| Command::Write { range: unit_range(3, 1), fua, tag: Hint::None.into() };
    let mut data = vec![1; 4096];
    assert_eq!(drive.execute_with(T0, &command(false), &data), Ok(T0));
    assert_eq!(drive.ftl().stats().host_units_written, 0, "in the buffer");
    data.fill(2);
    let done = drive.execute_with(T0, &command(true), &data).expect("runs");
    assert_eq!(done, SimTime::from_ns(TRANSFER + PROGRAM));
    assert_eq!(drive.ftl().stats().host_units_written, 1, "on flash");
    assert_eq!(drive.execute(done, &Command::Flush), Ok(done), "the older version is forgotten");
    assert_eq!(drive.ftl().stats().host_units_written, 1);
    let mut out = vec![0; 4096];
    drive.read_bytes(done, unit_range(3, 1).lba, &mut out).expect("runs");
    assert_eq!(out, data);
}

#[test]
fn data_must_be_as_long_as_the_command_says() {
    let mut drive = counting::<ByteMedium>(&config());
    let range = range(0, 2);
    for bytes in [0, 512, 1023, 1536] {
        let data = vec![0; bytes];
        let wrong = |op, sectors| CommandError::DataLength { op, sectors, bytes: bytes as u64 };
        let error = wrong(CommandKind::Write, 2);
        assert_eq!(error.status(), INVALID);
        assert_eq!(drive.execute_with(T0, &Command::write(range), &data), Err(error));
        for command in [Command::Read { range }, Command::Flush, Command::Deallocate(&[range])] {
            assert_eq!(drive.execute_with(T0, &command, &data), Err(wrong(command.kind(), 0)), "it has none");
        }
    }
    assert_eq!(drive.stats(), counting::<ByteMedium>(&config()).stats());
}

#[test]
fn write_zeroes_unmaps_whole_units_if_asked_and_programs_them_if_not() {
    for (deallocate, mapped, programs) in [(true, 2, 2), (false, 4, 4)] {
        let mut drive = counting::<ByteMedium>(&config());
        drive.write_bytes(T0, Lba::new(0), &vec![7; 4 * 4096]).expect("runs");
        // Half of unit 0, all of 1 and 2, one sector of 3.
        let command = Command::WriteZeroes { range: range(4, 21), deallocate };
        drive.execute(T0, &command).expect("runs");
        assert_eq!(drive.mapped_units(), mapped);
        let stats = drive.stats();
        assert_eq!(stats.nand.total(NandOp::Program), 4 + programs);
        assert_eq!(stats.host.bytes(CommandKind::WriteZeroes), 21 * 512);
        assert_eq!(stats.host.commands(Op::Write), 1);
        let mut out = vec![9; 4 * 4096];
        drive.read_bytes(T0, Lba::new(0), &mut out).expect("runs");
        let zero = |sector: usize| out[sector * 512..][..512].iter().all(|&byte| byte == 0);
        assert!((0..32).all(|sector| zero(sector) == (4..25).contains(&sector)));
    }
}

#[test]
fn firmware_and_flash_times_of_each_command() {
    let mut config = config();
    config.controller.command_ns = 1000;
    config.controller.range_ns = 100;
    config.controller.link_mb_s = 1;
    config.controller.trim = TrimConfig { range_ns: 10, jump_ns: 5, ..TrimConfig::default() };
    let mut drive = timed::<StampMedium>(&config);
    let mut now = drive
        .execute(T0, &Command::Write { range: unit_range(0, 1), fua: true, tag: Hint::None.into() })
        .expect("runs");
    let mut takes = |command: &Command<'_>, expected: u64| {
        let done = drive.execute(now, command).expect("runs");
        assert_eq!(done.since(now), expected, "{command:?}");
        now = done;
    };
    takes(&Command::Deallocate(&[unit_range(5, 1), unit_range(6, 1)]), 1000 + 2 * 110 + 5);
    // No data crosses the link.
    takes(&copy(80, &[unit_range(0, 1)]), 1100 + READ + TRANSFER + TRANSFER + PROGRAM);
    takes(&Command::WriteZeroes { range: unit_range(0, 1), deallocate: false }, 1100 + TRANSFER + PROGRAM);
    takes(&Command::WriteZeroes { range: unit_range(0, 1), deallocate: true }, 1100);
    takes(&copy(80, &[range(9, 8)]), 1100 + TRANSFER + PROGRAM);
}

#[test]
fn an_engine_takes_every_command_and_keeps_latencies() {
    for timing in [false, true] {
        for data in [DataMode::None, DataMode::Stamp, DataMode::Bytes] {
            let mut config = buffered(config(), 6);
            config.nand.data = data;
            config.controller.command_ns = 10;
            config.controller.limits.trim_ranges = 2;
            let mut engine = build(&config, timing, 1).expect("valid");
            assert_eq!(engine.limits(), config.controller.limits);
            engine.run(&unit_writes(160, 300, 2), &[], &mut closed(1)).expect("runs");
            engine.clear_latency();
            let mut now = engine.settle(T0).expect("runs");
            let sources = [range(1, 30), unit_range(9, 2)];
            for command in [
                Command::Read { range: range(3, 9) },
                Command::Write { range: range(100, 9), fua: false, tag: Hint::None.into() },
                Command::Write { range: range(100, 9), fua: true, tag: Hint::None.into() },
                Command::Deallocate(&sources),
                Command::Flush,
                copy(640, &sources),
                Command::WriteZeroes { range: range(0, 20), deallocate: true },
            ] {
                now = engine.execute(now, &command).expect("runs");
                engine.check().expect("state");
            }
            let too_many = [range(0, 1); 3];
            assert!(engine.execute(now, &Command::Deallocate(&too_many)).is_err());
            let kept = Op::ALL.map(|op| engine.latency().of(op).count());
            assert_eq!(kept, if timing { [1, 2, 1, 1] } else { [0; 4] });
            let counted = CommandKind::ALL.map(|kind| engine.stats().host.commands(kind));
            assert_eq!(counted, [1, 302, 1, 1, 1, 1]);
        }
    }
}
