//! A drive with fewer blocks.
//!
//! Latency depends on dies, buses and their load, not on the number of blocks. The number of erased and open
//! blocks that a drive reserves does not shrink with the drive. The logical size is therefore chosen to keep
//! the utilisation of the remaining flash constant.

use strobe_ssd::{BuildError, DriveConfig, kept_blocks};

pub(crate) fn scale_cache(drive: &mut DriveConfig, share: f64) {
    let cache = &mut drive.ftl.slc_cache;
    for blocks in [&mut cache.static_blocks, &mut cache.dynamic_blocks, &mut cache.fold_at] {
        *blocks = (f64::from(*blocks) * share).ceil() as u32;
    }
}

/// Returns `config` reduced to `blocks_per_plane` blocks; unchanged if it has no more.
pub fn scaled(config: &DriveConfig, blocks_per_plane: u32) -> Result<DriveConfig, BuildError> {
    if blocks_per_plane >= config.nand.blocks_per_plane {
        return Ok(config.clone());
    }
    let blocks = |config: &DriveConfig| {
        let nand = &config.nand;
        f64::from(nand.channels * nand.dies_per_channel * nand.planes_per_die)
            * f64::from(nand.blocks_per_plane)
    };
    let free = |config: &DriveConfig| kept_blocks(config).map(|kept| blocks(config) - f64::from(kept));
    let units = config.logical_units() as f64;
    let per_block = units / free(config)?;
    let mut small = config.clone();
    small.nand.blocks_per_plane = blocks_per_plane;
    let share = blocks(&small) / blocks(config);
    scale_cache(&mut small, share);
    // The logical size is set below instead.
    small.ftl.over_provisioning = None;
    small.ftl.logical_pages = Some((units * blocks(&small) / blocks(config)) as u32);
    // `kept_blocks` depends on the logical size through the spare share: iterate to a fixed point.
    for _ in 0..8 {
        small.ftl.logical_pages = Some((per_block * free(&small)?) as u32);
    }
    Ok(small)
}
