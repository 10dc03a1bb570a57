//! The victims of 2R (Kang, Choi, Oh & Lee, "2R: Efficiently Isolating Cold Pages in Flash Storages", PVLDB 2020), as
//! SSD-iq's simulator has them (Haas, Lee, Bonnet & Leis, PVLDB 2025).
//!
//! 1. Victims are chosen in batches. A batch ends when its victims have as many invalid units as a block has units:
//!    emptying all of them gains a block.
//! 2. [`TwoRegions`] (2R-Greedy) takes the whole batch from one region. Normal blocks were filled by the host, cold ones
//!    by relocation.
//! 3. [`SecondChance`](super::SecondChance) (2R-FIFO) passes over the blocks in the order in which they were filled.
//! 4. A batch is emptied in reverse. So the units of its first victims share the block that the host goes on in
//!    ([`Placement::hands_over`](crate::Placement::hands_over)): these victims are the emptiest, and their units the
//!    likeliest to be overwritten soon.
//!
//! Example with 8 units in a block: normal blocks with 3, 5 and 6 valid units, cold ones with 6 and 7. All cold blocks
//! together have 3 invalid units, so the batch is of the normal region: 5 + 3 invalid units are 8, two victims. The one
//! with 5 valid units is emptied first.

use strobe_types::{BlockId, Ppa, Prng, State};

use super::greedy::Greedy;
use super::{BlockView, VictimPolicy};

/// The blocks of a region, and their invalid units.
#[derive(Clone, Debug, State)]
struct Region {
    blocks: Greedy,
    invalid: u64,
}

impl Region {
    fn new(blocks: u32) -> Self {
        Self { blocks: Greedy::new(blocks), invalid: 0 }
    }
}

/// Greedy in one of two regions. A region with fewer invalid units than a block has units is passed over; otherwise the
/// one whose best block has fewer valid units is chosen, of equals the cold one.
#[derive(Clone, Debug, State)]
pub struct TwoRegions {
    /// Streams that the host writes: blocks of any other are cold.
    #[state(skip)]
    host_streams: u8,
    /// Full blocks whose stream has not been looked at yet, in closing order.
    fresh: Vec<BlockId>,
    normal: Region,
    cold: Region,
    /// Place of each block.
    #[state(table)]
    places: Vec<u8>,
    /// Invalid units of each block of a region.
    #[state(table)]
    invalid: Vec<u32>,
    /// Victims to come, the next one last.
    batch: Vec<BlockId>,
}

/// Places of a block: none of a region, or one of them.
const ELSEWHERE: u8 = 0;
const NORMAL: u8 = 1;
const COLD: u8 = 2;

impl TwoRegions {
    /// An index for `blocks` blocks. Blocks of streams from `host_streams` on are cold.
    pub fn new(blocks: u32, host_streams: u8) -> Self {
        let (normal, cold) = (Region::new(blocks), Region::new(blocks));
        let (places, invalid) = (vec![ELSEWHERE; blocks as usize], vec![0; blocks as usize]);
        Self { host_streams, fresh: Vec::new(), normal, cold, places, invalid, batch: Vec::new() }
    }

    fn region(&mut self, place: u8) -> &mut Region {
        if place == COLD { &mut self.cold } else { &mut self.normal }
    }

    /// Puts full blocks into their regions.
    fn sort_fresh(&mut self, view: &BlockView<'_>) {
        for block in std::mem::take(&mut self.fresh) {
            let is_cold = view.stream(block).is_some_and(|stream| stream.get() >= self.host_streams);
            let place = if is_cold { COLD } else { NORMAL };
            let valid = view.valid(block);
            let invalid = view.units_per_block() - valid;
            (self.places[block.index()], self.invalid[block.index()]) = (place, invalid);
            let region = self.region(place);
            region.blocks.closed(block, valid, view.tick());
            region.invalid += u64::from(invalid);
        }
    }

    /// Takes `block` out of its region.
    fn leave(&mut self, block: BlockId) {
        let place = std::mem::replace(&mut self.places[block.index()], ELSEWHERE);
        let invalid = self.invalid[block.index()];
        let region = self.region(place);
        region.blocks.taken(block);
        region.invalid -= u64::from(invalid);
    }

    /// The block of `place` with the fewest valid units, if it has an invalid one.
    fn best(&mut self, place: u8, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        let best = self.region(place).blocks.choose(view, rng)?;
        (self.invalid[best.index()] > 0).then_some(best)
    }

    /// The region of the next batch.
    fn choose_region(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> u8 {
        let units = u64::from(view.units_per_block());
        if self.cold.invalid < units {
            return NORMAL;
        }
        if self.normal.invalid < units {
            return COLD;
        }
        let valid = |best: Option<BlockId>| best.map(|block| view.valid(block));
        let (normal, cold) = (valid(self.best(NORMAL, view, rng)), valid(self.best(COLD, view, rng)));
        if normal < cold { NORMAL } else { COLD }
    }

    fn choose_batch(&mut self, view: &BlockView<'_>, rng: &mut Prng) {
        let mut place = self.choose_region(view, rng);
        let mut gained = 0;
        while gained < view.units_per_block() {
            // The other region gives what is missing where both together have little.
            let other = NORMAL + COLD - place;
            let Some(block) = self.best(place, view, rng).or_else(|| self.best(other, view, rng)) else {
                break;
            };
            place = self.places[block.index()];
            gained += self.invalid[block.index()];
            self.leave(block);
            self.batch.push(block);
        }
    }
}

impl VictimPolicy for TwoRegions {
    fn closed(&mut self, block: BlockId, _valid: u32, _tick: u64) {
        self.fresh.push(block);
    }

    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        let place = self.places[block.index()];
        if place != ELSEWHERE {
            self.invalid[block.index()] += 1;
            let region = self.region(place);
            region.invalid += 1;
            region.blocks.invalidated(unit, block, valid, tick);
        }
    }

    fn taken(&mut self, block: BlockId) {
        if self.places[block.index()] != ELSEWHERE {
            return self.leave(block);
        }
        self.batch.retain(|&other| other != block);
        self.fresh.retain(|&other| other != block);
    }

    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        if self.batch.is_empty() {
            self.sort_fresh(view);
            self.choose_batch(view, rng);
        }
        self.batch.last().copied()
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        let of_regions = self.normal.blocks.candidates() + self.cold.blocks.candidates();
        of_regions + (self.fresh.len() + self.batch.len()) as u32
    }

    fn bytes_per_block() -> u64 {
        2 * Greedy::bytes_per_block() + 5
    }
}
