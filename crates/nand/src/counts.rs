use strobe_types::{counters, named};

named! {
    /// Cause of a flash operation. Every operation has exactly one cause.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Cause {
        /// A host command, including the read of a read-modify-write.
        Host => "host",
        /// Garbage collection in a page-mapped scheme.
        Gc => "gc",
        /// Merge or fold in a block-mapped or hybrid scheme.
        Merge => "merge",
        /// Translation pages and map journal.
        Map => "map",
        /// Map work for logical copies: journal pages with mostly virtual-map records, and checkpoint pages
        /// with part of the virtual map.
        Meta => "meta",
        /// Wear levelling.
        Wear => "wear",
        /// Physical copy for a host copy command.
        Copy => "copy",
        /// Write-back of a non-volatile cache.
        Cache => "cache",
        /// Recovery after a power cut.
        Recovery => "recovery",
        /// Pages that hold nothing but padding.
        Pad => "pad",
        /// Owner lists of full blocks (P2L), with `durable_map = "pages"`.
        P2l => "p2l",
    }
}

named! {
    /// Kinds of flash operations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum NandOp {
        /// Page program.
        Program => "program",
        /// Page read.
        Read => "read",
        /// Block erase.
        Erase => "erase",
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

    pub(crate) fn take_back(&mut self, op: NandOp, cause: Cause) {
        self.done[op as usize][cause as usize] -= 1;
    }

    /// Operations of one kind and cause.
    pub fn get(&self, op: NandOp, cause: Cause) -> u64 {
        self.done[op as usize][cause as usize]
    }

    /// Operations of one kind.
    pub fn total(&self, op: NandOp) -> u64 {
        self.done[op as usize].iter().sum()
    }

    /// Programs and erases. Power cuts are numbered by this count: reads change nothing, so a cut during a
    /// read equals a cut before the next change.
    pub fn changes(&self) -> u64 {
        self.total(NandOp::Program) + self.total(NandOp::Erase)
    }
}
