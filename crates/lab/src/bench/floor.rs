use strobe_types::{Prng, prefetch_write};

/// Array sizes of a page-mapped drive.
#[derive(Clone, Copy, Debug)]
pub struct FloorShape {
    /// Map entries.
    pub logical_units: u32,
    /// Units on flash.
    pub physical_units: u32,
    /// Units per block.
    pub units_per_block: u32,
}

/// Loop that does only the memory work of a program on a page-mapped drive.
///
/// Each update replaces a random 4-byte map entry, flips the validity bits of the old and new unit, and
/// adjusts their blocks' counters. It also writes an out-of-band entry. Free blocks and garbage collection
/// are left out. Random numbers are drawn outside the timed part, and map lines are prefetched, as in the
/// drive itself.
#[derive(Debug)]
pub struct Floor {
    shape: FloorShape,
    shift: u32,
    map: Vec<u32>,
    out_of_band: Vec<u32>,
    bits: Vec<u64>,
    counters: Vec<u32>,
    frontier: u32,
}

impl Floor {
    /// Allocates and touches the arrays. `units_per_block` must be a power of two.
    pub fn new(shape: FloorShape) -> Self {
        assert!(shape.units_per_block.is_power_of_two(), "the floor divides by shifting");
        Self {
            shift: shape.units_per_block.trailing_zeros(),
            map: (0..shape.logical_units).collect(),
            out_of_band: vec![1; shape.physical_units as usize],
            bits: vec![u64::MAX; shape.physical_units as usize / 64 + 1],
            counters: vec![
                shape.units_per_block;
                (shape.physical_units / shape.units_per_block) as usize + 1
            ],
            frontier: 0,
            shape,
        }
    }

    /// Fills `batch` with random map indices.
    pub fn draw(&self, batch: &mut [u32], rng: &mut Prng) {
        batch.fill_with(|| rng.below(self.shape.logical_units));
    }

    /// Does one update per entry of `batch`: the timed loop.
    pub fn run(&mut self, batch: &[u32]) {
        for (at, &lpn) in batch.iter().enumerate() {
            // The map entry is prefetched earlier, because it gives the address of the validity bits.
            if let Some(&ahead) = batch.get(at + 24) {
                prefetch_write(&self.map, ahead as usize);
            }
            if let Some(&ahead) = batch.get(at + 10) {
                prefetch_write(&self.bits, self.map[ahead as usize] as usize / 64);
            }
            let new = self.frontier;
            self.frontier = if new + 1 == self.shape.physical_units { 0 } else { new + 1 };
            let old = std::mem::replace(&mut self.map[lpn as usize], new);
            self.bits[old as usize / 64] ^= 1 << (old % 64);
            self.bits[new as usize / 64] ^= 1 << (new % 64);
            let dead = &mut self.counters[(old >> self.shift) as usize];
            *dead = dead.wrapping_sub(1);
            let live = &mut self.counters[(new >> self.shift) as usize];
            *live = live.wrapping_add(1);
            self.out_of_band[new as usize] = lpn;
        }
    }

    /// Digest of all arrays; it keeps the compiler from removing the work.
    pub fn digest(&self) -> u64 {
        let bits: u64 = self.bits.iter().fold(0, |a, b| a.rotate_left(1) ^ b);
        let counters: u64 = self.counters.iter().map(|&c| u64::from(c)).fold(0, u64::wrapping_add);
        bits ^ counters ^ u64::from(self.out_of_band[self.frontier as usize])
    }
}
