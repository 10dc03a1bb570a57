//! Planned read errors: translation of their configuration.

use strobe_nand::Lasts;
use strobe_types::{BlockId, Geometry, Lpn, SimTime};

use super::BuildError;
use crate::config::{DriveConfig, FaultAt};
use crate::drive::{Fault, FaultPlace};

/// The configured faults. Fails if one lies beyond the end of the drive.
pub(super) fn faults(
    config: &DriveConfig,
    geometry: &Geometry,
    logical_units: u32,
) -> Result<Vec<Fault>, BuildError> {
    let mut faults = Vec::new();
    for (at, fault) in config.nand.faults.at.iter().enumerate() {
        let refused = |key: &str, given: u64, end: u64| BuildError::FaultBeyond {
            key: format!("drive.nand.faults.at[{at}].{key}"),
            given,
            last: end - 1,
        };
        let &FaultAt { unit, units, block, page, after_writes, after_ns, transient } = fault;
        let lasts = if transient { Lasts::Once } else { Lasts::UntilErased };
        let timed = |place| Fault { place, after_writes, after: SimTime::from_ns(after_ns), lasts };
        match (unit, block, page) {
            (Some(unit), None, None) => {
                let end = u64::from(unit) + u64::from(units);
                if end > u64::from(logical_units) {
                    let key = if units > 1 { "unit + units - 1" } else { "unit" };
                    return Err(refused(key, end - 1, logical_units.into()));
                }
                let places = (0..units).map(|at| FaultPlace::Unit(Lpn::new(unit + at)));
                faults.extend(places.map(timed));
            }
            (None, Some(block), Some(page)) if units == 1 => {
                let pages = config.nand.pages_per_block;
                if block >= geometry.blocks() {
                    return Err(refused("block", block.into(), geometry.blocks().into()));
                }
                if page >= pages {
                    return Err(refused("page", page.into(), pages.into()));
                }
                // The geometry counts word lines of `parts` flash pages.
                let parts = config.nand.pages_per_program;
                let page_of_block = geometry.page(BlockId::new(block), page / parts);
                faults.push(timed(FaultPlace::Page { page: page_of_block, part: page % parts, parts }));
            }
            _ => return Err(BuildError::FaultPlace { at }),
        }
    }
    Ok(faults)
}
