//! Host requests of generators and traces, and sector ranges of commands.

use crate::{Lba, SECTOR_BYTES, Stored, named};

named! {
    /// Kind of a host request.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Stored)]
    #[repr(u8)]
    pub enum Op {
        /// Read sectors.
        Read => "read",
        /// Write sectors.
        Write => "write",
        /// Deallocate sectors (TRIM, discard, DSM).
        Trim => "trim",
        /// Make all completed writes durable. Has no range.
        Flush => "flush",
    }
}

/// A host request. 16 bytes, to keep batches small in the processor cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Stored)]
pub struct Request {
    /// First sector; ignored for [`Op::Flush`].
    pub lba: Lba,
    /// Number of sectors; 0 only for [`Op::Flush`].
    pub sectors: u32,
    /// Operation.
    pub op: Op,
    /// Placement handle of a write (FDP); 0 if the host gives none.
    pub handle: u16,
}

impl Request {
    /// A request for `sectors` sectors from `lba`.
    #[inline(always)]
    pub const fn new(op: Op, lba: Lba, sectors: u32) -> Self {
        Self { lba, sectors, op, handle: 0 }
    }

    /// The request with a placement handle.
    #[inline(always)]
    pub const fn placed(self, handle: u16) -> Self {
        Self { handle, ..self }
    }

    /// A flush.
    pub const FLUSH: Self = Self { lba: Lba::new(0), sectors: 0, op: Op::Flush, handle: 0 };
}

/// A run of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Range {
    /// First sector.
    pub lba: Lba,
    /// Length in sectors.
    pub sectors: u32,
}

impl Range {
    /// The `sectors` sectors from `lba` on.
    pub const fn new(lba: Lba, sectors: u32) -> Self {
        Self { lba, sectors }
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR_BYTES
    }
}
