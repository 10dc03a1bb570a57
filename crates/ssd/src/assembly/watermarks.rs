use strobe_ftl::{GcStream, PageMapConfig, Watermarks};
use strobe_types::Geometry;

use super::{BuildError, checked, good_and_spare, map_config};
use crate::config::DriveConfig;

/// Watermarks of a map.
pub(super) fn of(config: &DriveConfig, geometry: &Geometry, map: &PageMapConfig) -> Watermarks {
    let gc = &config.ftl.gc;
    let (_, spare) = good_and_spare(config, geometry, map.logical_units);
    let most = (spare / 8).max(1);
    let lanes = geometry.planes();
    let open_streams = map.placement.open_streams(map.gc_stream == GcStream::Host);
    let least = map.least_erased_blocks(geometry);
    let or = |given: u32, automatic: u32| if given > 0 { given } else { automatic };
    // If only the high watermark is given, the automatic low watermark stays below it.
    let highest = or(gc.high_watermark_blocks, u32::MAX) - 1;
    // The automatic low watermark covers the safe minimum and the open data blocks, so the host never waits
    // for a block. The part for open blocks is at most an eighth of the spare blocks.
    let open = open_streams.max(2) * lanes;
    let low = or(gc.low_watermark_blocks, (least + open.min(most)).min(highest));
    let high = or(gc.high_watermark_blocks, low + (lanes / 2 + 2).min(most));
    Watermarks {
        high,
        low,
        victims: or(gc.victims, geometry.dies()),
        read_pages: collection_read_pages(config),
    }
}

/// Pages that background collection reads from a victim in one step.
pub fn collection_read_pages(config: &DriveConfig) -> u32 {
    match config.ftl.gc.read_pages {
        0 => Watermarks::read_pages_for(config.nand.planes_per_die),
        given => given,
    }
}

/// Free space, in blocks, that background collection maintains while it keeps up with the host: erased blocks
/// and the free part of open blocks. 0 for stop-the-world collection.
pub fn kept_blocks(config: &DriveConfig) -> Result<u32, BuildError> {
    let (geometry, logical) = checked(config)?;
    let watermarks = map_config(config, &geometry, logical, 0).watermarks;
    Ok(watermarks.map_or(0, |watermarks| watermarks.high))
}
