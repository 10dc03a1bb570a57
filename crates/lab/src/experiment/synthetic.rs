use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_types::{defaults, is_default};
use strobe_workload::synthetic::SyntheticConfig;

use super::pace::PaceConfig;

/// Most bytes outstanding of all jobs that run together: each outstanding mapping unit takes memory.
const OUTSTANDING_BYTES_MAX: u64 = 1 << 30;

defaults! {
    /// Queue depth and request rate.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct HostConfig {
        /// Most requests outstanding at any time. Without a rate, this number is always outstanding. At most 1 GiB
        /// divided by block_bytes. Default 1. fio: `iodepth`.
        #[schemars(range(min = 1, max = 65_536))]
        #[schemars(extend("x-needs" = {
            "pacing": [null, "closed"],
            "because": "without --closed-loop the times of the trace decide"
        }))]
        pub queue_depth: u32 = 1;
        /// Requests per second, arriving by rate_process and independent of the drive. A request that arrives
        /// while queue_depth requests are outstanding is issued when one of them completes, so the load
        /// catches up after a delay. Latency is counted from issue (clat_ns) and from arrival (lat_ns). For
        /// traces in closed loop: an upper limit, without catching up. 0 (default): no limit, at full speed.
        /// fio: `rate_iops`.
        #[schemars(range(min = 0, max = 1_000_000_000))]
        #[schemars(extend("x-needs" = {
            "pacing": [null, "closed"],
            "because": "without --closed-loop the times of the trace decide"
        }))]
        pub rate_iops: u32 = 0;
        /// Requests of a generator between two flushes. 0 (default): no
        /// flushes. fio: `fsync`, which counts writes only.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(range(min = 0, max = 4_294_967_295u32))]
        #[schemars(extend("x-needs" = {"kind": "not trace", "because": "a trace contains its own flushes"}))]
        pub flush_every: u32 = 0;
        /// Placement handle of the writes, below drive.ftl.placement.handles times groups. Handle h of
        /// reclaim group g is g * handles + h. Default 0. fio: `plids`.
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
    /// Varying arrival rates, arrival processes and pauses.
    #[serde(flatten)]
    pub pace: PaceConfig,
}

impl SyntheticWorkload {
    /// True if requests arrive independently of the drive (open loop).
    pub fn is_open_loop(&self) -> bool {
        self.host.rate_iops > 0 || !self.pace.rate_points.is_empty()
    }

    pub(super) fn outstanding_bytes(&self) -> u64 {
        u64::from(self.host.queue_depth) * u64::from(self.generator.largest_bytes())
    }

    pub(super) fn check(&self, path: &str) -> Result<(), KeyError> {
        self.pace.check(self.host.rate_iops, path)
    }

    /// Refuses the queue depth if `bytes`, outstanding in all jobs that run together, exceed the limit.
    pub(super) fn check_outstanding(&self, bytes: u64, path: &str) -> Result<(), KeyError> {
        if bytes <= OUTSTANDING_BYTES_MAX {
            return Ok(());
        }
        let allowed = format!(
            "less: {bytes} bytes would be outstanding, of all jobs that run together, and {OUTSTANDING_BYTES_MAX} \
             (1 GiB) are allowed; use smaller blocks or queue depths"
        );
        Err(KeyError::value(format!("{path}.queue_depth"), self.host.queue_depth.to_string(), allowed, ""))
    }
}
