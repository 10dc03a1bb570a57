//! Estimates of the host memory of a drive, before it is built.

use strobe_ftl::gc::{
    Formula, Greedy, Kinetic, LinearScore, Midas, Sampled, Scata, SecondChance, TwoRegions, VictimPolicy as _,
};
use strobe_nand::{Chip, DataMedium, NoMedium, StampMedium, Untimed};
use strobe_types::Geometry;

use super::handles::groups;
use super::{BuildError, block_map_config, checked, map_config};
use crate::config::{DataMode, DriveConfig, GcConfig, Victim};

/// Host memory that a drive needs, in bytes.
pub fn memory_bytes(config: &DriveConfig) -> Result<u64, BuildError> {
    let (geometry, logical) = checked(config)?;
    let chip = match config.nand.data {
        DataMode::None => Chip::<Untimed, NoMedium>::memory_bytes(&geometry),
        DataMode::Stamp => Chip::<Untimed, StampMedium>::memory_bytes(&geometry),
        DataMode::Bytes => Chip::<Untimed, DataMedium>::memory_bytes(&geometry),
    };
    let order = if config.nand.any_page_order { u64::from(geometry.pages()) } else { 0 };
    Ok(chip + order + memory_outside_chip(config, &geometry, logical))
}

/// Host memory that a drive needs before anything is written, in bytes. The memory of a drive that stores
/// bytes grows with the data written.
pub fn empty_memory_bytes(config: &DriveConfig) -> Result<u64, BuildError> {
    let (geometry, logical) = checked(config)?;
    let chip = match config.nand.data {
        DataMode::Bytes => Chip::<Untimed, DataMedium>::empty_memory_bytes(&geometry),
        DataMode::None | DataMode::Stamp => return memory_bytes(config),
    };
    let order = if config.nand.any_page_order { u64::from(geometry.pages()) } else { 0 };
    Ok(chip + order + memory_outside_chip(config, &geometry, logical))
}

pub(super) fn memory_outside_chip(config: &DriveConfig, geometry: &Geometry, logical: u32) -> u64 {
    let map = match block_map_config(config, geometry, logical) {
        Some(block_map) => block_map.memory_bytes(geometry),
        None => {
            map_config(config, geometry, logical, 0).memory_bytes(geometry)
                + policy_bytes(&config.ftl.gc, geometry) * u64::from(groups(config))
                + config.ftl.placement.own_bytes(logical)
        }
    };
    let unit_bytes = u64::from(geometry.unit_bytes());
    let content = match config.nand.data {
        DataMode::Bytes => 32 + unit_bytes,
        _ => 0,
    };
    // A buffered unit takes a map entry and a queue entry, and a unit of the non-volatile cache two tree
    // nodes. Both also take their content if bytes are stored.
    let controller = &config.controller;
    let buffered = controller.write_buffer_bytes.div_ceil(unit_bytes);
    let non_volatile = controller.nvram.bytes.div_ceil(unit_bytes).min(logical.into());
    map + buffered * (64 + content) + non_volatile * (128 + content)
}

fn policy_bytes(gc: &GcConfig, geometry: &Geometry) -> u64 {
    let victim = Victim::named(&gc.victim);
    let per_block = match victim {
        Some(Victim::Greedy { .. }) => Greedy::bytes_per_block(),
        Some(Victim::Fifo | Victim::Random | Victim::DChoices) => Sampled::bytes_per_block(),
        Some(Victim::Midas) => Midas::bytes_per_block(),
        Some(Victim::TwoRegions) => TwoRegions::bytes_per_block(),
        Some(Victim::SecondChance) => SecondChance::bytes_per_block(),
        Some(Victim::Scata(_)) => Kinetic::<Scata>::bytes_per_block(),
        Some(Victim::Score(_)) => Kinetic::<LinearScore>::bytes_per_block(),
        None => Formula::bytes_per_block(),
    };
    // These policies keep for each unit the tick of its write (8 bytes) and its validity (1 byte).
    let by_unit = matches!(victim, Some(Victim::Scata(_))) || gc.victim.contains("age_newest_valid");
    let per_unit = if by_unit { 9 } else { 0 };
    u64::from(geometry.blocks()) * per_block + u64::from(geometry.units()) * per_unit
}
