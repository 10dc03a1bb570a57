//! Drives whose flash is a file, so that they outlive the process.

use std::fs;
use std::path::Path;

use strobe_ftl::gc::{AnyPolicy, Greedy};
use strobe_ftl::{PageMap, Recovery, RecoveryError};
use strobe_nand::{
    Access, Chip, DataMedium, Image, ImageError, ImageInfo, Nand, NoMedium, Scan, SwitchedTiming,
};
use strobe_types::{BlockId, SimTime};

use super::memory::memory_beside_chip;
use super::{BuildError, Built, ImageProblem, Plan, checked};
use crate::config::{DataMode, DriveConfig, DurableMap};
use crate::device::Simulated;
use crate::drive::Drive;

/// Keys, below `drive`, that decide what lies on flash; those of the geometry and the capacity apart.
const KEPT: [&str; 10] = [
    "nand.endurance_pe",
    "nand.factory_bad_blocks",
    "nand.program_fail_rate",
    "ftl.mapping",
    "ftl.map_blocks",
    "ftl.copy_mode",
    "ftl.gc.stream",
    "ftl.placement",
    "ftl.wear_leveling.kind",
    "ftl.slc_cache.static_blocks",
];

/// The drive of `config` on the image at `path`: a new one if there is no such file, else the one that is
/// there, recovered as after a power cut.
///
/// What lies on flash must fit: another geometry, capacity, endurance or use of flash is refused; policies, timing
/// and controller may differ. `seed` is that of policies; bad blocks are decided when the image is made.
pub fn build_on_image(
    config: &DriveConfig,
    timing: bool,
    seed: u64,
    path: &Path,
) -> Result<(Box<dyn Simulated>, Option<Recovery>), BuildError> {
    let wrong = |error| BuildError::Image { path: path.display().to_string(), error };
    check_keys(config).map_err(wrong)?;
    let (geometry, logical) = checked(config)?;
    let image = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        _ => Some(Image::open(path, Access::Write).map_err(|error| wrong(error.into()))?),
    };
    let plan = Plan { config, geometry, logical, seed, is_new: image.is_none(), own: None };
    if let Some(image) = &image {
        check_alike(image.info(), &plan).map_err(wrong)?;
    }
    let built = on_image(&plan, image, path, plan.switched_timing(timing))?;
    match built.0.failure() {
        Some(reason) => Err(wrong(ImageProblem::Failed(reason.to_owned()))),
        None => Ok(built),
    }
}

fn on_image(
    plan: &Plan<'_>,
    image: Option<Image>,
    path: &Path,
    timing: SwitchedTiming,
) -> Result<Built, BuildError> {
    let wrong =
        |error: ImageError| BuildError::Image { path: path.display().to_string(), error: error.into() };
    let parts = plan.config.nand.pages_per_program;
    if let Some(image) = image {
        let chip = Chip::open_image(image, timing).map_err(wrong)?.in_word_lines(parts);
        return plan.page_mapped(plan.worn(chip), plan.policy()?);
    }
    let config = toml::to_string(plan.config).map_err(|error| BuildError::Image {
        path: path.display().to_string(),
        error: ImageProblem::Config(error.to_string()),
    })?;
    let (geometry, wear, seed) = (plan.geometry.clone(), plan.wear(), plan.seed);
    let info = ImageInfo { geometry, wear, seed, slc_bits: plan.slc_bits(), power_on_ns: 0, config };
    let chip = plan.worn(Chip::create_image(path, info, timing).map_err(wrong)?.in_word_lines(parts));
    plan.policy().and_then(|policy| plan.page_mapped(chip, policy)).inspect_err(|_| {
        // A drive that cannot work leaves no file behind; if it does, nothing is lost.
        let _ = fs::remove_file(path);
    })
}

/// Refuses a drive that would lose something with its process.
fn check_keys(config: &DriveConfig) -> Result<(), ImageProblem> {
    let require =
        |fits: bool, key, needed| if fits { Ok(()) } else { Err(ImageProblem::Key { key, needed }) };
    require(config.nand.data == DataMode::Bytes, "drive.nand.data", "\"bytes\"")?;
    require(config.ftl.durable_map == DurableMap::Journal, "drive.ftl.durable_map", "true")?;
    require(config.ftl.mapping == "page", "drive.ftl.mapping", "\"page\"")?;
    require(!config.nand.any_page_order, "drive.nand.any_page_order", "false")?;
    let nvram = config.controller.nvram.bytes;
    require(nvram == 0, "drive.controller.nvram.bytes", "0, as the cache is not kept in the image,")
}

