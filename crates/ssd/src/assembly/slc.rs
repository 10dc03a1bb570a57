//! Checks of the SLC cache.

use strobe_types::Geometry;

use super::BuildError;
use crate::config::{DriveConfig, DurableMap, Mapping};

pub(super) fn check(config: &DriveConfig, geometry: &Geometry) -> Result<(), BuildError> {
    let (slc, nand) = (&config.ftl.slc_cache, &config.nand);
    if !slc.is_on() {
        return Ok(());
    }
    if config.mapping()? != Mapping::Page {
        return Err(BuildError::SlcMapping(config.ftl.mapping.clone()));
    }
    if config.ftl.durable_map == DurableMap::Pages {
        return Err(BuildError::SlcMapPages);
    }
    if nand.any_page_order {
        return Err(BuildError::SlcPageOrder);
    }
    // In SLC mode a block has 1/bits of its pages, which must be a whole number of programs.
    let (bits, pages) = (nand.slc.bits_per_cell * nand.pages_per_program, nand.pages_per_block);
    // Values outside their documented range are rejected later.
    if bits > 0 && !pages.is_multiple_of(bits) {
        return Err(BuildError::SlcPages { bits, pages });
    }
    let blocks = geometry.blocks() - nand.factory_bad_blocks;
    let (key, given) = if slc.static_blocks >= blocks {
        ("static_blocks", slc.static_blocks)
    } else {
        let most = slc.static_blocks.saturating_add(slc.dynamic_blocks);
        if slc.fold_at > most {
            return Err(BuildError::SlcFoldAt { given: slc.fold_at, most });
        }
        ("dynamic_blocks", slc.dynamic_blocks)
    };
    if given >= blocks { Err(BuildError::SlcBlocks { key, given, blocks }) } else { Ok(()) }
}
