//! Separation by estimated block invalidation time (SepBIT: Wang et al., FAST 2022).
//!
//! Time is counted in units that the host has written. The lifespan of a unit is the time from its write to the next
//! write of the same address.
//!
//! 1. A unit that the host writes takes the place of a version of age v. It is expected to live as long as that one
//!    did: below ℓ it goes to stream 0 (short-lived), else to stream 1.
//! 2. A unit relocated from a block of stream 0 goes to stream 2.
//! 3. Any other relocated unit has lived for an age g already, and is expected to live on for as long: it goes to
//!    stream 3 below 4 ℓ, to stream 4 below 16 ℓ, and so on, the last stream taking the rest.
//! 4. ℓ is the mean lifespan of the last 16 collected blocks of stream 0, from opening to collection. Until there are 16,
//!    it is infinite.
//!
//! The paper keeps the addresses of recent writes in a queue, so that step 1 needs no time for each address: only what is
//! in the queue can be short-lived. Each write adds one entry, so the queue is the last `recent` writes, and an address is
//! in it if its age is at most that. It has as many entries as there are valid units or as ℓ says, if that is less; it
//! shrinks by one entry a write.
//!
//! Each half alone, as the paper measures them:
//!
//! - UW separates user writes: steps 1 and 2, and stream 2 takes all that is relocated. It is SepBIT with 3 streams.
//! - GW separates GC writes: the host has stream 0, which ℓ is then the mean of, and step 3 begins with stream 1.
//!
//! Example with ℓ = 100: an address written at 1000 and again at 1060 is short-lived (60 < 100); written again at 1300 it
//! is not (240). Relocated at 1900, its age is 600: below 16 ℓ and not below 4 ℓ, so stream 4.

use strobe_types::{BlockId, Geometry, Lpn, State, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

/// Blocks of stream 0 whose lifespans make a new ℓ.
const BLOCKS_FOR_MEAN: u64 = 16;

/// Streams of the host: short-lived units and others. ℓ is the mean lifespan of blocks of the first.
const SHORT: StreamId = StreamId::new(0);
const LONG: StreamId = StreamId::new(1);
/// Stream of what is left of short-lived blocks.
const LEFT_OF_SHORT: StreamId = StreamId::new(2);

/// SepBIT, or one of its halves.
#[derive(Clone, Debug, State)]
pub(super) struct SepBit {
    #[state(skip)]
    streams: u8,
    /// True if host writes are separated.
    #[state(skip)]
    separates_host: bool,
    /// The first stream by age.
    #[state(skip)]
    by_age: u8,
    /// Units that the host has written.
    clock: u64,
    /// Logical units that the host has ever written.
    known: u64,
    /// Entries of the queue of recent writes.
    recent: u64,
    /// ℓ, if it is known.
    lifespan: Option<f64>,
    /// Blocks of stream 0 collected since the last ℓ, and the sum of their lifespans.
    collected: u64,
    sum: u64,
    /// Time of the host's last write of each logical unit; 0: never.
    #[state(table)]
    last_write: Vec<u64>,
    /// Time at which each block was opened.
    #[state(table)]
    opened: Vec<u64>,
}

impl SepBit {
    /// Separation of host writes, and of relocated units, into `streams` streams, 3 or more.
    pub(super) fn new(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        // With 3 streams nothing is left to tell apart by age (UW).
        Self::with(streams, true, LEFT_OF_SHORT.get() + u8::from(streams > 3), logical_units, geometry)
    }

    /// Separation of relocated units alone (GW) into `streams` streams, 2 or more.
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

    /// Bytes of host memory.
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
        // The write enters the queue; up to two old ones leave it.
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
