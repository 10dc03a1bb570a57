//! Raw, reserved and logical capacity of a drive.

use crate::assembly::{BuildError, block_map_config, checked, map_config};
use crate::config::DriveConfig;

/// Raw flash and the capacity offered to the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Bytes of flash pages, without spare areas.
    pub raw_bytes: u64,
    /// Bytes offered to the host.
    pub logical_bytes: u64,
    /// Bytes of flash that never hold host data: factory-bad blocks, blocks of a durable map, static blocks
    /// of an SLC cache.
    pub reserved_bytes: u64,
}

impl Capacity {
    /// The capacity of the drive that `config` describes.
    pub fn of(config: &DriveConfig) -> Result<Self, BuildError> {
        let (geometry, logical) = checked(config)?;
        let map = match block_map_config(config, &geometry, logical) {
            Some(block_map) => block_map.map_blocks(&geometry),
            None => map_config(config, &geometry, logical, 0).map_blocks(&geometry),
        };
        let block_bytes = u64::from(geometry.units_per_block()) * u64::from(geometry.unit_bytes());
        let blocks_without_data = config
            .nand
            .factory_bad_blocks
            .saturating_add(map)
            .saturating_add(config.ftl.slc_cache.static_blocks);
        Ok(Self {
            raw_bytes: geometry.raw_bytes(),
            logical_bytes: u64::from(logical) * u64::from(geometry.unit_bytes()),
            reserved_bytes: u64::from(blocks_without_data) * block_bytes,
        })
    }

    /// Effective over-provisioning, (raw − reserved − logical) / logical. Negative if the usable flash is
    /// smaller than the logical capacity; such a drive cannot be built.
    pub fn over_provisioning(&self) -> f64 {
        let usable = self.raw_bytes.saturating_sub(self.reserved_bytes);
        usable as f64 / self.logical_bytes as f64 - 1.0
    }
}
