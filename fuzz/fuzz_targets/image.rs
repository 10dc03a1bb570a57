//! Any change to an image file: it is refused, the damage is reported, or every unit reads as before. Never a
//! panic, and never wrong data without an error.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use strobe_ftl::Inspectable as _;
use strobe_nand::UnitBytes;
use strobe_ssd::{
    Access, Command, DataMode, DriveConfig, Hint, Image, Inspect as _, Range, build_on_image, examine,
    presets,
};
use strobe_types::{Lba, Lpn, SimTime};

const T0: SimTime = SimTime::ZERO;
const UNITS: u32 = 40;

struct Base {
    path: PathBuf,
    config: DriveConfig,
    file: Vec<u8>,
    units: Vec<UnitBytes>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("strobe-fuzz-{}.img", std::process::id()));
        let _ = fs::remove_file(&path);
        let preset = presets::find("generic-8g").expect("a preset");
        let mut config: DriveConfig = toml::from_str(preset.toml).expect("presets are complete");
        let nand = &mut config.nand;
        (nand.blocks_per_plane, nand.pages_per_block, nand.page_bytes) = (24, 4, 1024);
        nand.data = DataMode::Bytes;
        config.ftl.mapping_unit_bytes = 512;
        config.ftl.logical_pages = Some(UNITS);
        config.ftl.durable_map = true.into();
        let (mut drive, _) = build_on_image(&config, false, 1, &path).expect("a new image");
        for n in 0..200u64 {
            let range = Range::new(Lba::new(n * 7 % u64::from(UNITS)), 1);
            drive.execute(T0, &Command::Write { range, fua: false, tag: Hint::None.into() }).expect("writes");
        }
        drive.execute(T0, &Command::Deallocate(&[Range::new(Lba::new(3), 4)])).expect("trims");
        drive.settle(T0).expect("ends cleanly");
        drop(drive);
        let file = fs::read(&path).expect("an image");
        let image = Image::open(&path, Access::Read).expect("an image");
        let units = contents(&image).expect("undamaged");
        Base { path, config, file, units }
    })
}

/// Contents of all units, if no damage is reported.
fn contents(image: &Image) -> Option<Vec<UnitBytes>> {
    let examined = examine(image).ok()?;
    let (drive, _) = examined.drive.ok()?;
    if !examined.scan.damage.is_empty() || drive.check().is_err() {
        return None;
    }
    Some((0..UNITS).map(|lpn| drive.ftl().peek(Lpn::new(lpn))).collect())
}

fuzz_target!(|input: &[u8]| {
    let base = base();
    let mut file = base.file.clone();
    let Some((&length, changes)) = input.split_first() else { return };
    for change in changes.chunks_exact(4).take(4) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % file.len();
        file[at] ^= change[3];
    }
    match length {
        1..=20 => file.truncate(file.len() * usize::from(length) / 21),
        21..=30 => file.extend_from_slice(changes),
        _ => {}
    }
    fs::write(&base.path, &file).expect("room");
    if let Ok(image) = Image::open(&base.path, Access::Read)
        && let Some(units) = contents(&image)
    {
        assert!(units == base.units, "something else is served as good data");
    }
    // The drive reads the same, or refuses.
    if let Ok((mut drive, _)) = build_on_image(&base.config, false, 1, &base.path) {
        for unit in 0..UNITS {
            let _ = drive.execute(T0, &Command::Read { range: Range::new(Lba::new(unit.into()), 1) });
        }
        let _ = drive.execute(
            T0,
            &Command::Write { range: Range::new(Lba::new(0), 8), fua: true, tag: Hint::None.into() },
        );
        let _ = drive.settle(T0);
    }
});
