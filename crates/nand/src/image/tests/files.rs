use std::fs;
use std::path::PathBuf;

use strobe_types::SimTime;

use super::*;
use crate::image::Access;
use crate::image::layout::POWER_ON_MAX_NS;

fn path(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("drive.image")
}

fn made() -> (tempfile::TempDir, ImageInfo, FileChip) {
    let folder = tempfile::tempdir().expect("folder");
    let info = info(geometry(8, 64, 4, 4096), WearConfig::default());
    let chip = FileChip::create_image(&path(&folder), info.clone(), Untimed::default()).expect("creates");
    (folder, info, chip)
}

fn fill(chip: &mut FileChip, block: u32) {
    let units = (1..=16).map(|lpn| (lpn, 1)).collect();
    for _ in 0..16 {
        apply(chip, &Step::Program { block, units: Vec::clone(&units), cause: 0 }, &mut 0);
    }
}

#[test]
fn what_was_stored_is_there_when_the_file_is_opened_again() {
    let (folder, info, mut chip) = made();
    fill(&mut chip, 3);
    chip.sync(SimTime::ZERO);
    let mut copy = chip.clone();
    // The clone is independent from here on.
    fill(&mut copy, 4);
    assert_eq!(chip.block(BlockId::new(4)).pages_programmed, 0);
    drop(chip);
    let image = Image::open(&path(&folder), Access::Write).expect("opens");
    assert_eq!(image.info(), &info);
    let mut chip = FileChip::open_image(image, Untimed::default()).expect("opens");
    fill(&mut chip, 4);
    assert_eq!(compare(&mut chip, &mut copy), Ok(()));
    assert_eq!(chip.failure(), None);
}

#[test]
fn time_under_power_adds_up() {
    let (folder, info, mut chip) = made();
    assert_eq!(chip.earlier_power_on_ns(), 0);
    for (now, earlier) in
        [(Some(5), 0), (None, 5), (Some(70), 5), (Some(u64::MAX), 75), (None, POWER_ON_MAX_NS)]
    {
        assert_eq!(chip.earlier_power_on_ns(), earlier);
        if let Some(now) = now {
            // A drive may sync several times.
            chip.sync(SimTime::from_ns(1));
            chip.sync(SimTime::from_ns(now));
        }
        drop(chip);
        let image = Image::open(&path(&folder), Access::Write).expect("opens");
        let power_on_ns = image.info().power_on_ns;
        assert_eq!(image.info(), &ImageInfo { power_on_ns, ..info.clone() });
        chip = FileChip::open_image(image, Untimed::default()).expect("opens");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_takes_up_only_what_is_stored() {
    use std::os::unix::fs::MetadataExt;
    let (folder, info, mut chip) = made();
    let used = || fs::metadata(path(&folder)).expect("there").blocks() * 512;
    let block_bytes = u64::from(info.geometry.units_per_block() * info.geometry.unit_bytes());
    assert_eq!(fs::metadata(path(&folder)).expect("there").len() / block_bytes, 8);
    assert!(used() < 64 << 10, "an empty image takes {} bytes", used());
    fill(&mut chip, 3);
    fill(&mut chip, 4);
    let full = used();
    assert!(full >= 2 * block_bytes, "{full}");
    // Zeros take no space.
    apply(&mut chip, &Step::Program { block: 5, units: vec![(1, 0); 256], cause: 0 }, &mut 0);
    assert!(used() < full + (32 << 10), "{full}, then {}", used());
    chip.erase(T0, BlockId::new(3), Cause::Gc).expect("erases");
    assert!(used() < full, "{full} before the erase, {} after", used());
}

#[test]
fn an_image_in_use_is_refused() {
    let (folder, _, chip) = made();
    for access in [Access::Read, Access::Write] {
        assert!(matches!(Image::open(&path(&folder), access), Err(ImageError::InUse)), "{access:?}");
    }
    drop(chip);
    let one = Image::open(&path(&folder), Access::Read).expect("opens");
    let two = Image::open(&path(&folder), Access::Read).expect("readers share it");
    assert!(matches!(Image::open(&path(&folder), Access::Write), Err(ImageError::InUse)));
    drop((one, two));
    assert!(Image::open(&path(&folder), Access::Write).is_ok());
}

#[test]
fn a_file_that_is_there_is_never_overwritten() {
    let (folder, info, chip) = made();
    drop(chip);
    let before = fs::read(path(&folder)).expect("reads");
    let error =
        FileChip::create_image(&path(&folder), info, Untimed::default()).map(|_| ()).expect_err("refused");
    assert!(matches!(error, ImageError::Io { doing: "create", .. }), "{error}");
    assert_eq!(fs::read(path(&folder)).expect("reads"), before);
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let refused = |bytes: &[u8]| {
        fs::write(path(&folder), bytes).expect("writes");
        Image::open(&path(&folder), Access::Read).map(|_| ()).expect_err("refused").to_string()
    };
    let blank = "it is blank: not an image, or one whose creation was cut short";
    assert_eq!(refused(b""), blank);
    assert_eq!(refused(&[0; 10_000]), blank);
    assert_eq!(refused(b"short"), "it is not an image of a Strobe drive");
    assert_eq!(refused(&[0xA5; 10_000]), "it is not an image of a Strobe drive");
    let open = |path| Image::open(path, Access::Read).map(|_| ()).expect_err("refused").to_string();
    assert_eq!(open(folder.path()), "it is not a regular file");
    assert!(open(&folder.path().join("missing")).starts_with("cannot open it: "));
}

#[test]
fn another_geometry_is_refused_by_name() {
    let (_folder, info, _chip) = made();
    assert!(info.expect_geometry(&info.geometry).is_ok());
    let other = geometry(9, 64, 2, 8192);
    assert_eq!(
        info.expect_geometry(&other).expect_err("refused").to_string(),
        "it holds a drive of another geometry: blocks_per_plane is 8 in the image, but 9 was requested; \
         mapping_unit_bytes is 4096 in the image, but 8192 was requested"
    );
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let mut info = info(geometry(1, 1, 1, 512), WearConfig::default());
    info.config = "x".repeat((1 << 20) + 1);
    let error =
        FileChip::create_image(&path(&folder), info, Untimed::default()).map(|_| ()).expect_err("refused");
    assert!(matches!(error, ImageError::ConfigTooLong(_)), "{error}");
    assert!(!path(&folder).exists());
}
