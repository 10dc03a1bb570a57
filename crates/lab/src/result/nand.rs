//! What was done on flash.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::{Cause, NandOp, OpCounts};

/// Flash operations by kind and cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NandResult {
    /// Page programs.
    pub program: ByCause,
    /// Page reads.
    pub read: ByCause,
    /// Block erases.
    pub erase: ByCause,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByCause {
    /// All of them: the sum of the causes.
    pub total: u64,
    /// Split by why they were done.
    pub by_cause: Causes,
}

/// One count per cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Causes {
    /// Host commands, reads of read-modify-writes included.
    pub host: u64,
    /// Garbage collection.
    pub gc: u64,
    /// Merges of block-mapped schemes.
    pub merge: u64,
    /// Translation pages and map journal.
    pub map: u64,
    /// Other metadata.
    pub meta: u64,
    /// Wear levelling.
    pub wear: u64,
    /// Physical copies for copy commands.
    pub copy: u64,
    /// Write-back of a non-volatile cache.
    pub cache: u64,
    /// Recovery.
    pub recovery: u64,
    /// Pages of padding only.
    pub pad: u64,
}

impl NandResult {
    pub(crate) fn of(counts: &OpCounts) -> Self {
        let by_cause = |op| {
            let get = |cause| counts.get(op, cause);
            ByCause {
                total: counts.total(op),
                by_cause: Causes {
                    host: get(Cause::Host),
                    gc: get(Cause::Gc),
                    merge: get(Cause::Merge),
                    map: get(Cause::Map),
                    meta: get(Cause::Meta),
                    wear: get(Cause::Wear),
                    copy: get(Cause::Copy),
                    cache: get(Cause::Cache),
                    recovery: get(Cause::Recovery),
                    pad: get(Cause::Pad),
                },
            }
        };
        Self {
            program: by_cause(NandOp::Program),
            read: by_cause(NandOp::Read),
            erase: by_cause(NandOp::Erase),
        }
    }
}
