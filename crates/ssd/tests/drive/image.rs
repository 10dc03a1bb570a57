//! Drives on images: data persists, and a file that does not fit or is damaged is rejected with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use strobe_ftl::gc::{AnyPolicy, Greedy};
use strobe_ftl::{MappingScheme, PageMap, PageMapConfig};
use strobe_nand::{Access, Chip, Image, ImageInfo, Nand, NandOp, SwitchedTiming, WearConfig};
use strobe_ssd::{
    BuildError, CommandError, DataMode, Device, Drive, DriveConfig, ImageDrive, Inspect, build_on_image,
    examine, image_memory_bytes, memory_bytes,
};
use strobe_types::{BlockId, Lba, Op, Request};
use tempfile::TempDir;

use crate::setup::{Host as _, T0, buffered, closed, config, geometry, unit_writes, write_unit};

/// The tiny drive, fit for an image: its map needs separate blocks.
fn durable() -> DriveConfig {
    let mut config = config();
    config.nand.blocks_per_plane = 64;
    config.nand.data = DataMode::Bytes;
    config.ftl.durable_map = true.into();
    config
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    fn image(&self) -> PathBuf {
        self.0.path().join("drive.image")
    }
}

type FileDrive = ImageDrive;

fn open(config: &DriveConfig, path: &Path) -> FileDrive {
    let geometry = geometry(config);
    let units = config.logical_units() as u32;
    let map = PageMapConfig { seed: 1, durable: true, ..PageMapConfig::new(units) };
    let policy = AnyPolicy::new(Greedy::new(geometry.blocks()));
    if path.exists() {
        let image = Image::open(path, Access::Write).expect("opens");
        let chip = Chip::open_image(image, SwitchedTiming::new(None)).expect("whole");
        let (ftl, _) = PageMap::restart(chip, policy, map, T0).expect("recovers");
        return Drive::new(ftl, &config.controller);
    }
    let text = toml::to_string(config).expect("plain data");
    let wear = WearConfig::default();
    let info = ImageInfo { geometry, wear, seed: 1, slc_bits: 0, power_on_ns: 0, config: text };
    let chip = Chip::create_image(path, info, SwitchedTiming::new(None)).expect("creates");
    Drive::new(PageMap::new(chip, policy, map).expect("room"), &config.controller)
}

fn contents(drive: &mut FileDrive) -> Vec<u8> {
    let mut bytes = vec![0; drive.sectors() as usize * 512];
    drive.read_bytes(T0, Lba::new(0), &mut bytes).expect("reads");
    bytes
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        lba: u64,
        sectors: u64,
        fill: u8,
    },
    Trim {
        lba: u64,
        sectors: u64,
    },
    Flush,
    /// The process ends without a shutdown; another one opens the file.
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..1280u64, 1..40u64).prop_map(|(lba, sectors)| (lba, sectors.min(1280 - lba)));
    prop::collection::vec(
        prop_oneof![
            20 => (range(), any::<u8>()).prop_map(|((lba, sectors), fill)| Step::Write { lba, sectors, fill }),
            4 => range().prop_map(|(lba, sectors)| Step::Trim { lba, sectors }),
            2 => Just(Step::Flush),
            2 => Just(Step::Reopen),
        ],
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_drive_on_an_image_outlives_its_process(steps in steps(), buffer in 0..20u64) {
        let folder = Folder::new();
        let config = buffered(durable(), buffer);
        let mut drive = open(&config, &folder.image());
        let mut disk = vec![0u8; 1280 * 512];
        let mut programs = 0;
        for step in steps.iter().chain([&Step::Reopen]) {
            match *step {
                Step::Write { lba, sectors, fill } => {
                    let data = vec![fill; sectors as usize * 512];
                    drive.write_bytes(T0, Lba::new(lba), &data).expect("writes");
                    disk[lba as usize * 512..][..data.len()].copy_from_slice(&data);
                }
                Step::Trim { lba, sectors } => {
                    drive.request(T0, Request::new(Op::Trim, Lba::new(lba), sectors as u32)).expect("trims");
                    let units = lba.div_ceil(8)..(lba + sectors) / 8;
                    for unit in units {
                        disk[unit as usize * 4096..][..4096].fill(0);
                    }
                }
                Step::Flush => drop(drive.settle(T0).expect("flushes")),
                Step::Reopen => {
                    // Buffered data and trims survive once they are flushed.
                    drive.settle(T0).expect("flushes");
                    let counted = drive.ftl().nand().counts().total(NandOp::Program);
                    prop_assert!(counted >= programs);
                    drop(drive);
                    drive = open(&config, &folder.image());
                    programs = drive.ftl().nand().counts().total(NandOp::Program);
                    prop_assert!(programs >= counted, "counters go on");
                    prop_assert_eq!(drive.check(), Ok(()));
                    prop_assert!(contents(&mut drive) == disk, "content after reopening");
                }
            }
        }
        drop(drive);
        let image = Image::open(&folder.image(), Access::Read).expect("opens");
        let examined = examine(&image).expect("is one");
        prop_assert_eq!(examined.scan.damage, vec![]);
        let (mut drive, _) = examined.drive.expect("recovers");
        prop_assert!(contents(&mut drive) == disk, "content as examined");
        drop(image);
        let (engine, recovery) = build_on_image(&config, false, 1, &folder.image()).expect("reopens");
        prop_assert!(recovery.is_some());
        prop_assert_eq!(engine.check(), Ok(()));
    }
}

