//! Flash operations.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::{Cause, NandOp, OpCounts};
use strobe_ssd::DriveStats;
use strobe_types::is_default;

/// Flash operations by kind and cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NandResult {
    /// Page programs; with `drive.nand.pages_per_program` above 1 those of word lines, each one program.
    pub program: ByCause,
    /// Reads of flash pages.
    pub read: ByCause,
    /// Block erases.
    pub erase: ByCause,
    /// Page reads among those above that repeated one: read retry.
    pub read_retries: u64,
    /// Page reads that could not be corrected, by the host or by the drive itself. Left out if there were none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uncorrectable_reads: u64,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByCause {
    /// All of them: the sum of the causes.
    pub total: u64,
    /// Split by why they were done.
    pub by_cause: Causes,
}

/// One count for each cause, under its name.
macro_rules! causes {
    ($($(#[$about:meta])* $field:ident: $cause:ident,)+) => {
        /// One count per cause.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct Causes { $($(#[$about])* pub $field: u64,)+ }

        impl Causes {
            fn of(counts: &OpCounts, op: NandOp) -> Self {
                Self { $($field: counts.get(op, Cause::$cause),)+ }
            }

            /// Each count with the name of its cause.
            pub fn named(&self) -> [(&'static str, u64); Cause::ALL.len()] {
                [$((Cause::$cause.name(), self.$field)),+]
            }
        }
    };
}

causes! {
    /// Host commands, reads of read-modify-writes included.
    host: Host,
    /// Garbage collection.
    gc: Gc,
    /// Merges of block-mapped schemes.
    merge: Merge,
    /// Translation pages and map journal, but for those that count as `meta`.
    map: Map,
    /// The virtual map of logical copies: pages of the map's journal of which it is more than half, and those of checkpoints
    /// that it is a part of.
    meta: Meta,
    /// Wear levelling.
    wear: Wear,
    /// Physical copies for copy commands.
    copy: Copy,
    /// Write-back of a non-volatile cache.
    cache: Cache,
    /// Recovery.
    recovery: Recovery,
    /// Pages of padding only.
    pad: Pad,
    /// Owners' lists of full blocks (P2L), with `durable_map = "pages"`.
    p2l: P2l,
}

impl NandResult {
    /// Of a window.
    pub fn of(stats: &DriveStats) -> Self {
        let counts = &stats.nand;
        let by_cause = |op| ByCause { total: counts.total(op), by_cause: Causes::of(counts, op) };
        Self {
            program: by_cause(NandOp::Program),
            read: by_cause(NandOp::Read),
            erase: by_cause(NandOp::Erase),
            read_retries: stats.read_retries,
            uncorrectable_reads: stats.uncorrectable_reads,
        }
    }
}
