//! Checks of placement handles.

use strobe_ftl::Isolation;
use strobe_ftl::gc::{AnyPolicy, Grouped};
use strobe_types::Geometry;

use super::{BuildError, Plan, good_and_spare};
use crate::config::{
    DriveConfig, DurableMap, Mapping, PlacementTable, SchemeName, WearLevelingName, block_scheme,
};

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
    check_groups(config, geometry)?;
    let (planes, spare) = (geometry.planes(), good_and_spare(config, geometry, logical_units).1);
    let wanted = u64::from(handles) * u64::from(unit_blocks) * u64::from(planes);
    if wanted > spare.into() {
        return Err(BuildError::ReclaimUnits { handles, unit_blocks, planes, wanted, spare });
    }
    Ok(())
}

fn check_groups(config: &DriveConfig, geometry: &Geometry) -> Result<(), BuildError> {
    let &PlacementTable { handles, groups, .. } = &config.ftl.placement;
    let dies = geometry.dies();
    if !dies.is_multiple_of(groups.into()) {
        let below = (1..=groups.into()).rev().find(|&groups| dies.is_multiple_of(groups)).unwrap_or(1);
        let above = (groups.into()..=dies).find(|&groups| dies.is_multiple_of(groups)).unwrap_or(dies);
        return Err(BuildError::Groups { groups, dies, over: dies % u32::from(groups), below, above });
    }
    if u32::from(groups) * u32::from(handles) > HANDLES_MOST {
        return Err(BuildError::HandlesOfGroups { groups, handles, most: HANDLES_MOST });
    }
    let ftl = &config.ftl;
    let clashes = [
        ("drive.ftl.mapping = \"page\"", config.mapping()? != Mapping::Page),
        ("drive.ftl.durable_map without map pages", ftl.durable_map == DurableMap::Pages),
        ("drive.ftl.wear_leveling.kind = \"none\"", ftl.wear_leveling.kind != WearLevelingName::None),
        ("drive.ftl.gc.garbage_share = 0", ftl.gc.garbage_share > 0.0),
        ("no drive.ftl.slc_cache", ftl.slc_cache.is_on()),
    ];
    match clashes.into_iter().find(|&(_, clashes)| groups > 1 && clashes) {
        Some((wants, _)) => Err(BuildError::GroupsWith(wants)),
        None => Ok(()),
    }
}

/// Maximum handles of all reclaim groups together. Each is a stream.
const HANDLES_MOST: u32 = 64;

pub(super) fn groups(config: &DriveConfig) -> u8 {
    let placement = &config.ftl.placement;
    if placement.scheme == SchemeName::Handles { placement.groups } else { 1 }
}

impl Plan<'_> {
    /// The victim policy, or one for each reclaim group.
    pub(crate) fn policy(&self) -> Result<AnyPolicy, BuildError> {
        if groups(self.config) == 1 {
            return self.policy_of_group();
        }
        let policies: Result<Vec<_>, _> = (0..groups(self.config)).map(|_| self.policy_of_group()).collect();
        Ok(AnyPolicy::new(Grouped::new(policies?, &self.geometry)))
    }
}
