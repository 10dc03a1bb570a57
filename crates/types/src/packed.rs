//! Stored forms of optional addresses.

use zerocopy::FromZeros;

use crate::{Ppa, Stored};

/// `Option<Ppa>` in four bytes, as kept in a mapping table.
///
/// Zero means unmapped. So the table of a terabyte drive starts as untouched zero pages, and takes memory
/// only for written parts. Zero costs one address: 2³² − 1 addresses can be packed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromZeros, Stored)]
#[repr(transparent)]
pub struct PackedPpa(u32);

impl PackedPpa {
    /// Unmapped.
    pub const NONE: Self = Self(0);

    /// Packs a mapped address.
    #[inline(always)]
    pub const fn some(ppa: Ppa) -> Self {
        Self(ppa.get() + 1)
    }

    /// The address, if mapped.
    #[inline(always)]
    pub const fn get(self) -> Option<Ppa> {
        match self.0 {
            0 => None,
            n => Some(Ppa::new(n - 1)),
        }
    }
}
