//! Victims of 2R (Kang, Choi, Oh & Lee, "2R: Efficiently Isolating Cold Pages in Flash Storages", PVLDB
//! 2020), as in SSD-iq's simulator (Haas, Lee, Bonnet & Leis, PVLDB 2025).
//!
//! 1. Victims are chosen in batches. The invalid units of a batch fill a block, so each batch gains a block.
//! 2. [`TwoRegions`] (2R-Greedy) takes a batch from one region. The host fills normal blocks, relocation cold
//!    ones.
//! 3. [`SecondChance`](super::SecondChance) (2R-FIFO) scans the blocks in closing order.
//! 4. A batch is emptied in reverse. The emptiest victims, whose units are likely to be overwritten soon,
//!    then share the block that host writes continue in
//!    ([`Placement::hands_over`](crate::Placement::hands_over)).
//!
//! Example with 8 units in a block: normal blocks with 3, 5 and 6 valid units, cold ones with 6 and 7. The
//! cold blocks have only 3 invalid units, so the batch is normal: two victims with 5 + 3 invalid units. The
//! one with 5 valid units is emptied first.

use strobe_types::{BlockId, Ppa, Prng, State};

use super::greedy::Greedy;
use super::{BlockView, VictimPolicy};

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

/// Greedy in one of two regions. A region whose invalid units do not fill a block is skipped. Otherwise, the
/// region whose best block has fewer valid units is chosen; of equals, the cold one.
#[derive(Clone, Debug, State)]
pub struct TwoRegions {
    #[state(skip)]
    host_streams: u8,
    /// Full blocks not yet assigned to a region, in closing order.
    fresh: Vec<BlockId>,
    normal: Region,
    cold: Region,
    #[state(table)]
    places: Vec<u8>,
    #[state(table)]
    invalid: Vec<u32>,
    batch: Vec<BlockId>,
}

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

    fn leave(&mut self, block: BlockId) {
        let place = std::mem::replace(&mut self.places[block.index()], ELSEWHERE);
        let invalid = self.invalid[block.index()];
        let region = self.region(place);
        region.blocks.taken(block);
        region.invalid -= u64::from(invalid);
    }

    fn best(&mut self, place: u8, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        let best = self.region(place).blocks.choose(view, rng)?;
        (self.invalid[best.index()] > 0).then_some(best)
    }

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
        // Each victim leaves its region at once, so that `best` finds the next one.
        let mut place = self.choose_region(view, rng);
        let mut gained = 0;
        while gained < view.units_per_block() {
            // If this region runs out of victims, the other one supplies the rest.
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
            // Only the view knows the stream of a block, so new blocks are assigned to regions here.
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
