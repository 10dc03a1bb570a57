//! A generator and its host: what `[workload]` and each of `[[jobs]]` may say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_types::{defaults, is_default};
use strobe_workload::synthetic::SyntheticConfig;

use super::pace::PaceConfig;

defaults! {
    /// Queue depth and request rate.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct HostConfig {
        /// Most requests outstanding at any time (fio: iodepth); without a rate that many always are. Default 1.
        #[schemars(range(min = 1, max = 65_536))]
        pub queue_depth: u32 = 1;
        /// Requests per second (fio: rate_iops), which arrive by rate_process whatever the drive does. A
        /// request that arrives while queue_depth are outstanding is issued as soon as one completes, so that a
        /// delay is caught up with. Latency is counted from its issue (clat_ns) and from its arrival (lat_ns).
        /// For traces in closed loop: an upper limit, and no delay is caught up with. 0 (default): no limit, as
        /// fast as the drive takes them.
        #[schemars(range(min = 0, max = 1_000_000_000))]
        pub rate_iops: u32 = 0;
        /// Requests of a generator between two flushes (fio: fsync, which counts writes only). Traces bring
        /// their own flushes. 0 (default): no flushes.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 4_294_967_295u32))]
        pub flush_every: u32 = 0;
        /// Placement handle of the writes (fio: plids), below drive.ftl.placement.handles times groups; handle h of reclaim
        /// group g is g * handles + h. Default 0.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 63))]
        pub placement_handle: u16 = 0;
    }
}

/// A synthetic workload and its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyntheticWorkload {
    /// The generator.
    #[serde(flatten)]
    pub generator: SyntheticConfig,
    /// The host.
    #[serde(flatten)]
    pub host: HostConfig,
    /// When requests come, beyond a constant rate.
    #[serde(flatten)]
    pub pace: PaceConfig,
}

impl SyntheticWorkload {
    /// True if requests arrive at their own times (open loop).
    pub fn is_open_loop(&self) -> bool {
        self.host.rate_iops > 0 || !self.pace.rate_points.is_empty()
    }

    /// Refuses what does not go together, in the table found under `path`.
    pub(super) fn check(&self, path: &str) -> Result<(), KeyError> {
        self.pace.check(self.host.rate_iops, path)
    }
}
