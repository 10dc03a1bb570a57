//! Reserve arithmetic of garbage collection.

/// Contents of a drive and the reserves they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Logical units of the drive.
    pub logical_units: u32,
    /// Good blocks that can hold data.
    pub usable_blocks: u32,
    /// Blocks open for writing at the same time.
    pub open_blocks: u32,
    /// Erased blocks held in reserve.
    pub reserve_blocks: u32,
    /// Good blocks that hold the map, not counted in `usable_blocks`.
    pub map_blocks: u32,
    /// Blocks always in SLC mode, not counted in `usable_blocks`; their data is folded.
    pub slc_blocks: u32,
    /// Blocks of the SLC cache among `open_blocks`.
    pub slc_open_blocks: u32,
    /// Flash pages in a block.
    pub pages_per_block: u32,
    /// Mapping units in a page.
    pub units_per_page: u32,
    /// Reclaim groups, each with an equal share of the blocks.
    pub groups: u32,
}

/// Computes the logical units that garbage collection can sustain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    demand: Demand,
}

/// Error: garbage collection could not make progress on the full drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityError {
    demand: Demand,
    capacity: u64,
}

impl Capacity {
    /// Arithmetic for `demand`.
    pub fn new(demand: Demand) -> Self {
        Self { demand }
    }

    /// Most logical units of a drive whose garbage collection always frees space.
    ///
    /// When collection starts, all blocks but the open and the reserved ones are closed. If no closed block
    /// could yield a whole page, each would hold more than (pages − 1) × units per page valid units. With
    /// fewer logical units in all, some block yields a page. The reserve has space for its valid units.
    ///
    /// Each reclaim group has such a reserve. Host writes to a full group are redirected; a spare block in
    /// each group guarantees a target.
    pub fn capacity_units(&self) -> u64 {
        let d = &self.demand;
        if d.groups == 1 {
            return self.group_capacity_units();
        }
        let block = u64::from(d.pages_per_block) * u64::from(d.units_per_page);
        self.group_capacity_units().saturating_sub(block) * u64::from(d.groups)
    }

    pub(crate) fn group_capacity_units(&self) -> u64 {
        let d = &self.demand;
        let closed = (u64::from(d.usable_blocks) / u64::from(d.groups))
            .saturating_sub(u64::from(d.open_blocks / d.groups))
            .saturating_sub(u64::from(d.reserve_blocks / d.groups));
        // Fewest valid units of a block from which collection gains no page.
        let too_full = u64::from(d.pages_per_block - 1) * u64::from(d.units_per_page) + 1;
        (closed * too_full).saturating_sub(1)
    }

    /// Checks that the demand fits.
    ///
    /// # Errors
    /// A [`CapacityError`] with the arithmetic if it does not.
    pub fn check(&self) -> Result<(), CapacityError> {
        let capacity = self.capacity_units();
        if u64::from(self.demand.logical_units) <= capacity {
            return Ok(());
        }
        Err(CapacityError { demand: self.demand, capacity })
    }
}

impl CapacityError {
    fn without_slc(&self) -> Demand {
        let Demand { usable_blocks, open_blocks, slc_blocks, slc_open_blocks, .. } = self.demand;
        Demand {
            usable_blocks: usable_blocks + slc_blocks,
            open_blocks: open_blocks - slc_open_blocks,
            ..self.demand
        }
    }
}

impl std::error::Error for CapacityError {}

impl std::fmt::Display for CapacityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let d = &self.demand;
        let per_block = u64::from(d.pages_per_block) * u64::from(d.units_per_page);
        let physical = u64::from(d.usable_blocks) * per_block;
        let map = match d.map_blocks {
            0 => String::new(),
            blocks => format!(", plus {blocks} blocks reserved for the map"),
        };
        writeln!(
            f,
            "over-provisioning is too small for garbage collection to make progress when the drive is full:"
        )?;
        writeln!(
            f,
            "  {:>12} good blocks × {per_block} mapping units = {physical} units on flash{map}",
            d.usable_blocks
        )?;
        writeln!(
            f,
            "  {:>12} blocks open for writing and {} kept erased do not count as capacity",
            d.open_blocks, d.reserve_blocks
        )?;
        if d.groups > 1 {
            writeln!(
                f,
                "  {:>12} reclaim groups share these, and each needs space for one more block",
                d.groups
            )?;
        }
        writeln!(f, "  {:>12} logical units requested", d.logical_units)?;
        writeln!(f, "  {:>12} logical units can be served", self.capacity)?;
        let slc = u64::from(d.slc_blocks) + u64::from(d.slc_open_blocks);
        if slc > 0 {
            writeln!(
                f,
                "  {:>12} blocks belong to the SLC cache: {} always in SLC mode, {} open in it",
                slc, d.slc_blocks, d.slc_open_blocks
            )?;
            if u64::from(d.logical_units) <= Capacity::new(self.without_slc()).capacity_units() {
                return write!(
                    f,
                    "the SLC cache is too large: lower drive.ftl.slc_cache.static_blocks, or set it and \
                     drive.ftl.slc_cache.dynamic_blocks to 0; or set drive.ftl.logical_pages to at most {}",
                    self.capacity
                );
            }
        }
        if self.capacity == 0 {
            return write!(
                f,
                "each plane needs up to two open blocks and one reserve block: use more blocks per plane or \
                 fewer dies and planes, or lower drive.ftl.gc.min_free_blocks and net_blocks"
            );
        }
        // Rounded up to four digits, so the advised value is enough.
        let with_map = physical + u64::from(d.map_blocks + d.slc_blocks) * per_block;
        let spare = (with_map as f64 / self.capacity as f64 - 1.0) * 10_000.0;
        write!(
            f,
            "set drive.ftl.logical_pages to at most {}, or drive.ftl.over_provisioning to at least {:.4}",
            self.capacity,
            spare.ceil() / 10_000.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand {
        logical_units: 0,
        usable_blocks: 10,
        open_blocks: 2,
        reserve_blocks: 3,
        map_blocks: 0,
        slc_blocks: 0,
        slc_open_blocks: 0,
        pages_per_block: 4,
        units_per_page: 1,
        groups: 1,
    };

    #[test]
    fn one_free_page_in_all_closed_blocks_is_enough_and_none_is_not() {
        let full = Demand { logical_units: 5 * 4, ..DEMAND };
        assert!(Capacity::new(full).check().is_err());
        let one_less = Demand { logical_units: 5 * 4 - 1, ..DEMAND };
        assert_eq!(Capacity::new(one_less).check(), Ok(()));
    }

    #[test]
    fn the_refusal_names_both_cures() {
        let error = Capacity::new(Demand { logical_units: 39, ..DEMAND }).check().expect_err("too full");
        let text = error.to_string();
        assert!(text.contains("10 good blocks × 4 mapping units = 40"), "{text}");
        assert!(text.contains("logical_pages to at most 19"), "{text}");
        assert!(text.contains("over_provisioning to at least 1.1053"), "{text}");
    }

    #[test]
    fn hopelessly_small_drives_are_refused_without_arithmetic_trouble() {
        let error = Capacity::new(Demand { usable_blocks: 3, logical_units: 1, ..DEMAND }).check();
        assert!(error.expect_err("no room").to_string().contains("more blocks per plane"));
    }
}
