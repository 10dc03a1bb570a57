use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{Isolation, StreamCounts};
use strobe_nand::NandOp;
use strobe_ssd::{DriveStats, Simulated};
use strobe_types::{Geometry, SECTOR_BYTES};

use crate::numbers::ratio;

/// One stream within a window: blocks that a placement keeps separate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StreamResult {
    /// Bytes that the host wrote or copied to the stream, counted as mapping units that left the write
    /// caches.
    pub host_bytes: u64,
    /// Bytes programmed in blocks of the stream, relocation and padding included. The sum over all streams is
    /// everything programmed, except the drive's own tables.
    pub media_bytes: u64,
    /// Blocks of the stream that were emptied.
    pub victims: u64,
    /// Share of still valid units in the emptied blocks, from 0 to 1; null if none was emptied.
    pub valid_at_collection: Option<f64>,
    /// Emptied blocks by age: mapping units that the host wrote since the block was full. Entry 0 is age 0,
    /// entry b is ages from 2^(b - 1) to below 2^b. Blocks found open or full after a power cut are not
    /// counted.
    pub ages_at_collection: Vec<u64>,
}

impl StreamResult {
    /// Streams of a window of `drive`, by number; `None` without a placement.
    pub fn all(stats: &DriveStats, drive: &dyn Simulated) -> Option<Vec<Self>> {
        let geometry = drive.geometry();
        let units_per_block = u64::from(geometry.units_per_block());
        let of = |counts: &StreamCounts| {
            let last = counts.ages.iter().rposition(|&blocks| blocks > 0).map_or(0, |last| last + 1);
            let (host_bytes, media_bytes) = bytes(counts, geometry);
            Self {
                host_bytes,
                media_bytes,
                victims: counts.victims,
                valid_at_collection: ratio(counts.units_left, counts.victims * units_per_block),
                ages_at_collection: counts.ages[..last].to_vec(),
            }
        };
        (!stats.streams.is_empty()).then(|| stats.streams.iter().map(of).collect())
    }
}

fn bytes(counts: &StreamCounts, geometry: &Geometry) -> (u64, u64) {
    let of_host = counts.host_units * u64::from(geometry.unit_bytes());
    (of_host, counts.pages * u64::from(geometry.page_bytes()))
}

/// Placement handles within a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlesResult {
    /// Bytes of a reclaim unit.
    pub unit_bytes: u64,
    /// Reclaim groups; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u16>,
    /// Bytes that the host wrote to a reclaim group without free space, redirected to another group; present
    /// with several groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirected_bytes: Option<u64>,
    /// Each handle, by number; with several reclaim groups, handles of group 0 first, then group 1 and so on.
    pub handles: Vec<HandleResult>,
    /// Bytes programmed for no single handle: relocated data of initially isolated handles, the map, wear
    /// levelling. Together with the bytes of all handles it is everything programmed.
    pub shared_media_bytes: u64,
}

/// One placement handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandleResult {
    /// Bytes that the host wrote or copied, counted as mapping units that left the write caches.
    pub host_bytes: u64,
    /// Bytes programmed in blocks of the handle, relocation and padding included.
    pub media_bytes: u64,
}

impl HandlesResult {
    /// Result of a window of `drive`; `None` if the host does not choose streams by handle.
    pub fn of(stats: &DriveStats, drive: &dyn Simulated) -> Option<Self> {
        let (units, geometry) = (drive.reclaim_units()?, drive.geometry());
        let count = units.sectors_left.len();
        // Streams 0..count belong to the handles. The next ones hold relocated data: one per persistently
        // isolated handle, or one for all.
        let of = |handle: usize| {
            let moved = (units.isolation == Isolation::Persistent).then_some(count + handle);
            let streams = [Some(handle), moved].into_iter().flatten();
            let counts = streams.filter_map(|stream| stats.streams.get(stream));
            let (host_bytes, media_bytes) = counts
                .map(|counts| bytes(counts, geometry))
                .fold((0, 0), |sum, stream| (sum.0 + stream.0, sum.1 + stream.1));
            HandleResult { host_bytes, media_bytes }
        };
        let handles: Vec<HandleResult> = (0..count).map(of).collect();
        let own: u64 = handles.iter().map(|handle| handle.media_bytes).sum();
        let programmed = stats.nand.total(NandOp::Program) * u64::from(geometry.page_bytes());
        let redirected = stats.streams.iter().map(|counts| counts.redirected).sum::<u64>();
        let is_grouped = units.groups > 1;
        Some(Self {
            groups: is_grouped.then_some(units.groups),
            redirected_bytes: is_grouped.then_some(redirected * u64::from(geometry.unit_bytes())),
            unit_bytes: units.unit_sectors * SECTOR_BYTES,
            handles,
            shared_media_bytes: programmed.saturating_sub(own),
        })
    }
}
