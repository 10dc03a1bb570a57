//! Invalid requests are rejected with a reason and leave no trace.

use strobe_nand::{ByteMedium, StampMedium};
use strobe_ssd::{CommandError, CommandKind, Device, Inspect, build};
use strobe_types::{Lba, Op, Request, SimTime};

use crate::setup::{
    Host as _, T0, UNIT, buffered, closed, config, contents, counting, mixed_requests, timed, write,
    write_unit,
};

const SECTORS: u64 = 160 * UNIT as u64;

fn wrong() -> Vec<(Request, CommandError)> {
    let mut wrong = Vec::new();
    for op in [Op::Read, Op::Write, Op::Trim] {
        for lba in [0, 3, SECTORS, u64::MAX] {
            wrong.push((Request::new(op, Lba::new(lba), 0), CommandError::Empty { op: op.into(), lba }));
        }
        for (lba, sectors) in [
            (SECTORS - 1, 2),
            (SECTORS - u64::from(UNIT), UNIT + 1),
            (SECTORS, 1),
            (SECTORS, UNIT),
            (0, SECTORS as u32 + 1),
            (5, u32::MAX),
            // Truncated to 32 bits, these would be inside the drive.
            (1 << 35, UNIT),
            (1 << 32, 1),
            (u64::MAX - 7, UNIT),
            (u64::MAX, 1),
            (u64::MAX, u32::MAX),
        ] {
            let error = CommandError::OutOfRange {
                op: op.into(),
                lba,
                sectors: sectors.into(),
                drive_sectors: SECTORS,
            };
            wrong.push((Request::new(op, Lba::new(lba), sectors), error));
        }
    }
    wrong
}

#[test]
fn ranges_up_to_the_last_sector_are_accepted() {
    for buffer_units in [0, 4] {
        let mut drive = timed::<StampMedium>(&buffered(config(), buffer_units));
        assert_eq!(drive.sectors(), SECTORS);
        for op in [Op::Write, Op::Read, Op::Trim] {
            for (lba, sectors) in [(SECTORS - 1, 1), (SECTORS - 9, 9), (0, SECTORS as u32)] {
                drive.request(T0, Request::new(op, Lba::new(lba), sectors)).expect("inside the drive");
            }
        }
    }
}

#[test]
fn a_wrong_request_gives_its_error_and_changes_nothing() {
    for buffer_units in [0, 4, 50] {
        let config = buffered(config(), buffer_units);
        let mut drive = timed::<StampMedium>(&config);
        let history = mixed_requests(SECTORS, UNIT, 1000, 7);
        drive.run(&history, &[], &mut closed(1)).expect("runs");
        let before_content = contents(&mut drive);
        let before = drive.stats();
        for (request, expected) in wrong() {
            assert_eq!(drive.request(T0, request), Err(expected.clone()));
            assert_eq!(drive.run(&[request], &[], &mut closed(1)), Err((0, expected)));
            assert_eq!(drive.stats(), before, "{request:?}");
            drive.check().expect("state");
        }
        assert_eq!(contents(&mut drive), before_content);
    }
}

#[test]
fn refused_requests_leave_no_trace_in_what_follows() {
    for buffer_units in [0, 4] {
        let config = buffered(config(), buffer_units);
        let history = mixed_requests(SECTORS, UNIT, 500, 8);
        let wrong = wrong();
        let mut clean = timed::<StampMedium>(&config);
        let mut abused = timed::<StampMedium>(&config);
        let mut now = T0;
        for (request, (bad, _)) in history.iter().zip(wrong.iter().cycle()) {
            assert!(abused.request(now, *bad).is_err());
            let done = clean.request(now, *request).expect("runs");
            assert_eq!(abused.request(now, *request), Ok(done));
            now = done;
        }
        assert_eq!(clean.stats(), abused.stats());
        assert_eq!(contents(&mut clean), contents(&mut abused));
    }
}

#[test]
fn the_index_of_the_error_is_that_of_the_failing_request() {
    for (buffer_units, timing) in [(0, false), (0, true), (6, false), (6, true)] {
        let config = buffered(config(), buffer_units);
        let good = mixed_requests(SECTORS, UNIT, 60, 9);
        for (n, (bad, expected)) in wrong().into_iter().enumerate() {
            let at = n % good.len();
            let mut batch = good.clone();
            batch.insert(at, bad);
            let mut engine = build(&config, timing, 1).expect("valid");
            assert_eq!(engine.run(&batch, &[], &mut closed(1)), Err((at, expected)));
            let mut earlier = build(&config, timing, 1).expect("valid");
            earlier.run(&good[..at], &[], &mut closed(1)).expect("runs");
            assert_eq!(engine.stats(), earlier.stats(), "all before it and nothing after it");
        }
    }
}

#[test]
fn a_wrong_request_inside_gathered_writes_stops_exactly_there() {
    for at in [0, 1, 30, 63] {
        let mut batch: Vec<Request> = (0..63).map(write_unit).collect();
        batch.insert(at, write(SECTORS, UNIT));
        let mut drive = counting::<StampMedium>(&config());
        let (index, error) = drive.run(&batch, &[], &mut closed(1)).expect_err("out of range");
        assert_eq!(index, at);
        assert!(
            matches!(error, CommandError::OutOfRange { op: CommandKind::Write, lba: SECTORS, .. }),
            "{error}"
        );
        let content = contents(&mut drive);
        let written = (0..160).map(|n| if n < at as u64 { n + 1 } else { 0 }).collect::<Vec<u64>>();
        assert_eq!(content, written);
    }
}

#[test]
fn a_flush_ignores_its_range() {
    let mut drive = counting::<StampMedium>(&config());
    let flush = Request::new(Op::Flush, Lba::new(u64::MAX), u32::MAX);
    assert_eq!(drive.request(SimTime::from_ns(9), flush), Ok(SimTime::from_ns(9)));
}

#[test]
fn bytes_that_are_not_whole_sectors_are_refused() {
    let mut drive = counting::<ByteMedium>(&config());
    let before = drive.stats();
    let lba = Lba::new(3);
    for bytes in [1, 511, 513, 4095] {
        let error = |op| CommandError::Length { op, lba: 3, bytes: bytes as u64 };
        assert_eq!(drive.write_bytes(T0, lba, &vec![1; bytes]), Err(error(CommandKind::Write)));
        assert_eq!(drive.read_bytes(T0, lba, &mut vec![1; bytes]), Err(error(CommandKind::Read)));
    }
    assert_eq!(drive.write_bytes(T0, lba, &[]), Err(CommandError::Empty { op: CommandKind::Write, lba: 3 }));
    assert_eq!(
        drive.read_bytes(T0, lba, &mut []),
        Err(CommandError::Empty { op: CommandKind::Read, lba: 3 })
    );
    let last = Lba::new(u64::MAX);
    assert!(matches!(drive.write_bytes(T0, last, &[1; 512]), Err(CommandError::OutOfRange { .. })));
    assert!(matches!(drive.read_bytes(T0, last, &mut [1; 512]), Err(CommandError::OutOfRange { .. })));
    assert_eq!(drive.stats(), before);
}

#[test]
fn error_texts_name_command_place_and_limit() {
    let text = wrong()[4].1.to_string();
    assert_eq!(text, "read of 2 sectors at sector 1279 exceeds the drive, which has 1280 sectors");
    assert_eq!(wrong()[1].1.to_string(), "read of zero sectors at sector 3");
}
