//! The `[drive.nand.faults]` table: reads that fail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{defaults, is_default, is_one};

defaults! {
    /// Read errors that no retry corrects. A host read of such data ends with an unrecovered read error; the
    /// drive keeps working. The data stays unreadable when the drive relocates it, until the host overwrites
    /// or trims it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FaultsTable {
        /// Probability that a read of a flash page, by the host or by the drive itself, finds the page
        /// unreadable. It stays unreadable until its block is erased. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0.0, max = 1.0))]
        pub read_rate: f64 = 0.0;
        /// Planned read errors, each of a logical unit or a flash page at a given time. Default none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub at: Vec<FaultAt> = Vec::new();
    }
}

defaults! {
    /// A planned read error. Give unit, or block and page. If no data is stored there when the fault is due,
    /// the fault waits until data is stored.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FaultAt {
        /// Logical mapping unit, from 0, whose data on flash becomes unreadable.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 4_294_967_294u32))]
        pub unit: Option<u32> = None;
        /// Number of logical units, beginning with unit. Default 1.
        #[serde(skip_serializing_if = "is_one")]
        #[schemars(range(min = 1, max = 65_536))]
        pub units: u32 = 1;
        /// Flash block, from 0, with the unreadable flash page.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 4_294_967_294u32))]
        pub block: Option<u32> = None;
        /// Flash page in that block, from 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 65_535))]
        pub page: Option<u32> = None;
        /// Mapping units that the host writes before the fault occurs, warm-up included. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
        pub after_writes: u64 = 0;
        /// Earliest virtual time of the fault, in ns. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
        pub after_ns: u64 = 0;
        /// True if only the next read fails: a host read ends with an error, a read by the drive itself is
        /// repeated. Default false: the data is lost.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub transient: bool = false;
    }
}
