use strobe_types::Stored;

/// Number of units that a read transfers from each flash page of a word line. If one program fills several
/// flash pages ([`Nand::pages_per_program`](crate::Nand::pages_per_program)), flash pages without a requested
/// unit are not read. If it fills one, all units count for part 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct Wanted(u64);

const BITS: u32 = u64::BITS / Wanted::PARTS_MOST as u32;

impl Wanted {
    /// Most flash pages that one program fills.
    pub const PARTS_MOST: usize = 4;

    /// No unit: the read is of the out-of-band area of each flash page.
    pub const NONE: Self = Self(0);

    /// `units` units of the first flash page; fewer than 65,536.
    #[inline(always)]
    pub fn first(units: u32) -> Self {
        debug_assert!(units < 1 << BITS, "{units} units of one page");
        Self(units.into())
    }

    /// Adds one unit of flash page `part`, from 0.
    #[inline(always)]
    pub fn add(&mut self, part: u32) {
        self.0 += 1 << (BITS * part);
    }

    /// Units of flash page `part`.
    #[inline(always)]
    pub fn of(&self, part: u32) -> u32 {
        (self.0 >> (BITS * part)) as u32 & ((1 << BITS) - 1)
    }

    /// Units of all flash pages together.
    pub fn total(&self) -> u32 {
        (0..Self::PARTS_MOST as u32).map(|part| self.of(part)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_by_flash_page() {
        let mut wanted = Wanted::first(2047);
        [0, 1, 3, 3].into_iter().for_each(|part| wanted.add(part));
        assert_eq!([0, 1, 2, 3].map(|part| wanted.of(part)), [2048, 1, 0, 2]);
        assert_eq!((wanted.total(), Wanted::NONE.total()), (2051, 0));
    }
}
