//! Reserve arithmetic: can garbage collection always make progress?

/// Contents of a drive and the reserves that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Logical units the drive offers.
    pub logical_units: u32,
    /// Good blocks.
    pub usable_blocks: u32,
    /// Blocks that are open for writing at the same time.
    pub open_blocks: u32,
    /// Erased blocks that are kept in hand.
    pub reserve_blocks: u32,
    /// Good blocks, not among the usable ones, in which the map is kept.
    pub map_blocks: u32,
    /// Blocks, not among the usable ones, that are always in SLC mode: they pass on what they hold.
    pub slc_blocks: u32,
    /// Open blocks among `open_blocks` of the SLC cache.
    pub slc_open_blocks: u32,
    /// Flash pages in a block.
    pub pages_per_block: u32,
    /// Mapping units in a page.
    pub units_per_page: u32,
    /// Reclaim groups, each with an equal part of the blocks.
    pub groups: u32,
}

/// The arithmetic of progress, ready to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    demand: Demand,
}

/// Why a drive could not make progress when full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityError {
    demand: Demand,
    room: u64,
}

impl Capacity {
    /// Prepares the arithmetic for `demand`.
    pub fn new(demand: Demand) -> Self {
        Self { demand }
    }

    /// Most logical units with which garbage collection always frees space.
    ///
    /// When it starts, all but the open and the reserved blocks are closed. If the logical units
    /// were spread so that no closed block had a whole page to gain, each would hold more than
    /// (pages − 1) × units per page valid units; as long as there are fewer logical units than
    /// that takes, some block yields at least one page, and the reserve lets it be moved.
    ///
    /// Each of several reclaim groups has such a reserve. The host chooses the group of a write; if that has no room for
    /// another block, the write goes to one that has, which there is if a block in each group is left over.
    pub fn room_units(&self) -> u64 {
        let d = &self.demand;
        if d.groups == 1 {
            return self.room_of_group();
        }
        let block = u64::from(d.pages_per_block) * u64::from(d.units_per_page);
        self.room_of_group().saturating_sub(block) * u64::from(d.groups)
    }

    /// Most valid units of one reclaim group with which collection in it always frees space.
    pub(crate) fn room_of_group(&self) -> u64 {
        let d = &self.demand;
        let closed = (u64::from(d.usable_blocks) / u64::from(d.groups))
            .saturating_sub(u64::from(d.open_blocks / d.groups))
            .saturating_sub(u64::from(d.reserve_blocks / d.groups));
        let too_full = u64::from(d.pages_per_block - 1) * u64::from(d.units_per_page) + 1;
        (closed * too_full).saturating_sub(1)
    }

    /// Accepts the demand or says why not.
    pub fn check(&self) -> Result<(), CapacityError> {
        let room = self.room_units();
        if u64::from(self.demand.logical_units) <= room {
            return Ok(());
        }
        Err(CapacityError { demand: self.demand, room })
    }
}

impl CapacityError {
    /// The demand of the same drive without an SLC cache.
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
            blocks => format!(", beside {blocks} blocks kept for the map"),
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
            "  {:>12} blocks open for writing and {} kept erased cannot be counted on",
            d.open_blocks, d.reserve_blocks
        )?;
        if d.groups > 1 {
            writeln!(
                f,
                "  {:>12} reclaim groups share these, and need room for a block more in each",
                d.groups
            )?;
        }
        writeln!(f, "  {:>12} logical units asked for", d.logical_units)?;
        writeln!(f, "  {:>12} logical units can be served", self.room)?;
        let slc = u64::from(d.slc_blocks) + u64::from(d.slc_open_blocks);
        if slc > 0 {
            writeln!(
                f,
                "  {:>12} blocks are the share of the SLC cache: {} always in SLC mode, {} open in it",
                slc, d.slc_blocks, d.slc_open_blocks
            )?;
            if u64::from(d.logical_units) <= Capacity::new(self.without_slc()).room_units() {
                return write!(
                    f,
                    "the SLC cache leaves no room: lower drive.ftl.slc_cache.static_blocks, or set it and \
                     drive.ftl.slc_cache.dynamic_blocks to 0; or set drive.ftl.logical_pages to at most {}",
                    self.room
                );
            }
        }
        if self.room == 0 {
            return write!(
                f,
                "each plane takes up to two open blocks and one of the reserve: use more blocks per plane or \
                 fewer dies and planes, or lower drive.ftl.gc.min_free_blocks and net_blocks"
            );
        }
        // Rounded up to four digits, so that following the advice is enough.
        let with_map = physical + u64::from(d.map_blocks + d.slc_blocks) * per_block;
        let spare = (with_map as f64 / self.room as f64 - 1.0) * 10_000.0;
        write!(
            f,
            "set drive.ftl.logical_pages to at most {}, or drive.ftl.over_provisioning to at least {:.4}",
            self.room,
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
