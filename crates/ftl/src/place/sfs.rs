//! Clusters of hotness (SFS: Min, Kim, Cho, Lee & Eom, "SFS: random write considered harmful in solid state
//! drives", FAST 2012), as in SepBIT's simulator.
//!
//! Time is counted in units written by the host. A logical unit written c times, last at m, has the hotness
//! c/(now - m). A full block has the hotness Σc/(v now - Σm) over its v valid units. A block without valid
//! units is skipped.
//!
//! 1. Each collection first clusters the hotness of all full blocks: three rounds of k-means from the present
//!    centres (initially 0). A cluster without blocks gets the centre 0. With no more blocks than streams,
//!    the hotness of each block in turn becomes a centre. Centres are sorted, the hottest first.
//! 2. A unit written by the host uses the stream of the centre nearest to its hotness before the write. Of
//!    equals, the last. The hotness is infinite at the first write.
//! 3. A relocated unit uses the stream of the centre nearest to its hotness.
//!
//! SFS chooses victims by (1 - u)/(u hotness), which `drive.ftl.gc.victim` cannot express. Memory: 16 bytes
//! per logical unit and 24 per block.

use strobe_types::{BlockId, Geometry, Lpn, State, Stored};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

const ROUNDS: u32 = 3;
const HOTTEST: f64 = f64::MAX;
/// Block of unmapped units.
const NOWHERE: BlockId = BlockId::new(u32::MAX);

#[derive(Clone, Copy, Debug, Default, Stored)]
struct Sums {
    units: u32,
    writes: u64,
    last_writes: u64,
    is_full: bool,
}

#[derive(Clone, Debug, State)]
pub(super) struct Sfs {
    clock: u64,
    #[state(table)]
    writes: Vec<u32>,
    #[state(table)]
    last_write: Vec<u64>,
    #[state(table)]
    place: Vec<BlockId>,
    #[state(table)]
    blocks: Vec<Sums>,
    #[state(table)]
    centres: Vec<f64>,
}

impl Sfs {
    pub(super) fn new(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        Self {
            clock: 0,
            writes: vec![0; logical_units as usize],
            last_write: vec![0; logical_units as usize],
            place: vec![NOWHERE; logical_units as usize],
            blocks: vec![Sums::default(); geometry.blocks() as usize],
            centres: vec![0.0; streams.into()],
        }
    }

    pub(super) fn bytes(logical_units: u32, geometry: &Geometry) -> u64 {
        16 * u64::from(logical_units) + size_of::<Sums>() as u64 * u64::from(geometry.blocks())
    }

    fn leave(&mut self, lpn: Lpn) {
        let at = lpn.index();
        let place = std::mem::replace(&mut self.place[at], NOWHERE);
        if let Some(sums) = self.blocks.get_mut(place.index()) {
            sums.units -= 1;
            sums.writes -= u64::from(self.writes[at]);
            sums.last_writes -= self.last_write[at];
        }
    }

    /// `None` if the host has never written `lpn`.
    fn hotness(&self, lpn: Lpn) -> Option<f64> {
        let writes = self.writes[lpn.index()];
        (writes > 0).then(|| f64::from(writes) / (self.clock - self.last_write[lpn.index()]) as f64)
    }

    fn stream_of(&self, hotness: f64) -> StreamId {
        let last = self.centres.len() - 1;
        let at = nearest(self.centres.iter().rev(), hotness).map_or(0, |at| last - at);
        StreamId::new(at as u8)
    }

    fn cluster(&mut self) {
        let now = self.clock as f64;
        let is_known = |sums: &&Sums| sums.is_full && sums.units > 0;
        let hotness =
            |sums: &Sums| sums.writes as f64 / (f64::from(sums.units) * now - sums.last_writes as f64);
        let blocks: Vec<f64> = self.blocks.iter().filter(is_known).map(hotness).collect();
        if blocks.is_empty() {
            return;
        }
        if blocks.len() <= self.centres.len() {
            let centres = self.centres.iter_mut().zip(blocks.iter().cycle());
            centres.for_each(|(centre, &hotness)| *centre = hotness);
        } else {
            // k-means; an empty cluster gets the centre 0.
            for _ in 0..ROUNDS {
                let mut groups = vec![(0.0, 0_u32); self.centres.len()];
                for &hotness in &blocks {
                    let (sum, count) = &mut groups[nearest(self.centres.iter(), hotness).unwrap_or(0)];
                    *sum += hotness;
                    *count += 1;
                }
                for (centre, (sum, count)) in self.centres.iter_mut().zip(groups) {
                    *centre = if count == 0 { 0.0 } else { sum / f64::from(count) };
                }
            }
        }
        self.centres.sort_by(|a, b| b.total_cmp(a));
    }
}

/// Nearest centre; of equals, the first. `None` if no distance is finite.
fn nearest<'a>(centres: impl Iterator<Item = &'a f64>, hotness: f64) -> Option<usize> {
    let distances = centres.map(|centre| (centre - hotness).abs()).enumerate();
    let finite = distances.filter(|&(_, distance)| distance < f64::MAX);
    finite.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

impl Placement for Sfs {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.index() == self.centres.len() - 1
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        self.clock += 1;
        // The sums of the old block hold the old counts of the unit, so it leaves before they change.
        self.leave(lpn);
        let hotness = self.hotness(lpn).unwrap_or(HOTTEST);
        self.writes[lpn.index()] = self.writes[lpn.index()].saturating_add(1);
        self.last_write[lpn.index()] = self.clock;
        self.stream_of(hotness)
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        self.stream_of(self.hotness(lpn).unwrap_or(0.0))
    }

    fn on_placed(&mut self, lpns: &mut dyn Iterator<Item = Lpn>, block: BlockId) {
        for lpn in lpns {
            self.leave(lpn);
            let at = lpn.index();
            self.place[at] = block;
            let sums = &mut self.blocks[block.index()];
            sums.units += 1;
            sums.writes += u64::from(self.writes[at]);
            sums.last_writes += self.last_write[at];
        }
    }

    fn on_unmapped(&mut self, lpn: Lpn) {
        self.leave(lpn);
    }

    fn on_opened(&mut self, block: BlockId, _: StreamId, _: u64) {
        // After a power cut, a block may have been erased without being collected.
        self.blocks[block.index()].is_full = false;
    }

    fn on_closed(&mut self, closed: &CopyContext) {
        self.blocks[closed.block.index()].is_full = true;
    }

    fn on_victim(&mut self, _: &CopyContext, _: &mut dyn Iterator<Item = Lpn>) {
        self.cluster();
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.blocks[from.block.index()].is_full = false;
    }

    by_state!();
}
