//! Worn-out drives stop with a reason and still read.

use strobe_ftl::FtlError;
use strobe_nand::StampMedium;
use strobe_ssd::{CommandError, Device, DriveConfig, GcMode, HostQueue, Inspect, Pacing, build};
use strobe_types::{Op, Request, SimTime};

use crate::setup::{
    Host as _, PageDrive, T0, UNIT, buffered, cached, closed, config, contents, counting, read_unit, timed,
    unit_writes, write, write_unit,
};

const UNITS: u32 = 48;

fn short_lived(buffer_units: u64) -> DriveConfig {
    let mut config = buffered(config(), buffer_units);
    config.nand.blocks_per_plane = 24;
    config.nand.pages_per_block = 4;
    config.nand.endurance_pe = 20;
    config.ftl.logical_pages = Some(UNITS);
    config
}

fn wear_out<T>(drive: &mut PageDrive<T, StampMedium>, batch: usize) -> (Vec<u64>, CommandError)
where
    T: strobe_nand::Timing + Send + 'static,
{
    let requests = unit_writes(UNITS, 100_000, 4);
    let mut queue = closed(1);
    let mut content = vec![0; UNITS as usize];
    let mut stamp = 0;
    for batch in requests.chunks(batch) {
        let result = drive.run(batch, &[], &mut queue);
        let executed = result.as_ref().map_or_else(|(index, _)| *index, |()| batch.len());
        for request in &batch[..executed] {
            stamp += 1;
            content[(request.lba.get() / u64::from(UNIT)) as usize] = stamp;
        }
        drive.check().expect("state");
        if let Err((_, error)) = result {
            assert_eq!(drive.stats().host.commands(Op::Write), stamp, "refused writes do not count");
            return (content, error);
        }
    }
    panic!("the drive outlived its endurance");
}

fn check_worn_drive<T>(mut drive: PageDrive<T, StampMedium>, batch: usize)
where
    T: strobe_nand::Timing + Send + 'static,
{
    let (content, error) = wear_out(&mut drive, batch);
    assert!(matches!(error, CommandError::Ftl(FtlError::EndOfLife { .. })), "{error}");
    assert!(drive.wear().bad_blocks > 0 && drive.wear().first_bad_block_host_writes.is_some());
    assert_eq!(contents(&mut drive), content, "reads still return the right data");
    // Still rejected, still readable, and a read in a batch works through the engine.
    let queue = &mut closed(1);
    let batch = [read_unit(0), read_unit(7), Request::FLUSH];
    drive.run(&batch[..2], &[], queue).expect("reads are served");
    drive.check().expect("state");
    assert_eq!(contents(&mut drive), content);
}

#[test]
fn an_unbuffered_run_stops_with_end_of_life_and_reads_stay_right() {
    for batch in [1, 64, 100_000] {
        check_worn_drive(counting(&short_lived(0)), batch);
        check_worn_drive(timed(&short_lived(0)), batch);
    }
}

#[test]
fn a_buffered_run_stops_with_end_of_life_and_reads_stay_right() {
    for buffer_units in [1, 2, 5, 20] {
        check_worn_drive(counting(&short_lived(buffer_units)), 64);
        check_worn_drive(timed(&short_lived(buffer_units)), 64);
    }
}

#[test]
fn a_run_with_a_non_volatile_cache_stops_with_end_of_life_and_reads_stay_right() {
    for (buffer_units, nvram_units) in [(0, 1), (0, 5), (5, 5), (0, 20)] {
        let config = cached(short_lived(buffer_units), nvram_units);
        check_worn_drive(counting(&config), 64);
        check_worn_drive(timed(&config), 64);
    }
}

#[test]
fn a_write_refused_at_end_of_life_changes_nothing() {
    for buffer_units in [0, 1, 5] {
        let mut drive = counting::<StampMedium>(&short_lived(buffer_units));
        let (content, error) = wear_out(&mut drive, 64);
        let before = drive.stats();
        for unit in 0..u64::from(UNITS) {
            // A unit that waits in the buffer may still be replaced there.
            if drive.request(T0, write_unit(unit)) == Err(error.clone()) {
                assert_eq!(drive.run(&[write_unit(unit)], &[], &mut closed(1)), Err((0, error.clone())));
                drive.request(T0, read_unit(unit)).expect("reads are served");
                assert_eq!(drive.last_read(), &content[unit as usize..=unit as usize], "unit {unit}");
            } else {
                assert!(buffer_units > 0, "accepted at end of life without a buffer");
            }
        }
        let after = drive.stats();
        assert_eq!(after.nand.total(strobe_nand::NandOp::Program), {
            before.nand.total(strobe_nand::NandOp::Program)
        });
        if buffer_units == 0 {
            assert_eq!(after.host.units_written, before.host.units_written);
        }
    }
}

#[test]
fn units_written_by_batches_and_single_commands_agree_up_to_end_of_life() {
    let mut batch = counting::<StampMedium>(&short_lived(0));
    wear_out(&mut batch, 100_000);
    let mut single = counting::<StampMedium>(&short_lived(0));
    wear_out(&mut single, 1);
    let mut direct = counting::<StampMedium>(&short_lived(0));
    for request in unit_writes(UNITS, 100_000, 4) {
        if direct.request(T0, request).is_err() {
            break;
        }
    }
    assert_eq!(batch.stats(), single.stats());
    assert_eq!(batch.stats(), direct.stats());
    assert_eq!(batch.stats().host.units_written, batch.stats().host.commands(Op::Write));
}

#[test]
fn misuse_is_named_as_such_on_a_worn_out_drive_too() {
    for buffer_units in [0, 5] {
        let mut drive = counting::<StampMedium>(&short_lived(buffer_units));
        wear_out(&mut drive, 64);
        let sectors = drive.sectors();
        for (bad, empty) in [(write(sectors, UNIT), false), (write(0, 0), true), (write(sectors, 1), false)] {
            let (index, error) = drive.run(&[bad], &[], &mut closed(1)).expect_err("misuse");
            assert_eq!(index, 0);
            let named = match error {
                CommandError::Empty { .. } => empty,
                CommandError::OutOfRange { .. } => !empty,
                _ => false,
            };
            assert!(named, "{bad:?}: {error}");
        }
    }
}

/// The drive may wear out during the submission of the next request of a batch.
#[test]
fn commands_refused_while_they_wait_leave_nobody_waiting() {
    let mut late = 0;
    for seed in 0..40 {
        let mut config = short_lived(seed % 3 * 4);
        config.ftl.gc.mode = GcMode::Background;
        let mut drive = build(&config, true, seed).expect("valid");
        let requests = unit_writes(UNITS, 100_000, seed);
        // From more than the drive can serve to little.
        let gap_ns = 100_000 + 50_000 * seed;
        let arrivals: Vec<SimTime> =
            (0..requests.len() as u64).map(|n| SimTime::from_ns(n * gap_ns)).collect();
        let mut queue = HostQueue::new(Pacing::Open, T0);
        let Err((at, error)) = drive.issue(&requests, &arrivals, &mut queue) else { continue };
        assert!(matches!(error, CommandError::Ftl(FtlError::EndOfLife { .. })), "{error}");
        late += u32::from(queue.in_flight() > 0);
        while queue.in_flight() > 0 {
            let _ = queue.finish(&mut *drive);
        }
        assert!(at > 0 && drive.outstanding() == 0);
        drive.check().expect("state");
    }
    assert!(late > 1, "requests were outstanding in {late} cases");
}
