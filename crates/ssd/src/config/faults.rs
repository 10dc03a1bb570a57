//! The `[drive.nand.faults]` table: reads that fail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{defaults, is_default, is_one};

defaults! {
    /// Reads that fail: data that no retry corrects. A host read of it ends with an unrecovered read error; everything else
    /// goes on. Data that cannot be read stays so when the drive moves it, until the host overwrites or trims it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FaultsTable {
        /// Probability that a read of a flash page, by the host or by the drive itself, finds that the page cannot be
        /// read, from then until its block is erased. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0.0, max = 1.0))]
        pub read_rate: f64 = 0.0;
        /// Faults at given places and times, each a logical unit or a flash page. Default none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub at: Vec<FaultAt> = Vec::new();
    }
}

defaults! {
    /// Data that cannot be read from some moment on. Give unit, or block and page. Where nothing is stored at that moment,
    /// the fault waits until something is.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FaultAt {
        /// Logical mapping unit, from 0: its data on flash cannot be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 4_294_967_294u32))]
        pub unit: Option<u32> = None;
        /// Logical units from unit on. Default 1.
        #[serde(skip_serializing_if = "is_one")]
        #[schemars(range(min = 1, max = 65_536))]
        pub units: u32 = 1;
        /// Flash block, from 0, of the flash page that cannot be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 4_294_967_294u32))]
        pub block: Option<u32> = None;
        /// Flash page in that block, from 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 65_535))]
        pub page: Option<u32> = None;
        /// The fault comes once the host has written so many mapping units, warm-up included. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
        pub after_writes: u64 = 0;
        /// The fault comes at this virtual time, in ns. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
        pub after_ns: u64 = 0;
        /// True if only the next read fails: one of the host with an error, one of the drive is repeated. Default false: the data is lost.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub transient: bool = false;
    }
}
