//! Placement handles that a drive cannot have.

use strobe_ftl::Isolation;
use strobe_types::Geometry;

use super::{BuildError, good_and_spare};
use crate::config::{DriveConfig, PlacementTable, SchemeName, WearLevelingName, block_scheme};

/// Refuses placement handles on a block map, persistent ones with wear levelling, and reclaim units that they cannot all
/// have at the same time.
pub(super) fn check(config: &DriveConfig, geometry: &Geometry, logical_units: u32) -> Result<(), BuildError> {
    let placement = &config.ftl.placement;
    if placement.scheme != SchemeName::Handles {
        return Ok(());
    }
    let &PlacementTable { handles, unit_blocks, isolation, .. } = placement;
    if block_scheme(&config.ftl.mapping).is_some() {
        return Err(BuildError::HandlesIn(config.ftl.mapping.clone()));
    }
    if isolation == Isolation::Persistent && config.ftl.wear_leveling.kind != WearLevelingName::None {
        return Err(BuildError::HandlesLeveled);
    }
    let (planes, spare) = (geometry.planes(), good_and_spare(config, geometry, logical_units).1);
    let wanted = u64::from(handles) * u64::from(unit_blocks) * u64::from(planes);
    if wanted > spare.into() {
        return Err(BuildError::ReclaimUnits { handles, unit_blocks, planes, wanted, spare });
    }
    Ok(())
}
