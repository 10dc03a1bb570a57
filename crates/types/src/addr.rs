use crate::Stored;
use std::fmt;

/// Bytes of a host sector, the unit of [`Lba`]. Fixed at 512 as in ATA, SCSI, virtio-blk and all supported
/// trace formats.
pub const SECTOR_BYTES: u64 = 512;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $int:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// Wraps a raw number.
            #[inline(always)]
            pub const fn new(raw: $int) -> Self {
                Self(raw)
            }

            /// The raw number, for printing and for indexing a table by this address.
            #[inline(always)]
            pub const fn get(self) -> $int {
                self.0
            }

            /// The raw number as a slice index.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The address `count` further on.
            #[inline(always)]
            #[must_use]
            pub const fn plus(self, count: $int) -> Self {
                Self(self.0 + count)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

address!(
    /// Logical block address: a host sector of [`SECTOR_BYTES`] bytes.
    Lba, u64, "lba"
);
address!(
    /// Logical page number: a host mapping unit (`drive.ftl.mapping_unit_bytes`).
    Lpn, u32, "lpn"
);
address!(
    /// Physical page address: one mapping unit on flash. A flash page larger than the mapping unit holds
    /// several, numbered consecutively.
    Ppa, u32, "ppa"
);
address!(
    /// Physical page number: one flash page, the unit of read and program.
    Ppn, u32, "ppn"
);
address!(
    /// Erase block, the unit of erase. "Block" has no other meaning in Strobe.
    BlockId, u32, "b"
);
address!(
    /// Die (LUN): executes array operations one by one, on one or several planes.
    DieId, u32, "d"
);
address!(
    /// Channel: a bus shared by several dies.
    ChannelId, u32, "ch"
);