/// Refuses an image on which this drive would not find what another one has left there.
fn check_alike(info: &ImageInfo, plan: &Plan<'_>) -> Result<(), ImageProblem> {
    info.expect_geometry(&plan.geometry).map_err(|error| ImageProblem::Unlike(error.to_string()))?;
    let (was, is) = (&drive_of(info)?, plan.config);
    let mut differences = Vec::new();
    let mut compare = |key: &str, image: String, wanted: String| {
        if image != wanted {
            differences.push(format!("{key} is {image} in the image, {wanted} is asked for"));
        }
    };
    compare("the capacity in mapping units", was.logical_units().to_string(), is.logical_units().to_string());
    let (was_table, is_table) = (table(was), table(is));
    for key in KEPT {
        compare(&format!("drive.{key}"), value(&was_table, key), value(&is_table, key));
    }
    let entries = |map: strobe_ftl::PageMapConfig| map.virtual_map_entries.to_string();
    let was_plan = Plan { config: was, geometry: info.geometry.clone(), ..*plan };
    compare(
        "bits of a cell for SLC mode (0: none)",
        was_plan.slc_bits().to_string(),
        plan.slc_bits().to_string(),
    );
    compare("drive.ftl.virtual_map_entries", entries(was_plan.map_config()), entries(plan.map_config()));
    if differences.is_empty() {
        Ok(())
    } else {
        Err(ImageProblem::Unlike(format!("it holds another drive: {}", differences.join("; "))))
    }
}

fn table(config: &DriveConfig) -> toml::Value {
    toml::Value::try_from(config).unwrap_or_else(|_| toml::Table::new().into())
}

/// Value of a dotted key in `table`. A key that is missing has its default.
fn value(table: &toml::Value, key: &str) -> String {
    let found = key.split('.').try_fold(table, |table, part| table.get(part));
    found.map_or_else(|| "the default".to_owned(), ToString::to_string)
}

/// The drive that an image was made for.
fn drive_of(info: &ImageInfo) -> Result<DriveConfig, ImageProblem> {
    let config: DriveConfig =
        toml::from_str(&info.config).map_err(|error| ImageProblem::Config(error.message().to_owned()))?;
    check_keys(&config)?;
    Ok(config)
}

/// Host memory that a drive on an image needs, in bytes: little more than one that stores nothing.
pub fn image_memory_bytes(config: &DriveConfig) -> Result<u64, BuildError> {
    let (geometry, logical) = checked(config)?;
    let chip = Chip::<SwitchedTiming, NoMedium>::memory_bytes(&geometry);
    let file = DataMedium::file_memory_bytes(&geometry);
    Ok(chip + file + memory_beside_chip(config, &geometry, logical))
}

/// The drive of an image, in memory: nothing reaches the file.
pub type ImageDrive = Drive<PageMap<Chip<SwitchedTiming, DataMedium>, AnyPolicy>>;

/// Content of an image.
#[derive(Debug)]
pub struct Examined {
    /// The drive it was made for.
    pub config: DriveConfig,
    /// Its pages by kind, and what is damaged.
    pub scan: Scan,
    /// Erase counts of good blocks.
    pub erase_counts: Vec<u32>,
    /// Blocks out of service.
    pub bad_blocks: u32,
    /// The drive, recovered, if that is possible, and what it took.
    pub drive: Result<(ImageDrive, Recovery), RecoveryError>,
}

/// The drive that `image` was made for, as [`examine`] would load it; its memory can so be estimated
/// with [`memory_bytes`](crate::memory_bytes).
pub fn image_config(image: &Image) -> Result<DriveConfig, ImageProblem> {
    drive_of(image.info())
}

/// Reads all of `image` into memory, checks it and recovers its drive there. Damaged parts are left out,
/// so what the drive holds is what can be saved.
pub fn examine(image: &Image) -> Result<Examined, ImageProblem> {
    let info = image.info();
    let config = drive_of(info)?;
    let (geometry, logical) = checked(&config).map_err(|error| ImageProblem::Config(error.to_string()))?;
    info.expect_geometry(&geometry)?;
    let (chip, scan) = Chip::load_image(image, SwitchedTiming::new(None))?;
    let (bad, good): (Vec<_>, Vec<_>) =
        (0..geometry.blocks()).map(BlockId::new).partition(|&block| chip.block(block).bad);
    let erase_counts = good.iter().map(|&block| chip.block(block).erase_count).collect();
    let plan = Plan { config: &config, geometry, logical, seed: info.seed, is_new: false, own: None };
    let policy = AnyPolicy::new(Greedy::new(plan.geometry.blocks()));
    let before = chip.counts().clone();
    let placement = plan.placement().map_err(|error| ImageProblem::Config(error.to_string()))?;
    let drive = PageMap::restart_with_placement(chip, policy, placement, plan.map_config(), SimTime::ZERO)
        .map(|(ftl, recovery)| (Drive::reopened(ftl, &config.controller, before), recovery));
    Ok(Examined { scan, erase_counts, bad_blocks: bad.len() as u32, drive, config })
}
