use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::{Cause, NandOp, OpCounts};
use strobe_ssd::DriveStats;
use strobe_types::is_default;

/// Flash operations by kind and cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NandResult {
    /// Page programs. With `drive.nand.pages_per_program` above 1, a word line counts as one program.
    pub program: ByCause,
    /// Reads of flash pages.
    pub read: ByCause,
    /// Block erases.
    pub erase: ByCause,
    /// Of `read`, repetitions of a page read: read retry.
    pub read_retries: u64,
    /// Uncorrectable page reads, for the host or for the drive itself. Absent if 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uncorrectable_reads: u64,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByCause {
    /// Sum of all causes.
    pub total: u64,
    /// Count by cause.
    pub by_cause: Causes,
}

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
    /// Host commands, including the reads of read-modify-writes.
    host: Host,
    /// Garbage collection.
    gc: Gc,
    /// Merges of block-mapped schemes.
    merge: Merge,
    /// Translation pages and map journal, except pages counted as `meta`.
    map: Map,
    /// Virtual map of logical copies: journal pages that are more than half filled with it, and pages of
    /// checkpoints that contain it.
    meta: Meta,
    /// Wear levelling.
    wear: Wear,
    /// Physical copies for copy commands.
    copy: Copy,
    /// Write-back of a non-volatile cache.
    cache: Cache,
    /// Recovery.
    recovery: Recovery,
    /// Pages that contain only padding.
    pad: Pad,
    /// Owner lists of full blocks (P2L), with `durable_map = "pages"`.
    p2l: P2l,
}

impl NandResult {
    /// Result of a window.
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
