//! Clusters of rewrite intervals (WARCIP: Yang, Pei & Yang, "WARCIP: write amplification reduction by
//! clustering I/O pages", SYSTOR 2019), as in SepBIT's simulator.
//!
//! Time is counted in units written by the host. Each cluster has a centre, which is an interval, and a
//! stream. The last stream takes all relocated units.
//!
//! 1. The interval of a written unit is the time since its last write plus its penalty, or 0 at its first
//!    write. The penalty is then reset.
//! 2. The unit joins the cluster with the nearest centre; of equals, the last. The centre becomes the mean
//!    interval of the units in the cluster's open block.
//! 3. A relocation sets the penalty to the time since the unit's last write.
//! 4. Every 256 full host blocks, a cluster with more than half of the writes is split if a stream is free.
//!    The new cluster precedes it, with a centre midway between its neighbours (0 before the first). Without
//!    a split, the first cluster with less than a block of writes is marked, unless one is already marked.
//! 5. A marked cluster is dropped when its open block is full, unless it is the only one.
//!
//! Memory: 16 bytes per logical unit.

use strobe_types::{Geometry, Lpn, State, Stored, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

const BLOCKS_PER_ROUND: u32 = 256;

#[derive(Clone, Debug, Stored)]
struct Cluster {
    stream: StreamId,
    centre: f64,
    /// Units in its open block.
    filled: u64,
    writes: u64,
    is_marked: bool,
}

#[derive(Clone, Debug, State)]
pub(super) struct Warcip {
    #[state(skip)]
    copies: StreamId,
    #[state(skip)]
    units_per_block: u64,
    clock: u64,
    clusters: Vec<Cluster>,
    closed: u32,
    #[state(table)]
    last_write: Vec<u64>,
    #[state(table)]
    penalty: Vec<u64>,
}

impl Warcip {
    pub(super) fn new(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        let cluster = |stream| Cluster {
            stream: StreamId::new(stream),
            centre: 0.0,
            filled: 0,
            writes: 0,
            is_marked: false,
        };
        Self {
            copies: StreamId::new(streams - 1),
            units_per_block: geometry.units_per_block().into(),
            clock: 0,
            last_write: vec![0; logical_units as usize],
            penalty: vec![0; logical_units as usize],
            clusters: (0..streams - 1).map(cluster).collect(),
            closed: 0,
        }
    }

    fn adapt(&mut self) {
        let writes: u64 = self.clusters.iter().map(|cluster| cluster.writes).sum();
        // Step 4: split the large cluster, or mark a small one.
        let large = self.clusters.iter().position(|cluster| cluster.writes > writes / 2);
        match (large, self.free_stream()) {
            (Some(at), Some(stream)) => {
                let before = at.checked_sub(1).map_or(0.0, |before| self.clusters[before].centre);
                let centre = (before + self.clusters[at].centre) / 2.0;
                let cluster = Cluster { stream, centre, filled: 0, writes: 0, is_marked: false };
                self.clusters.insert(at, cluster);
            }
            _ if self.clusters.iter().any(|cluster| cluster.is_marked) => {}
            _ => {
                let is_small = |cluster: &&mut Cluster| cluster.writes < self.units_per_block;
                if let Some(small) = self.clusters.iter_mut().find(is_small) {
                    small.is_marked = true;
                }
            }
        }
        self.clusters.iter_mut().for_each(|cluster| cluster.writes = 0);
    }

    fn free_stream(&self) -> Option<StreamId> {
        let is_free = |stream: &StreamId| self.clusters.iter().all(|cluster| cluster.stream != *stream);
        (0..self.copies.get()).map(StreamId::new).find(is_free)
    }
}

impl Placement for Warcip {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream == self.copies
    }

    fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.last_write, lpn.index());
        prefetch_write(&self.penalty, lpn.index());
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        self.clock += 1;
        let last = std::mem::replace(&mut self.last_write[lpn.index()], self.clock);
        let penalty = std::mem::take(&mut self.penalty[lpn.index()]);
        let interval = if last == 0 { 0 } else { self.clock - last + penalty } as f64;
        let distance = |cluster: &Cluster| (cluster.centre - interval).abs();
        // In reverse: of equals, the last cluster wins.
        let nearest = self.clusters.iter_mut().rev().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let Some(cluster) = nearest else { return StreamId::new(0) };
        cluster.centre = (cluster.centre * cluster.filled as f64 + interval) / (cluster.filled + 1) as f64;
        cluster.filled += 1;
        cluster.writes += 1;
        cluster.stream
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        let last = self.last_write[lpn.index()];
        self.penalty[lpn.index()] = if last == 0 { 0 } else { self.clock - last };
        self.copies
    }

    fn on_closed(&mut self, closed: &CopyContext) {
        let Some(stream) = closed.stream.filter(|&stream| stream < self.copies) else { return };
        if let Some(at) = self.clusters.iter().position(|cluster| cluster.stream == stream) {
            self.clusters[at].filled = 0;
            // A marked cluster is dropped here because its open block is full. The only cluster is kept.
            if self.clusters[at].is_marked && self.clusters.len() > 1 {
                self.clusters.remove(at);
            }
        }
        self.closed += 1;
        if self.closed == BLOCKS_PER_ROUND {
            self.closed = 0;
            self.adapt();
        }
    }

    by_state!();
}
