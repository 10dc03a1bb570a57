//! Change of the capacity of a drive.

use strobe_ssd::DriveConfig;

use crate::measurements::Measurements;
use crate::scaled::scale_cache;

/// Gives `drive` the capacity of `measurements`: first by the number of dies, as in drives of one family, then
/// by the number of blocks.
///
/// Over-provisioning and the share of SLC cache stay the same. Keys in `kept`, such as "nand.blocks_per_plane",
/// are not changed.
pub fn resize(drive: &mut DriveConfig, measurements: &Measurements, kept: &[String]) {
    let is_kept = |key: &str| kept.iter().any(|kept| kept == key);
    let unit = u64::from(drive.ftl.mapping_unit_bytes);
    let nand = &mut drive.nand;
    let planes = |nand: &strobe_ssd::NandConfig| {
        f64::from(nand.channels) * f64::from(nand.dies_per_channel) * f64::from(nand.planes_per_die)
    };
    let block_bytes = f64::from(nand.pages_per_block) * f64::from(nand.page_bytes);
    let before = (drive.ftl.logical_pages, drive.ftl.over_provisioning);
    let raw = planes(nand) * f64::from(nand.blocks_per_plane) * block_bytes;
    let spare = match before {
        (Some(pages), _) => raw / (f64::from(pages) * unit as f64),
        (None, Some(spare)) => 1.0 + spare,
        (None, None) => 1.07,
    };
    let capacity = measurements.capacity_bytes as f64;
    // Dies first: drives of a family differ in their number of dies.
    let ratio = capacity * spare / raw;
    let dies = (f64::from(nand.dies_per_channel) * ratio).round().clamp(1.0, 256.0);
    if !is_kept("nand.dies_per_channel") {
        nand.dies_per_channel = dies as u32;
    }
    if !is_kept("nand.blocks_per_plane") {
        nand.blocks_per_plane =
            (capacity * spare / (planes(nand) * block_bytes)).ceil().clamp(1.0, 16_777_216.0) as u32;
    }
    let blocks = planes(nand) * f64::from(nand.blocks_per_plane);
    // Scale the cache with the flash, then restore the keys that are kept.
    let pinned = drive.ftl.slc_cache;
    scale_cache(drive, blocks * block_bytes / raw);
    let cache = &mut drive.ftl.slc_cache;
    for (key, of, pinned) in [
        ("ftl.slc_cache.static_blocks", &mut cache.static_blocks, pinned.static_blocks),
        ("ftl.slc_cache.dynamic_blocks", &mut cache.dynamic_blocks, pinned.dynamic_blocks),
        ("ftl.slc_cache.fold_at", &mut cache.fold_at, pinned.fold_at),
    ] {
        if is_kept(key) {
            *of = pinned;
        }
    }
    drive.ftl.over_provisioning = None;
    drive.ftl.logical_pages = Some((measurements.capacity_bytes / unit).min(u64::from(u32::MAX - 1)) as u32);
}
