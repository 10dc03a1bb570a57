use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strobe_nand::NandOp;
use strobe_ssd::{Ageing, AgeingError, Command, DataMode, DriveConfig, GcMode, Range, Simulated, build_aged};
use strobe_types::{Lba, Op, Prng, Request, SimTime, StopFlag};

use crate::setup::{Host as _, T0, UNIT, config};

fn durable(mapping: &str, data: DataMode) -> DriveConfig {
    let mut config = config();
    config.nand.blocks_per_plane = 80;
    config.nand.data = data;
    config.ftl.mapping = mapping.to_owned();
    config.ftl.durable_map = true.into();
    config
}

fn aged(config: &DriveConfig, overwrites: f64) -> Box<dyn Simulated> {
    build_aged(config, 1, Ageing { overwrites }, &StopFlag::default(), &mut |_, _| {}).expect("a drive")
}

fn execute(drive: &mut dyn Simulated, command: &Command<'_>, data: Option<&[u8]>) -> Vec<u8> {
    drive.submit(T0, 0, command, data);
    let mut done = Vec::new();
    drive.advance(SimTime::from_ns(u64::MAX), &mut done);
    done.remove(0).result.expect("it is done")
}

#[test]
fn an_aged_drive_is_full_of_zeros_and_keeps_what_is_written_then_over_a_power_cut() {
    for (mapping, data) in [("page", DataMode::Bytes), ("dftl", DataMode::Bytes), ("page", DataMode::Stamp)] {
        let mut drive = aged(&durable(mapping, data), 3.0);
        assert_eq!(drive.mapped_units(), 160);
        assert_eq!(drive.stats().nand.total(NandOp::Program), 0, "nothing has been counted");
        assert!(drive.wear().erase_max > 0, "but flash has worn");
        drive.check().expect("sound");
        if data == DataMode::Bytes {
            let range = Range::new(Lba::new(0), 160 * UNIT);
            let read = execute(&mut *drive, &Command::Read { range }, None);
            assert!(read.len() == 160 * 4096 && read.iter().all(|&byte| byte == 0));
        }
        drive.watch();
        for unit in [5, 9, 100] {
            let range = Range::new(Lba::new(unit * u64::from(UNIT)), UNIT);
            let write = Command::write(range);
            let bytes = [7; 4096];
            execute(&mut *drive, &write, (data == DataMode::Bytes).then_some(&bytes[..]));
        }
        execute(&mut *drive, &Command::Flush, None);
        let (mut back, _) = drive.restart(T0).expect("recovers");
        back.check().expect("sound");
        let verdict = back.verify().expect("watched");
        assert_eq!((verdict.units, verdict.wrong), (160, vec![]));
        assert_eq!(back.mapped_units(), 160);
    }
}

#[test]
fn an_aged_drive_is_in_its_steady_state() {
    let mut config = config();
    (config.nand.blocks_per_plane, config.nand.pages_per_block) = (256, 32);
    (config.ftl.logical_pages, config.ftl.over_provisioning) = (None, Some(0.2));
    config.ftl.gc.mode = GcMode::Background;
    let mut drive = aged(&config, 3.0);
    let units = config.logical_units();
    let (mut chance, mut now) = (Prng::new(3), T0);
    let mut amplification = || {
        let before = drive.stats().nand.total(NandOp::Program);
        for _ in 0..units {
            let lba = Lba::new(chance.below_u64(units) * u64::from(UNIT));
            now = drive.request(now, Request::new(Op::Write, lba, UNIT)).expect("writes");
        }
        (drive.stats().nand.total(NandOp::Program) - before) as f64 / units as f64
    };
    let (first, second) = (amplification(), amplification());
    assert!((first / second - 1.0).abs() < 0.03, "{first} and {second}");
    assert!(first > 2.0, "{first}: it collects");
}

#[test]
fn ageing_says_how_far_it_is_and_can_be_ended() {
    let config = durable("page", DataMode::Bytes);
    let (mut told, raised) = (Vec::new(), Arc::new(AtomicBool::new(false)));
    let stop = StopFlag::from(Arc::clone(&raised));
    let ended = build_aged(&config, 1, Ageing { overwrites: 0.5 }, &stop, &mut |done, total| {
        told.push((done, total));
        raised.store(done > 0, Ordering::Relaxed);
    });
    assert!(matches!(ended, Err(AgeingError::Interrupted)));
    assert_eq!(told, [(0, 240), (160, 240)]);
    let blocks = durable("log-block", DataMode::Bytes);
    let refused =
        build_aged(&blocks, 1, Ageing { overwrites: 0.5 }, &StopFlag::default(), &mut |_, _| {}).err();
    let message = refused.expect("refused").to_string();
    assert!(message.contains("drive.ftl.mapping is \"log-block\""), "{message}");
}
