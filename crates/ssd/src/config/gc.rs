//! The `[drive.ftl.gc]` table: garbage collection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::GcStream;
use strobe_types::defaults;

/// When garbage collection is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcMode {
    /// In steps beside the host's work, paced so that the host gets the room that collection earns. A run without
    /// times, in which nothing can happen beside anything else, stops the world.
    #[default]
    Background,
    /// All at once when the host needs a block and too few are erased.
    StopTheWorld,
}

defaults! {
    /// Garbage collection.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct GcConfig {
        /// Victim policy: a name, or a formula such as "age * (1-u) / (1+u)^2", of which the block with
        /// the largest value is collected; see `strobe list policies` for both. Default greedy.
        pub victim: String = "greedy".to_owned();
        /// Blocks that the d-choices policy draws. Default 10.
        #[schemars(range(min = 1, max = 65_536))]
        pub choices: u32 = 10;
        /// Blocks, the ones closed first, among which windowed-greedy picks. Default 1000.
        #[schemars(range(min = 1, max = 16_777_216))]
        pub window: u32 = 1000;
        /// Destination of valid data: own or host. Default own.
        pub stream: GcStream = GcStream::Own;
        /// Collection starts when fewer erased blocks are left. Raised to the least that is safe, one
        /// per plane and two more, if it is lower. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub min_free_blocks: u32 = 0;
        /// When collection is done: background or stop-the-world. Default background.
        pub mode: GcMode = GcMode::Background;
        /// In the background, victims are chosen while there is room for fewer blocks than this: erased ones, and what
        /// is left of open ones. 0: as many as suit the drive. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub soft_blocks: u32 = 0;
        /// In the background, host writes wait for what collection earns while there is room for fewer blocks than this.
        /// 0: as many as suit the drive. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub pace_blocks: u32 = 0;
        /// Victims that are emptied in the background at once, at `pace_blocks` of room; the more room there is, the
        /// fewer, down to none at `soft_blocks`. 0: one for each die. Default 0.
        #[schemars(range(min = 0, max = 65_536))]
        pub victims: u32 = 0;
        /// Pages of a victim that are read at a time in the background: the next ones are read when these have arrived
        /// and, where that fills rows, are being programmed. What a host reads waits for fewer of them if they are few. 0:
        /// 8, or two for each plane of a die if that is more. Default 0.
        #[schemars(range(min = 0, max = 65_536))]
        pub read_pages: u32 = 0;
        /// Share of invalid units above which a block is collected after each page that the host writes, as in SepBIT's
        /// simulator: invalid units of full blocks, of all units written and not erased. Candidates have at least this share
        /// themselves. Collection for lack of erased blocks goes on as well. 0: only that. Default 0.
        #[serde(skip_serializing_if = "is_zero")]
        #[schemars(range(min = 0.0, max = 0.9))]
        pub garbage_share: f64 = 0.0;
        /// Blocks that one call gains at least. Default 1.
        #[schemars(range(min = 1, max = 16_777_216))]
        pub net_blocks: u32 = 1;
        /// Blocks that a collection has moved data to are filled with padding when it ends (cause pad), so that no two
        /// collections share a block. Default false.
        pub pad_moved: bool = false;
    }
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}
