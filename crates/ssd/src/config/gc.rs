//! The `[drive.ftl.gc]` table: garbage collection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::GcStream;
use strobe_types::defaults;

/// Mode of garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcMode {
    /// Collects in steps concurrent with host work, and throttles host writes to the free space that it
    /// gains. A run without timing has no concurrency and always stops the world.
    #[default]
    Background,
    /// Collects all at once when the host needs a block and too few are erased.
    StopTheWorld,
}

defaults! {
    /// Garbage collection.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct GcConfig {
        /// Victim policy: a name, or a formula such as "age * (1-u) / (1+u)^2". A formula collects the block
        /// with the largest value. See `strobe list policies` for names and variables. Default greedy.
        pub victim: String = "greedy".to_owned();
        /// Blocks that the d-choices policy draws. Default 10.
        #[schemars(range(min = 1, max = 65_536))]
        #[schemars(extend("x-needs" = {"victim": ["d-choices"]}))]
        pub choices: u32 = 10;
        /// Window of windowed-greedy: number of candidate blocks, those closed first. Default 1000.
        #[schemars(range(min = 1, max = 16_777_216))]
        #[schemars(extend("x-needs" = {"victim": ["windowed-greedy"]}))]
        pub window: u32 = 1000;
        /// Destination of relocated data: own (a separate stream) or host (the stream of host writes).
        /// Default own.
        #[schemars(extend("x-needs" = {
            "drive.ftl.placement.scheme": [null, "none", "hot-cold", "sorted"],
            "because": "others define their own streams"
        }))]
        pub stream: GcStream = GcStream::Own;
        /// Erased blocks below which collection starts. A value that is too low to be safe is raised: to one
        /// block per plane plus two, or more if other features need it. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub min_free_blocks: u32 = 0;
        /// Mode of collection: background (in steps, concurrent with host work) or stop-the-world (all at
        /// once). Default background.
        pub mode: GcMode = GcMode::Background;
        /// High watermark of background collection: victims are chosen while free space is below this many
        /// blocks, or few blocks are erased. Free space is the erased blocks plus the unwritten part of open
        /// ones. 0: chosen to suit the drive. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        #[schemars(extend("x-needs" = {"mode": ["background"]}))]
        pub high_watermark_blocks: u32 = 0;
        /// Low watermark of background collection: while free space is at most this many blocks and victims are in
        /// progress, host writes wait for credit from collection. 0: chosen to suit the drive. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        #[schemars(extend("x-needs" = {"mode": ["background"]}))]
        pub low_watermark_blocks: u32 = 0;
        /// Victims that background collection empties concurrently when free space is at
        /// `low_watermark_blocks`. With more free space there are fewer, down to none at
        /// `high_watermark_blocks`. 0: one per die. Default 0.
        #[schemars(range(min = 0, max = 65_536))]
        #[schemars(extend("x-needs" = {"mode": ["background"]}))]
        pub victims: u32 = 0;
        /// Pages of a victim that background collection reads together. The next pages are read once these
        /// have arrived and the batches that they fill (drive.ftl.batch_pages) are being programmed. Small
        /// values shorten the wait of host reads. 0: 8, or two per plane of a die if that is more. Default 0.
        #[schemars(range(min = 0, max = 65_536))]
        #[schemars(extend("x-needs" = {"mode": ["background"]}))]
        pub read_pages: u32 = 0;
        /// Garbage threshold as in SepBIT's simulator: share of invalid units above which a block is
        /// collected after each page of host writes. The share is the invalid units of full blocks divided by
        /// all units written and not erased. Each victim has at least this share. Collection for lack of
        /// erased blocks still happens. 0: only the latter. Default 0.
        #[serde(skip_serializing_if = "is_zero")]
        #[schemars(range(min = 0.0, max = 0.9))]
        pub garbage_share: f64 = 0.0;
        /// Minimum number of erased blocks that one collection gains. Default 1.
        #[schemars(range(min = 1, max = 16_777_216))]
        pub net_blocks: u32 = 1;
        /// True if a collection ends by padding the blocks that it has partly filled (cause pad), so no two
        /// collections share a block. Default false.
        pub pad_moved: bool = false;
    }
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}
