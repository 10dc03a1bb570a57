//! Checks of drives that program whole word lines.
//!
//! `geometry` in `mod.rs` makes a word line one page of the geometry. The chip reads single flash pages of a
//! word line (`parts.rs`).

use strobe_nand::Wanted;

use super::BuildError;
use crate::config::{DriveConfig, block_scheme};

pub(super) fn check(config: &DriveConfig) -> Result<(), BuildError> {
    let nand = &config.nand;
    let parts = nand.pages_per_program;
    if parts as usize > Wanted::PARTS_MOST {
        // This check fails, because the value is outside its documented range.
        config.check()?;
    }
    if !nand.pages_per_block.is_multiple_of(parts) {
        return Err(BuildError::WordLines { parts, pages: nand.pages_per_block });
    }
    let types = nand.program_ns.types().len();
    if types > 1 {
        return Err(BuildError::WordLineTimes { parts, types });
    }
    if block_scheme(&config.ftl.mapping).is_some() || nand.any_page_order {
        let (key, given) = if nand.any_page_order {
            ("nand.any_page_order", "true".to_owned())
        } else {
            ("ftl.mapping", format!("\"{}\"", config.ftl.mapping))
        };
        return Err(BuildError::WordLinesIn { parts, key, given });
    }
    Ok(())
}
