//! Placement handles on their way from commands through the caches to streams.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{
    Inspectable as _, Isolation, MappingScheme as _, PageMap, PageMapConfig, PlacementKind, Watermarks,
};
use strobe_nand::{Chip, Nand as _, StampMedium, Timing, Untimed, WearConfig};
use strobe_ssd::{
    Command, CommandError, DataTag, Device as _, Drive, DriveConfig, Inspect as _, Range, Status,
};
use strobe_types::{BlockId, Lba, Prng};

use super::setup::{T0, array_timing, cached, closed, config, geometry, write_unit};

const HANDLES: u8 = 3;

fn drive<T: Timing>(config: &DriveConfig, timing: T) -> Drive<PageMap<Chip<T, StampMedium>, Greedy>> {
    let chip = Chip::new(geometry(config), WearConfig::default(), timing, 1);
    let policy = Greedy::new(chip.geometry().blocks());
    let map = PageMapConfig {
        placement: PlacementKind::Handles {
            count: HANDLES,
            isolation: Isolation::Persistent,
            unit_blocks: 1,
        },
        watermarks: Some(Watermarks { soft: 26, pace: 22, victims: 2, read_pages: 4 }),
        ..PageMapConfig::new(config.logical_units() as u32)
    };
    Drive::new(PageMap::new(chip, policy, map).expect("room"), &config.controller)
}

/// Handle h writes the units whose number is h modulo [`HANDLES`], so blocks tell which handle filled them.
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
