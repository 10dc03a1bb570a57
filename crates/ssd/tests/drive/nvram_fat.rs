//! A non-volatile cache for the metadata of a FAT volume, located through its boot sector.

use strobe_ssd::{BuildError, DataMode, NvramError, NvramPolicyName, Range, Simulated, build};
use strobe_ssd::{Command, DriveConfig, Hint};
use strobe_types::Lba;

use crate::setup::{Host as _, T0, UNIT, cached, config};

const UNIT_BYTES: usize = 4096;

fn fat_config() -> DriveConfig {
    let mut config = cached(config(), 40);
    config.controller.nvram.policy = NvramPolicyName::Fat;
    config.nand.data = DataMode::Bytes;
    config
}

/// The boot sector of a FAT16 volume: 1 reserved sector, 2 tables of 4, 112 entries in the root directory: 16
/// sectors.
fn boot() -> Vec<u8> {
    let mut boot = vec![0; 512];
    boot[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    boot[11..17].copy_from_slice(&[0, 2, 1, 1, 0, 2]);
    boot[17..24].copy_from_slice(&[112, 0, 0, 5, 0xf8, 4, 0]);
    boot[510..].copy_from_slice(&[0x55, 0xaa]);
    boot
}

fn write(drive: &mut dyn Simulated, sector: u64, data: &[u8]) {
    let range = Range::new(Lba::new(sector), (data.len() / 512) as u32);
    drive
        .execute_with(T0, &Command::Write { range, fua: false, tag: Hint::None.into() }, data)
        .expect("writes");
}

fn taken(drive: &mut dyn Simulated, units: impl IntoIterator<Item = u64>) -> u64 {
    let before = drive.stats().nvram.expect("a cache").write_units;
    for unit in units {
        write(drive, unit * u64::from(UNIT), &[7; UNIT_BYTES]);
    }
    drive.stats().nvram.expect("a cache").write_units - before
}

#[test]
fn what_lies_before_the_data_area_is_taken_once_the_boot_sector_was_written() {
    let mut drive = build(&fat_config(), true, 1).expect("valid");
    assert_eq!(taken(&mut *drive, 1..20), 0, "nobody knows yet");
    write(&mut *drive, 0, &boot());
    // Sectors 0 to 15 are two units; the third is data.
    assert_eq!(taken(&mut *drive, [1, 2, 3, 19]), 1);
    drive.check().expect("whole");
    // Another file system replaces the volume.
    write(&mut *drive, 0, &[0; UNIT_BYTES]);
    let held = taken(&mut *drive, [1]);
    assert_eq!(held, 1, "what it holds stays with it");
    assert_eq!(taken(&mut *drive, [2, 3]), 0);
}

#[test]
fn the_boot_sector_is_known_after_a_power_cut() {
    let mut config = fat_config();
    config.ftl.durable_map = true.into();
    config.nand.blocks_per_plane = 60;
    let mut drive = build(&config, true, 1).expect("valid");
    write(&mut *drive, 0, &boot());
    drive.execute(T0, &Command::Flush).expect("flushes");
    let cut = drive.cut_now();
    let (mut back, _) = cut.drive.restart(T0).expect("recovers");
    assert_eq!(taken(&mut *back, [1, 2]), 1);
}

#[test]
fn a_drive_without_bytes_is_refused_with_the_cure() {
    let mut config = fat_config();
    config.nand.data = DataMode::Stamp;
    let error = build(&config, true, 1).err().expect("refused");
    assert!(matches!(error, BuildError::Nvram(NvramError::NoBytes)), "{error}");
    assert!(error.to_string().contains("drive.nand.data = \"bytes\""), "{error}");
}
