//! One-shot programs: word lines of several flash pages, programmed at once and read one by one.

use strobe_nand::{Cause, NandOp, PageTimes};
use strobe_ssd::{BuildError, DriveConfig, Simulated, build};
use strobe_types::{Lba, Op, Request};

use crate::setup::{
    Host as _, PROGRAM, T0, TRANSFER, UNIT, closed, config, read, read_unit, unit_writes, write,
};

/// Units of a flash page; below, flash pages of a word line.
const UNITS: u32 = 2;
const PARTS: u32 = 3;
const LINE: u32 = UNITS * PARTS;

/// tR of each page type.
const READS: [u64; 3] = [40_000, 60_000, 90_000];

/// 16 blocks of 8 word lines: 768 units, 480 of them offered.
fn lines() -> DriveConfig {
    let mut config = config();
    let nand = &mut config.nand;
    (nand.blocks_per_plane, nand.pages_per_block) = (16, 8 * PARTS);
    nand.page_bytes = UNITS * 4096;
    nand.pages_per_program = PARTS;
    nand.read_ns = PageTimes::by_type(&READS).expect("three");
    config.ftl.logical_pages = Some(480);
    config
}

fn drive(config: &DriveConfig) -> Box<dyn Simulated> {
    build(config, true, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn write_lines(first: u32, count: u32) -> Request {
    write(u64::from(first * LINE * UNIT), count * LINE * UNIT)
}

#[test]
fn a_word_line_is_programmed_at_once() {
    let mut drive = drive(&lines());
    let done = drive.request(T0, write_lines(0, 1)).expect("writes");
    assert_eq!(done.as_ns(), u64::from(LINE) * TRANSFER + PROGRAM);
    assert_eq!(drive.stats().nand.get(NandOp::Program, Cause::Host), 1, "one word line");
}

#[test]
fn a_unit_costs_a_read_of_its_flash_page_alone() {
    let mut drive = drive(&lines());
    let mut now = drive.request(T0, write_lines(0, 2)).expect("writes");
    for unit in 0..2 * LINE {
        let done = drive.request(now, read_unit(unit.into())).expect("reads");
        let expected = READS[(unit % LINE / UNITS) as usize] + TRANSFER;
        assert_eq!(done.since(now), expected, "unit {unit}");
        now = done;
    }
    assert_eq!(drive.stats().nand.get(NandOp::Read, Cause::Host), u64::from(2 * LINE));
    // Neighbours on one flash page need one read, units of several pages one read per page.
    let done = drive.request(now, read(0, UNITS * UNIT)).expect("reads");
    assert_eq!(done.since(now), READS[0] + u64::from(UNITS) * TRANSFER);
    let whole = drive.request(done, read(0, LINE * UNIT)).expect("reads");
    assert_eq!(whole.since(done), READS.iter().sum::<u64>() + u64::from(LINE) * TRANSFER);
    let across = drive.request(whole, read(u64::from(UNIT), 2 * UNIT)).expect("reads");
    assert_eq!(across.since(whole), READS[0] + READS[1] + 2 * TRANSFER);
}

#[test]
fn program_bandwidth_is_that_of_all_pages_of_a_word_line() {
    const COUNT: u32 = 24;
    for (planes, mb_s, cached) in
        [(1, 0, false), (2, 0, false), (1, 800, false), (2, 800, false), (1, 800, true)]
    {
        let mut config = lines();
        (config.nand.planes_per_die, config.nand.channel_mb_s) = (planes, mb_s);
        config.nand.cache_program = cached;
        let mut drive = drive(&config);
        let mut queue = closed(8);
        let requests: Vec<Request> = (0..COUNT / planes).map(|at| write_lines(at * planes, planes)).collect();
        drive.run(&requests, &[], &mut queue).expect("runs");
        let transfer = if mb_s == 0 { 0 } else { u64::from(LINE * planes) * TRANSFER };
        let rounds = u64::from(COUNT / planes);
        let expected = if cached { transfer + rounds * PROGRAM } else { rounds * (transfer + PROGRAM) };
        assert_eq!(queue.finished().as_ns(), expected, "{planes} planes, {mb_s} MB/s, {cached}");
    }
}

#[test]
fn amplification_is_that_of_pages_as_large() {
    for buffer_units in [0, 1, 5, 6, 40] {
        let mut config = lines();
        config.controller.write_buffer_bytes = buffer_units * 4096;
        let mut large = config.clone();
        let nand = &mut large.nand;
        (nand.pages_per_program, nand.page_bytes) = (1, nand.page_bytes * PARTS);
        (nand.pages_per_block, nand.read_ns) = (nand.pages_per_block / PARTS, 60_000.into());
        let [lines, large] = [config, large].map(|config| {
            let mut drive = build(&config, false, 1).expect("a drive");
            drive.run(&unit_writes(400, 4000, 7), &[], &mut closed(1)).expect("runs");
            drive.check().expect("sound");
            (drive.stats(), drive.geometry().clone())
        });
        let waf = |(stats, geometry): &(strobe_ssd::DriveStats, _)| stats.waf(geometry).expect("written");
        assert_eq!(waf(&lines), waf(&large), "{buffer_units} units buffered");
        for op in [NandOp::Program, NandOp::Erase] {
            assert_eq!(lines.0.nand.total(op), large.0.nand.total(op), "{op:?}");
        }
        assert!(lines.0.nand.total(NandOp::Read) >= large.0.nand.total(NandOp::Read));
    }
    // In order, and in whole word lines, write amplification is 1.
    let mut drive = drive(&lines());
    let requests: Vec<Request> = (0..300).map(|at| write_lines(at % 80, 1)).collect();
    drive.run(&requests, &[], &mut closed(1)).expect("runs");
    assert_eq!(drive.stats().waf(drive.geometry()), Some(1.0));
}

#[test]
fn small_buffers_hold_a_word_line() {
    let mut config = lines();
    (config.nand.planes_per_die, config.nand.page_bytes) = (4, 16_384);
    config.nand.blocks_per_plane = 8;
    config.controller.write_buffer_bytes = 4096;
    let mut drive = drive(&config);
    let mut now = T0;
    for unit in 0..200u64 {
        now = drive.request(now, write(unit * u64::from(UNIT), UNIT)).expect("writes");
    }
    now = drive.request(now, Request::FLUSH).expect("flushes");
    drive.request(now, Request::new(Op::Trim, Lba::new(0), 4 * UNIT)).expect("trims");
    drive.check().expect("sound");
    assert_eq!(drive.mapped_units(), 196);
}

#[test]
fn what_cannot_be_word_lines_is_refused_with_the_cure() {
    let refused = |change: fn(&mut DriveConfig), words: &[&str]| {
        let mut config = lines();
        change(&mut config);
        let error = build(&config, true, 1).err().expect("refused").to_string();
        for word in words {
            assert!(error.contains(word), "{error:?} does not say {word:?}");
        }
    };
    refused(
        |config| config.nand.pages_per_block = 32,
        &["pages_per_program is 3", "32 pages", "multiple of 3"],
    );
    refused(
        |config| config.nand.program_ns = PageTimes::by_type(&[1, 2, 3]).expect("three"),
        &["program_ns gives 3 times", "pages_per_program = 3", "give one time"],
    );
    refused(
        |config| {
            config.ftl.mapping = "fast".into();
            config.nand.page_bytes = 4096;
        },
        &["pages_per_program is 3", "drive.ftl.mapping = \"fast\"", "\"page\" or \"dftl\""],
    );
    refused(|config| config.nand.any_page_order = true, &["drive.nand.any_page_order = true"]);
    refused(
        |config| (config.nand.pages_per_program, config.nand.pages_per_block) = (5, 40),
        &["drive.nand.pages_per_program", "5", "4"],
    );
    let mut config = lines();
    config.nand.page_bytes = 2048;
    assert!(matches!(build(&config, true, 1), Err(BuildError::Geometry(_))), "a unit on two flash pages");
}
