//! Victims of 2R-FIFO (Kang, Choi, Oh & Lee, PVLDB 2020), as in SSD-iq's simulator; see `two_r.rs`.
//!
//! 1. A pass in closing order takes full blocks with valid units below a limit: 70 % of a block, in the first
//!    batch 50 %. It continues where the last batch ended.
//! 2. After 70 % of the queue, or at its end, the pass restarts at the head. The limit rises by 5 % for the
//!    rest of the batch.
//! 3. With a limit above 100 %, the pass covers the whole queue and misses no block with an invalid unit.
//!
//! Victims count towards the length of the queue until their batch is complete.

use strobe_types::{BlockId, Ppa, Prng, State};

use super::order::ClosingOrder;
use super::{BlockView, VictimPolicy};

/// A queue of full blocks; those with many valid units get a second chance.
#[derive(Clone, Debug, State)]
pub struct SecondChance {
    order: ClosingOrder,
    /// Block examined next; `None` for the head of the queue.
    next: Option<BlockId>,
    passed: u32,
    /// Limit for the next batch, in percent.
    limit: u32,
    /// Remaining victims; the last one is emptied first.
    batch: Vec<BlockId>,
}

const DEPTH: u32 = 70;
const LIMIT: u32 = 70;
const LIMIT_OF_FIRST: u32 = 50;
const LIMIT_STEP: u32 = 5;

impl SecondChance {
    /// A queue for `blocks` blocks.
    pub fn new(blocks: u32) -> Self {
        let order = ClosingOrder::new(blocks);
        Self { order, next: None, passed: 0, limit: LIMIT_OF_FIRST, batch: Vec::new() }
    }

    fn choose_batch(&mut self, view: &BlockView<'_>) {
        let units = view.units_per_block();
        let depth = (u64::from(self.order.len()) * u64::from(DEPTH) / 100) as u32;
        let mut limit = std::mem::replace(&mut self.limit, LIMIT);
        if self.next.is_none() {
            (self.next, self.passed) = (self.order.first(), 0);
        }
        let mut gained = 0;
        // A batch is complete when its invalid units fill a block, or when a pass with a limit above 100 %
        // ends.
        while gained < units {
            if let Some(block) = self.next {
                let valid = view.valid(block);
                let is_below = 100 * u64::from(valid) < u64::from(limit) * u64::from(units);
                if is_below && valid < units && !self.batch.contains(&block) {
                    self.batch.push(block);
                    gained += units - valid;
                }
                self.next = self.order.next(block);
                self.passed += 1;
            } else if limit > 100 {
                break;
            }
            if limit <= 100 && (self.passed >= depth || self.next.is_none()) {
                (self.next, self.passed) = (self.order.first(), 0);
                limit += LIMIT_STEP;
            }
        }
        // Victims leave the queue only now: they count towards its length.
        for at in 0..self.batch.len() {
            self.leave(self.batch[at]);
        }
    }

    fn leave(&mut self, block: BlockId) {
        if self.next == Some(block) {
            self.next = self.order.next(block);
        }
        self.order.remove(block);
    }
}

impl VictimPolicy for SecondChance {
    fn closed(&mut self, block: BlockId, _valid: u32, _tick: u64) {
        self.order.push(block);
    }

    fn invalidated(&mut self, _unit: Ppa, _block: BlockId, _valid: u32, _tick: u64) {}

    fn taken(&mut self, block: BlockId) {
        match self.batch.iter().position(|&other| other == block) {
            Some(at) => drop(self.batch.remove(at)),
            None => self.leave(block),
        }
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        if self.batch.is_empty() {
            self.choose_batch(view);
        }
        self.batch.last().copied()
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        self.order.len() + self.batch.len() as u32
    }

    fn bytes_per_block() -> u64 {
        12
    }
}
