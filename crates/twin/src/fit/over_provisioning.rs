//! Amount of flash that gives the measured write amplification.

use strobe_lab::points::{self, Watch};
use strobe_ssd::{Aged, BuildError, DriveConfig};

use super::{FitError, FitOptions, Memory};
use crate::measurements::{Addresses, Figures, Measurement, Measurements};
use crate::scaled::scaled;
use crate::twin::TwinError;

const HALVINGS: u32 = 7;
/// Units per block of the drive simulated for write amplification. The utilisation of victims depends on the
/// share of spare blocks, and hardly on the block size above some hundred units.
const BLOCK_UNITS: u32 = 512;

/// Sets the blocks of `drive` to match the write amplification of the fullest uniform row. Does nothing if no
/// row has one, or if a kept key fixes the amount of flash.
pub(super) fn meet(
    drive: &mut DriveConfig,
    measurements: &Measurements,
    options: &FitOptions,
    memory: &mut Memory,
    watch: &dyn Watch,
) -> Result<(), FitError> {
    if options
        .kept
        .iter()
        .any(|key| matches!(key.as_str(), "nand.blocks_per_plane" | "ftl.over_provisioning"))
    {
        return Ok(());
    }
    let is_known = |row: &&Measurement| row.seen.waf.is_some() && row.load.addresses == Addresses::Uniform;
    let known = measurements.rows.iter().filter(is_known);
    let Some(row) = known.max_by_key(|row| row.load.used_bytes) else { return Ok(()) };
    let Some(wanted) = row.seen.waf else { return Ok(()) };
    let used = row.load.used_bytes as f64 / measurements.capacity_bytes as f64;
    // Bisect the spare share from 2 to 100 % of the capacity, on a logarithmic scale: write amplification
    // falls as the share grows.
    let nand = &drive.nand;
    let per_plane = |spare: f64| {
        let planes = f64::from(nand.channels * nand.dies_per_channel * nand.planes_per_die);
        let block_bytes = f64::from(nand.pages_per_block) * f64::from(nand.page_bytes);
        (measurements.capacity_bytes as f64 * (1.0 + spare) / (planes * block_bytes)) as u32
    };
    let (mut low, mut high) = (libm::log(0.02), 0.0);
    // Upper end of the range, used if even that much flash is too little.
    let mut best = per_plane(1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let blocks = per_plane(libm::exp(middle));
        let candidate = with_blocks(drive, blocks);
        // A drive that cannot be built has too little flash.
        match amplification(&candidate, used, options, memory, watch)? {
            Some(waf) if waf <= wanted => (high, best) = (middle, blocks),
            _ => low = middle,
        }
    }
    *drive = with_blocks(drive, best);
    Ok(())
}

fn with_blocks(drive: &DriveConfig, blocks_per_plane: u32) -> DriveConfig {
    let mut drive = drive.clone();
    drive.nand.blocks_per_plane = blocks_per_plane;
    drive
}

fn if_fits<T>(result: Result<T, BuildError>) -> Result<Option<T>, FitError> {
    // A drive with too little spare flash cannot be built.
    match result {
        Ok(found) => Ok(Some(found)),
        Err(BuildError::Capacity(_) | BuildError::Spare { .. } | BuildError::LogicalPages(_)) => Ok(None),
        Err(error) => Err(TwinError::from(error).into()),
    }
}

fn amplification(
    drive: &DriveConfig,
    used: f64,
    options: &FitOptions,
    memory: &mut Memory,
    watch: &dyn Watch,
) -> Result<Option<f64>, FitError> {
    let small = scaled(drive, options.effort.blocks_per_plane(drive));
    let Some(mut small) = if_fits(small)? else { return Ok(None) };
    let per_page = small.nand.page_bytes / small.ftl.mapping_unit_bytes;
    // A multiple of 12 pages is whole word lines for 1 to 4 page types.
    let pages = small.nand.pages_per_block.min((BLOCK_UNITS / per_page / 12).max(1) * 12);
    let units = small.logical_units() * u64::from(pages) / u64::from(small.nand.pages_per_block);
    (small.nand.pages_per_block, small.ftl.logical_pages) = (pages, Some(units as u32));
    let key = points::key("waf", &(used, &small));
    if let Some(known) = memory.find(&key)? {
        return Ok(known.first().and_then(|figures| figures.waf));
    }
    if watch.stopped() {
        return Err(TwinError::Interrupted.into());
    }
    let Some(mut aged) = if_fits(Aged::new(&small, options.seed))? else { return Ok(None) };
    aged.set_stop(watch.stop_flag());
    let units = (small.logical_units() as f64 * used) as u32;
    // Overwrite three times to reach the steady state.
    let filled = aged.fill(units).and_then(|()| aged.overwrite(units, 3 * u64::from(units)));
    let waf = filled.and_then(|()| aged.amplification(units, units.into())).map_err(TwinError::from)?;
    memory.keep(&key, &vec![Figures { waf: Some(waf), ..Figures::default() }])?;
    Ok(Some(waf))
}
