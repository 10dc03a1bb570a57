//! Drives whose flash is stored in a file, the image.

use std::fs;
use std::path::Path;

use strobe_ftl::gc::{AnyPolicy, Greedy};
use strobe_ftl::{PageMap, Recovery, RecoveryError};
use strobe_nand::{
    Access, Chip, DataMedium, Image, ImageError, ImageInfo, Nand, NoMedium, Scan, SwitchedTiming,
};
use strobe_types::{BlockId, SimTime};

use super::memory::memory_outside_chip;
use super::{BuildError, Built, ImageProblem, Plan, checked};
use crate::config::{DataMode, DriveConfig, DurableMap};
use crate::device::Simulated;
use crate::drive::Drive;

/// Keys below `drive` that determine flash content, apart from geometry and capacity.
const KEPT: [&str; 9] = [
    "nand.endurance_pe",
    "nand.factory_bad_blocks",
    "nand.program_fail_rate",
    "ftl.mapping",
    "ftl.copy_mode",
    "ftl.gc.stream",
    "ftl.placement",
    "ftl.wear_leveling.kind",
    "ftl.slc_cache.static_blocks",
];

/// Creates the drive of `config` on the image at `path`, or recovers an existing one as after a power cut.
///
/// An image of another geometry, capacity, endurance or use of flash is rejected. Policies, timing and
/// controller may differ. For an existing image, `seed` affects policies only.
pub fn build_on_image(
    config: &DriveConfig,
    timing: bool,
    seed: u64,
    path: &Path,
) -> Result<(Box<dyn Simulated>, Option<Recovery>), BuildError> {
    let wrong = |error| BuildError::Image { path: path.display().to_string(), error };
    check_keys(config).map_err(wrong)?;
    let (geometry, logical) = checked(config)?;
    // A dangling symbolic link counts as existing: opening it fails, so no image is created elsewhere.
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
        // If the drive cannot be built, its new file is removed. A failed removal loses no data.
        let _ = fs::remove_file(path);
    })
}

/// Rejects a drive whose durable state an image cannot hold completely.
fn check_keys(config: &DriveConfig) -> Result<(), ImageProblem> {
    let require =
        |fits: bool, key, needed| if fits { Ok(()) } else { Err(ImageProblem::Key { key, needed }) };
    require(config.nand.data == DataMode::Bytes, "drive.nand.data", "\"bytes\"")?;
    require(config.ftl.durable_map == DurableMap::Journal, "drive.ftl.durable_map", "true")?;
    require(config.ftl.mapping == "page", "drive.ftl.mapping", "\"page\"")?;
    require(!config.nand.any_page_order, "drive.nand.any_page_order", "false")?;
    let nvram = config.controller.nvram.bytes;
    require(nvram == 0, "drive.controller.nvram.bytes", "0, because the cache is not stored in the image,")
}

fn check_alike(info: &ImageInfo, plan: &Plan<'_>) -> Result<(), ImageProblem> {
    info.expect_geometry(&plan.geometry).map_err(|error| ImageProblem::Unlike(error.to_string()))?;
    // All differences are reported, not only the first.
    let (was, is) = (&drive_of(info)?, plan.config);
    let mut differences = Vec::new();
    let mut compare = |key: &str, image: String, wanted: String| {
        if image != wanted {
            differences.push(format!("{key} is {image} in the image, but {wanted} was requested"));
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

/// Value of `key` as text. A missing key has its default.
fn value(table: &toml::Value, key: &str) -> String {
    let found = key.split('.').try_fold(table, |table, part| table.get(part));
    found.map_or_else(|| "the default".to_owned(), ToString::to_string)
}

fn drive_of(info: &ImageInfo) -> Result<DriveConfig, ImageProblem> {
    let config: DriveConfig =
        toml::from_str(&info.config).map_err(|error| ImageProblem::Config(error.message().to_owned()))?;
    check_keys(&config)?;
    Ok(config)
}

/// Host memory of a drive on an image, in bytes: slightly more than for a drive without data.
pub fn image_memory_bytes(config: &DriveConfig) -> Result<u64, BuildError> {
    let (geometry, logical) = checked(config)?;
    let chip = Chip::<SwitchedTiming, NoMedium>::memory_bytes(&geometry);
    let file = DataMedium::file_memory_bytes(&geometry);
    Ok(chip + file + memory_outside_chip(config, &geometry, logical))
}

/// The drive of an image, loaded into memory. Its writes do not reach the file.
pub type ImageDrive = Drive<PageMap<Chip<SwitchedTiming, DataMedium>, AnyPolicy>>;

/// Content of an image.
#[derive(Debug)]
pub struct Examined {
    /// Configuration of the drive that created the image.
    pub config: DriveConfig,
    /// Pages by kind, and damage.
    pub scan: Scan,
    /// Erase counts of good blocks.
    pub erase_counts: Vec<u32>,
    /// Number of bad blocks.
    pub bad_blocks: u32,
    /// The recovered drive and its recovery, or the reason why recovery failed.
    pub drive: Result<(ImageDrive, Recovery), RecoveryError>,
}

/// The drive that [`examine`] would load from `image`, for an estimate with
/// [`memory_bytes`](crate::memory_bytes).
pub fn image_config(image: &Image) -> Result<DriveConfig, ImageProblem> {
    drive_of(image.info())
}

/// Loads all of `image` into memory, checks it and recovers its drive. Damaged parts are left out; the drive
/// holds all recoverable data.
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