fn filled(config: &DriveConfig, path: &Path) -> u64 {
    let (mut drive, recovery) = build_on_image(config, true, 1, path).expect("creates");
    assert_eq!(recovery, None);
    drive.run(&unit_writes(160, 1000, 1), &[], &mut closed(4)).expect("runs");
    drive.stats().nand.total(NandOp::Program)
}

#[test]
fn statistics_begin_when_an_image_is_opened_and_wear_does_not() {
    let folder = Folder::new();
    let programs = filled(&durable(), &folder.image());
    assert!(programs >= 1000);
    let (mut drive, recovery) = build_on_image(&durable(), true, 1, &folder.image()).expect("reopens");
    assert!(recovery.expect("recovered").log_pages > 0);
    assert!(drive.stats().nand.total(NandOp::Program) < 10, "what recovery did");
    assert!(drive.operations() > programs);
    assert!(drive.wear().erase_max > 0);
    assert_eq!(drive.mapped_units(), 160);
    drive.run(&unit_writes(160, 1000, 2), &[], &mut closed(4)).expect("runs");
    assert_eq!(drive.check(), Ok(()));
}

fn refusal(result: Result<impl Sized, BuildError>) -> String {
    result.map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn a_drive_that_does_not_fit_the_image_is_refused_by_name() {
    let folder = Folder::new();
    filled(&durable(), &folder.image());
    let before = fs::read(folder.image()).expect("reads");
    let says = |change: fn(&mut DriveConfig), parts: &[&str]| {
        let mut config = durable();
        change(&mut config);
        let message = refusal(build_on_image(&config, false, 1, &folder.image()));
        assert!(message.starts_with(&format!("image {}: ", folder.image().display())), "{message}");
        for part in parts {
            assert!(message.contains(part), "\"{part}\" is missing in: {message}");
        }
    };
    says(|c| c.nand.pages_per_block = 16, &["another geometry", "pages_per_block is 8 in the image, but 16"]);
    says(|c| c.ftl.mapping_unit_bytes = 2048, &["mapping_unit_bytes is 4096 in the image, but 2048"]);
    says(|c| c.ftl.logical_pages = Some(100), &["capacity in mapping units is 160 in the image, but 100"]);
    says(|c| c.nand.endurance_pe = 5, &["drive.nand.endurance_pe is 0 in the image, but 5"]);
    says(
        |c| c.ftl.copy_mode = strobe_ssd::CopyMode::Logical,
        &["drive.ftl.copy_mode is \"physical\" in the image, but \"logical\"", "virtual_map_entries is 0"],
    );
    says(|c| c.ftl.durable_map = false.into(), &["drive.ftl.durable_map must be true"]);
    says(|c| c.nand.data = DataMode::Stamp, &["drive.nand.data must be \"bytes\""]);
    says(|c| c.controller.nvram.bytes = 4096, &["drive.controller.nvram.bytes must be 0"]);
    assert!(fs::read(folder.image()).expect("reads") == before, "a refusal changes nothing");

    // Settings that may differ.
    let mut config = durable();
    config.ftl.gc.victim = "fifo".to_owned();
    config.nand.program_ns = 1.into();
    config.controller.write_buffer_bytes = 1 << 16;
    assert!(build_on_image(&config, true, 9, &folder.image()).is_ok());
}

#[test]
fn a_drive_that_cannot_work_leaves_no_file() {
    let folder = Folder::new();
    let mut config = durable();
    config.ftl.logical_pages = Some(510);
    assert!(matches!(build_on_image(&config, false, 1, &folder.image()), Err(BuildError::Capacity(_))));
    assert!(!folder.image().exists());
}

#[test]
fn an_image_in_use_is_refused() {
    let folder = Folder::new();
    let (_drive, _) = build_on_image(&durable(), false, 1, &folder.image()).expect("creates");
    let message = refusal(build_on_image(&durable(), false, 1, &folder.image()));
    assert!(message.contains("another process has it open"), "{message}");
}

#[test]
fn an_image_needs_little_memory() {
    let with_bytes = memory_bytes(&durable()).expect("possible");
    let on_image = image_memory_bytes(&durable()).expect("possible");
    let nothing =
        DriveConfig { nand: strobe_ssd::NandConfig { data: DataMode::None, ..durable().nand }, ..durable() };
    let nothing = memory_bytes(&nothing).expect("possible");
    assert!(
        on_image < nothing + nothing / 2 + 64 * 200 && on_image < with_bytes / 10,
        "{on_image} of {with_bytes}"
    );
}

fn spoil(config: &DriveConfig, path: &Path, content: u8) {
    let mut bytes = fs::read(path).expect("reads");
    let stored = bytes.len() - geometry(config).raw_bytes() as usize;
    let at = stored
        + bytes[stored..]
            .windows(4096)
            .step_by(4096)
            .position(|unit| unit == [content; 4096])
            .expect("there")
            * 4096;
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("writes");
}

#[test]
fn spoiled_content_fails_the_command_and_all_later_ones() {
    let folder = Folder::new();
    let config = durable();
    let mut drive = open(&config, &folder.image());
    drive.write_bytes(T0, Lba::new(0), &[7; 4096]).expect("writes");
    drive.write_bytes(T0, Lba::new(8), &[9; 4096]).expect("writes");
    drop(drive);
    spoil(&config, &folder.image(), 7);

    let mut drive = open(&config, &folder.image());
    let mut bytes = [1; 4096];
    drive.read_bytes(T0, Lba::new(8), &mut bytes).expect("the other one is whole");
    assert_eq!(bytes, [9; 4096]);
    let before = fs::read(folder.image()).expect("reads");
    let error = drive.read_bytes(T0, Lba::new(0), &mut bytes).expect_err("damaged");
    assert!(error.to_string().starts_with("the image is damaged: block "), "{error}");
    assert_eq!(error.status(), strobe_ssd::Status::INTERNAL_ERROR);
    assert_eq!(bytes, [9; 4096], "nothing is served");
    for refused in [
        drive.read_bytes(T0, Lba::new(8), &mut bytes),
        drive.write_bytes(T0, Lba::new(8), &[1; 4096]),
        drive.settle(T0),
        drive.execute(T0, &strobe_ssd::Command::Flush),
        drive.run(&[write_unit(3)], &[], &mut closed(1)).map(|()| T0).map_err(|(_, error)| error),
    ] {
        assert!(matches!(refused, Err(CommandError::Medium(_))), "{refused:?}");
    }
    drop(drive);
    assert!(fs::read(folder.image()).expect("reads") == before, "nothing is written after a failure");

    let image = Image::open(&folder.image(), Access::Read).expect("opens");
    let examined = examine(&image).expect("is one");
    let named: Vec<String> = examined.scan.damage.iter().map(ToString::to_string).collect();
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].ends_with("the content of mapping unit 0 is damaged"), "{named:?}");
    let (mut drive, _) = examined.drive.expect("recovers");
    let bytes = contents(&mut drive);
    assert!(bytes[..4096].iter().all(|&b| b == 0) && bytes[4096..8192].iter().all(|&b| b == 9));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_damage_panics(edits in prop::collection::vec((any::<u32>(), any::<u32>(), 1..3000usize, 0..4u8), 1..5)) {
        let folder = Folder::new();
        let config = durable();
        filled(&config, &folder.image());
        let mut bytes = fs::read(folder.image()).expect("reads");
        let tables = bytes.len() - geometry(&config).raw_bytes() as usize;
        for (to, from, length, how) in edits {
            let length = length.min(bytes.len());
            // Mostly in the metadata.
            let end = if to % 4 == 0 { bytes.len() } else { tables.min(bytes.len()) };
            let to = to as usize % (end.saturating_sub(length) + 1);
            let from = from as usize % (bytes.len() - length + 1);
            match how {
                0 => bytes[to..to + length].fill(0),
                1 => bytes.copy_within(from..from + length, to),
                2 => bytes[to] ^= 1 << (from % 8),
                _ => bytes.truncate(to.max(4096)),
            }
        }
        fs::write(folder.image(), &bytes).expect("writes");
        if let Ok(image) = Image::open(&folder.image(), Access::Read)
            && let Ok(examined) = examine(&image)
            && let Ok((mut drive, _)) = examined.drive
        {
            let checked = drive.check();
            prop_assert!(checked.is_ok() || !examined.scan.damage.is_empty(), "{:?}", checked);
            contents(&mut drive);
        }
        if let Ok((mut drive, _)) = build_on_image(&config, false, 1, &folder.image()) {
            let result = drive.run(&unit_writes(160, 300, 3), &[], &mut closed(1));
            prop_assert!(matches!(result, Ok(()) | Err((_, CommandError::Medium(_)))), "{:?}", result);
            // The checker reads everything, and may be the first to find the damage.
            let checked = drive.check();
            prop_assert!(checked.is_ok() || drive.failure().is_some(), "{:?}", checked);
        }
    }
}

#[test]
fn blocks_bad_from_the_factory_stay_bad() {
    let folder = Folder::new();
    let mut config = durable();
    config.nand.factory_bad_blocks = 3;
    filled(&config, &folder.image());
    let image = Image::open(&folder.image(), Access::Read).expect("opens");
    let examined = examine(&image).expect("is one");
    assert_eq!(examined.bad_blocks, 3);
    assert_eq!(examined.erase_counts.len(), 61);
    let (drive, _) = examined.drive.expect("recovers");
    assert_eq!((0..64).filter(|&block| drive.ftl().nand().block(BlockId::new(block)).bad).count(), 3);
}
