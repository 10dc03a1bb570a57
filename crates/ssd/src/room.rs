//! Capacity that a drive offers of its flash.

use crate::assembly::{BuildError, block_map_config, checked, map_config};
use crate::config::DriveConfig;

/// Flash and what is offered of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Bytes of flash pages, spare areas not counted.
    pub raw_bytes: u64,
    /// Bytes offered to the host.
    pub logical_bytes: u64,
    /// Bytes of flash on which no data of the host stays: factory-bad blocks, the blocks of a durable map, and those that
    /// are always in SLC mode.
    pub reserved_bytes: u64,
}

impl Room {
    /// The room of the drive that `config` describes.
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

    /// Spare flash per logical byte, (raw − reserved − logical) / logical: what garbage collection really
    /// has. Below 0 if the reserved blocks leave less than is offered; such a drive cannot be built.
    pub fn over_provisioning(&self) -> f64 {
        let usable = self.raw_bytes.saturating_sub(self.reserved_bytes);
        usable as f64 / self.logical_bytes as f64 - 1.0
    }
}
