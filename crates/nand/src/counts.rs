//! Operation counters.

use strobe_types::counters;

/// Why a flash operation was done. Every operation has exactly one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// A host command, including the read of a read-modify-write.
    Host,
    /// Garbage collection in a page-mapped scheme.
    Gc,
    /// Merge or fold in a block-mapped or hybrid scheme.
    Merge,
    /// Translation pages and map journal.
    Map,
    /// Other persistent metadata of the FTL.
    Meta,
    /// Wear levelling.
    Wear,
    /// Physical copy for a host copy command.
    Copy,
    /// Write-back of a non-volatile cache.
    Cache,
    /// Recovery after a power cut.
    Recovery,
    /// Pages that hold nothing but padding.
    Pad,
}

impl Cause {
    /// Every cause, in the order of the result schema.
    pub const ALL: [Cause; 10] = [
        Cause::Host,
        Cause::Gc,
        Cause::Merge,
        Cause::Map,
        Cause::Meta,
        Cause::Wear,
        Cause::Copy,
        Cause::Cache,
        Cause::Recovery,
        Cause::Pad,
    ];

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Gc => "gc",
            Cause::Merge => "merge",
            Cause::Map => "map",
            Cause::Meta => "meta",
            Cause::Wear => "wear",
            Cause::Copy => "copy",
            Cause::Cache => "cache",
            Cause::Recovery => "recovery",
            Cause::Pad => "pad",
        }
    }
}

/// The three things flash can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NandOp {
    /// Page program.
    Program,
    /// Page read.
    Read,
    /// Block erase.
    Erase,
}

impl NandOp {
    /// Every operation, in the order of the result schema.
    pub const ALL: [NandOp; 3] = [NandOp::Program, NandOp::Read, NandOp::Erase];

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            NandOp::Program => "program",
            NandOp::Read => "read",
            NandOp::Erase => "erase",
        }
    }
}

counters! {
    /// Flash operations by kind and cause, in whole operations.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OpCounts {
        done: [[u64; Cause::ALL.len()]; NandOp::ALL.len()],
    }
}

impl OpCounts {
    /// Counts one operation.
    #[inline(always)]
    pub fn add(&mut self, op: NandOp, cause: Cause) {
        self.add_many(op, cause, 1);
    }

    /// Counts `count` operations.
    #[inline(always)]
    pub fn add_many(&mut self, op: NandOp, cause: Cause, count: u64) {
        self.done[op as usize][cause as usize] += count;
    }

    /// Operations of one kind and cause.
    pub fn get(&self, op: NandOp, cause: Cause) -> u64 {
        self.done[op as usize][cause as usize]
    }

    /// Operations of one kind.
    pub fn total(&self, op: NandOp) -> u64 {
        self.done[op as usize].iter().sum()
    }

    /// Programs and erases: what power cuts are numbered by. Reads change nothing, so a cut during one is a
    /// cut before the next change.
    pub fn changes(&self) -> u64 {
        self.total(NandOp::Program) + self.total(NandOp::Erase)
    }
}
