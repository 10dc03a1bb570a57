//! Watermarks of background collection.

use strobe_ftl::{GcStream, PageMapConfig, Watermarks};
use strobe_types::Geometry;

use super::{BuildError, checked, good_and_spare, map_config};
use crate::config::DriveConfig;

/// When collection in the background begins, and when the host waits for it.
///
/// Where nothing else is said, the host waits when the erased blocks are down to the least that is safe and, on average,
/// every open block of data is full: then it never waits for a block. Little spare makes little room: an eighth of it at
/// most is kept.
pub(super) fn of(config: &DriveConfig, geometry: &Geometry, map: &PageMapConfig) -> Watermarks {
    let gc = &config.ftl.gc;
    let (_, spare) = good_and_spare(config, geometry, map.logical_units);
    let most = (spare / 8).max(1);
    let lanes = geometry.planes();
    let open_streams = map.placement.open_streams(map.gc_stream == GcStream::Host);
    let least = map.least_erased_blocks(geometry);
    let or = |given: u32, automatic: u32| if given > 0 { given } else { automatic };
    // Room between the watermarks, if only the upper one is given.
    let highest = or(gc.soft_blocks, u32::MAX) - 1;
    let open = open_streams.max(2) * lanes;
    let pace = or(gc.pace_blocks, (least + open.min(most)).min(highest));
    let soft = or(gc.soft_blocks, pace + (lanes / 2 + 2).min(most));
    Watermarks {
        soft,
        pace,
        victims: or(gc.victims, geometry.dies()),
        read_pages: collection_read_pages(config),
    }
}

/// Pages that collection in the background reads from a victim in one step.
pub fn collection_read_pages(config: &DriveConfig) -> u32 {
    match config.ftl.gc.read_pages {
        0 => Watermarks::read_pages_for(config.nand.planes_per_die),
        given => given,
    }
}

/// Room, in blocks, that collection in the background keeps as long as it keeps up: erased blocks, and what is left of open
/// ones. 0 if the world is stopped.
pub fn kept_blocks(config: &DriveConfig) -> Result<u32, BuildError> {
    let (geometry, logical) = checked(config)?;
    let watermarks = map_config(config, &geometry, logical, 0).watermarks;
    Ok(watermarks.map_or(0, |watermarks| watermarks.soft))
}
