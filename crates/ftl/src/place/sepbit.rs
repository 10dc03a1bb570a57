//! Separation by estimated block invalidation time (SepBIT: Wang et al., FAST 2022).
//!
//! Time is counted in units written by the host. A unit's lifespan lasts from its write to the next write of
//! its address.
//!
//! 1. A unit written by the host replaces a version of age v, and is expected to live as long. If v < ℓ, it
//!    enters stream 0 (short-lived), else 1.
//! 2. A unit relocated from stream 0 enters stream 2.
//! 3. Any other relocated unit has reached age g, and is expected to live that long again. If g < 4 ℓ, it
//!    enters stream 3; if g < 16 ℓ, 4; and so on. The last stream takes the rest.
//! 4. ℓ is the mean lifespan, from opening to collection, of the last 16 collected blocks of stream 0;
//!    infinite until then.
//!
//! Instead of all write times, the paper keeps a queue of recent addresses; only these can be short-lived.
//! Here the queue is the last `recent` writes, limited by ℓ and by the number of units ever written. It
//! shrinks by at most one entry per write.
//!
//! The paper also measures each half alone. UW separates user writes: steps 1 and 2, all relocated units in
//! stream 2. It is SepBIT with 3 streams. GW separates GC writes: the host has stream 0, which defines ℓ, and
//! step 3 begins with stream 1.
//!
//! Example: docs/MODEL.md, "Data placement".

use strobe_types::{BlockId, Geometry, Lpn, State, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

/// Collected blocks per new ℓ.
const BLOCKS_FOR_MEAN: u64 = 16;

const SHORT: StreamId = StreamId::new(0);
const LONG: StreamId = StreamId::new(1);
const LEFT_OF_SHORT: StreamId = StreamId::new(2);

#[derive(Clone, Debug, State)]
pub(super) struct SepBit {
    #[state(skip)]
    streams: u8,
    #[state(skip)]
    separates_host: bool,
    /// First stream by age.
    #[state(skip)]
    by_age: u8,
    clock: u64,
    /// Logical units ever written.
    known: u64,
    /// Length of the queue.
    recent: u64,
    /// ℓ, if known.
    lifespan: Option<f64>,
    /// Blocks of stream 0 collected since the last ℓ.
    collected: u64,
    /// Sum of their lifespans.
    sum: u64,
    /// Time of each unit's last write; 0 if none.
    #[state(table)]
    last_write: Vec<u64>,
    #[state(table)]
    opened: Vec<u64>,
}

impl SepBit {
    pub(super) fn new(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        // With 3 streams, none is left for separation by age (UW).
        Self::with(streams, true, LEFT_OF_SHORT.get() + u8::from(streams > 3), logical_units, geometry)
    }

    /// Relocated units only (GW), with 2 or more streams.
    pub(super) fn of_copies(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        Self::with(streams, false, 1, logical_units, geometry)
    }

    fn with(streams: u8, separates_host: bool, by_age: u8, logical_units: u32, geometry: &Geometry) -> Self {
        Self {
            streams,
            separates_host,
            by_age,
            clock: 0,
            last_write: vec![0; logical_units as usize],
            opened: vec![0; geometry.blocks() as usize],
            known: 0,
            recent: 0,
            lifespan: None,
            collected: 0,
            sum: 0,
        }
    }

    pub(super) fn bytes(logical_units: u32, geometry: &Geometry) -> u64 {
        8 * (u64::from(logical_units) + u64::from(geometry.blocks()))
    }

    fn lifespan(&self) -> f64 {
        self.lifespan.unwrap_or(f64::INFINITY)
    }
}

impl Placement for SepBit {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() == self.streams - 1
    }

    fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.last_write, lpn.index());
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        self.clock += 1;
        let last = std::mem::replace(&mut self.last_write[lpn.index()], self.clock);
        self.known += u64::from(last == 0);
        let age = (self.clock - last) as f64;
        let is_short = last > 0 && age < self.lifespan().min(self.recent as f64);
        // The write enters the queue; up to two old entries leave it.
        self.recent += 1;
        if self.recent as f64 > self.lifespan().min(self.known as f64) {
            self.recent -= 1;
        }
        if self.recent as f64 > self.lifespan() {
            self.recent -= 1;
        }
        if is_short || !self.separates_host { SHORT } else { LONG }
    }

    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId {
        if self.separates_host && from.stream == Some(SHORT) {
            return LEFT_OF_SHORT;
        }
        let age = (self.clock - self.last_write[lpn.index()]) as f64;
        // Each further stream covers four times the age. An unknown ℓ is infinite: the first stream takes
        // all.
        let mut limit = 4.0 * self.lifespan();
        let mut stream = self.by_age;
        while stream + 1 < self.streams && age >= limit {
            limit *= 4.0;
            stream += 1;
        }
        StreamId::new(stream)
    }

    fn on_opened(&mut self, block: BlockId, _: StreamId, _: u64) {
        self.opened[block.index()] = self.clock;
    }

    fn on_collected(&mut self, from: &CopyContext) {
        if from.stream != Some(SHORT) {
            return;
        }
        self.collected += 1;
        self.sum += self.clock - self.opened[from.block.index()];
        if self.collected == BLOCKS_FOR_MEAN {
            self.lifespan = Some(self.sum as f64 / self.collected as f64);
            (self.collected, self.sum) = (0, 0);
        }
    }

    by_state!();
}
