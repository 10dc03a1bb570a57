use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strobe_ftl::FtlError;
use strobe_ssd::{
    CommandError, DataMode, DriveConfig, GcMode, HostQueue, Pacing, SchemeName, Simulated, build,
};
use strobe_types::{Request, SimTime, StopFlag};

use crate::setup::{T0, buffered, closed, config, shaped, unit_writes};

const UNITS: u32 = 160;

fn flag() -> (Arc<AtomicBool>, StopFlag) {
    let raised = Arc::new(AtomicBool::new(false));
    (Arc::clone(&raised), raised.into())
}

fn drives() -> Vec<DriveConfig> {
    let mut drives = Vec::new();
    for (mapping, migration) in
        [("page", SchemeName::None), ("page", SchemeName::HotCold), ("dftl", SchemeName::None)]
    {
        for buffer_units in [0, 6] {
            let mut config = buffered(shaped(1, 2, 1), buffer_units);
            config.nand.blocks_per_plane = 60;
            config.ftl.logical_pages = Some(UNITS);
            config.ftl.mapping = mapping.to_owned();
            config.ftl.placement.scheme = migration.into();
            config.ftl.gc.mode = GcMode::Background;
            drives.push(config);
        }
    }
    drives
}

#[test]
fn a_drive_that_is_asked_to_stop_refuses_what_waits_and_what_comes() {
    let mut waited = 0;
    for config in drives() {
        for seed in 0..8 {
            let mut drive = build(&config, true, seed).expect("valid");
            let (raised, stop) = flag();
            drive.set_stop(stop);
            let requests = unit_writes(UNITS, 6_000, seed);
            let arrivals: Vec<SimTime> =
                (0..requests.len() as u64).map(|n| SimTime::from_ns(n * 200_000)).collect();
            let mut queue = HostQueue::new(Pacing::Open, T0);
            let before = 4_000 + seed as usize * 7;
            drive.issue(&requests[..before], &arrivals[..before], &mut queue).expect("runs");
            waited += u32::from(queue.in_flight() > 0);
            assert!(!drive.is_stopped());
            raised.store(true, Ordering::Relaxed);
            assert!(drive.is_stopped());
            let operations = drive.operations();
            let (at, error) =
                drive.issue(&requests[before..], &arrivals[before..], &mut queue).expect_err("it is to stop");
            assert_eq!(error, CommandError::Ftl(FtlError::Interrupted));
            assert!(at < 64, "{at} more requests");
            while queue.in_flight() > 0 {
                let _ = queue.finish(&mut *drive);
            }
            assert_eq!(drive.outstanding(), 0);
            // Free space of the open blocks, and work in progress.
            let more = drive.operations() - operations;
            assert!(more < 100, "{more} more programs and erases");
            assert_eq!(drive.check(), Ok(()));
        }
    }
    assert!(waited > 10, "requests were outstanding in {waited} cases");
}

#[test]
fn copies_of_a_drive_and_what_a_cut_leaves_of_it_hear_the_same() {
    let mut durable = config();
    (durable.ftl.durable_map, durable.nand.data, durable.nand.blocks_per_plane) =
        (true.into(), DataMode::Stamp, 60);
    for timing in [false, true] {
        let mut drive = build(&durable, timing, 1).expect("valid");
        let (raised, stop) = flag();
        drive.set_stop(stop);
        drive.issue(&unit_writes(UNITS, 500, 1), &[], &mut closed(1)).expect("runs");
        let (copy, cut) = (drive.freeze(), drive.cut_now());
        let back = drive.freeze().restart(SimTime::ZERO).expect("is found again").0;
        assert!(!copy.is_stopped() && !cut.drive.is_stopped() && !back.is_stopped());
        raised.store(true, Ordering::Relaxed);
        assert!(copy.is_stopped() && cut.drive.is_stopped() && back.is_stopped());
        assert!(cut.drive.restart(SimTime::ZERO).is_err(), "recovery is given up");
    }
}

fn result(config: &DriveConfig, requests: &[Request], stop: Option<StopFlag>) -> String {
    let mut drive: Box<dyn Simulated> = build(config, true, 1).expect("valid");
    if let Some(stop) = stop {
        drive.set_stop(stop);
    }
    let mut queue = closed(4);
    drive.issue(requests, &[], &mut queue).map(|_| queue.finish(&mut *drive).expect("runs")).expect("runs");
    format!("{:?} {:?}", drive.stats(), queue.finished())
}

#[test]
fn a_flag_that_is_not_raised_changes_nothing() {
    let requests = unit_writes(UNITS, 3_000, 2);
    for config in drives() {
        assert_eq!(result(&config, &requests, Some(flag().1)), result(&config, &requests, None));
    }
}
