//! Cost-benefit (CB; Kawaguchi, Nishioka, Motoda 1995).

use strobe_types::{BlockId, Prng};

use super::{BlockView, VictimPolicy};

/// Picks the candidate with the largest age · (1 − u) / 2u, where u is the valid share of a block
/// and age counts from its last invalidation; of equals the one invalidated longest ago, then the
/// lowest block. A block without valid units is taken at once; a fully valid one never.
///
/// Blocks with the same valid count differ only in age, so each count needs just its oldest
/// candidate. Invalidations arrive in time order: moving the block to the tail of the list of its
/// new count keeps every list sorted, and the best of each is its head. Cost per choice: one
/// score for each occupied count, however many blocks there are.
#[derive(Clone, Debug)]
pub struct CostBenefit {
    /// One list per valid count.
    lists: Vec<List>,
    nodes: Vec<Node>,
    candidates: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    previous: u32,
    next: u32,
    /// Valid count under which the block is listed, or [`NIL`] if it is no candidate.
    listed: u32,
    last_invalidation: u64,
}

/// Packed form of "none".
const NIL: u32 = u32::MAX;

impl CostBenefit {
    /// An index for `blocks` blocks of `units_per_block` units, none of them a candidate.
    pub fn new(blocks: u32, units_per_block: u32) -> Self {
        let node = Node { previous: NIL, next: NIL, listed: NIL, last_invalidation: 0 };
        Self {
            lists: vec![List { head: NIL, tail: NIL }; units_per_block as usize + 1],
            nodes: vec![node; blocks as usize],
            candidates: 0,
        }
    }

    /// How the scores of two blocks, given as (age, valid units), compare. Exact: the fractions
    /// are compared by cross-multiplication, so no rounding decides a tie.
    fn compare(a: (u64, u32), b: (u64, u32), units: u32) -> std::cmp::Ordering {
        let gain = |(age, valid): (u64, u32)| u128::from(age) * u128::from(units - valid);
        match (a.1, b.1) {
            (0, 0) => std::cmp::Ordering::Equal,
            (a_valid, b_valid) => (gain(a) * u128::from(b_valid)).cmp(&(gain(b) * u128::from(a_valid))),
        }
    }

    fn unlink(&mut self, block: u32) {
        let Node { previous, next, listed, .. } = self.nodes[block as usize];
        let list = &mut self.lists[listed as usize];
        match previous {
            NIL => list.head = next,
            p => self.nodes[p as usize].next = next,
        }
        match next {
            NIL => list.tail = previous,
            n => self.nodes[n as usize].previous = previous,
        }
    }

    /// Links `block` behind the last one that is not younger.
    fn link(&mut self, block: u32, valid: u32) {
        let when = (self.nodes[block as usize].last_invalidation, block);
        let mut before = self.lists[valid as usize].tail;
        while before != NIL && (self.nodes[before as usize].last_invalidation, before) > when {
            before = self.nodes[before as usize].previous;
        }
        let after = match before {
            NIL => std::mem::replace(&mut self.lists[valid as usize].head, block),
            b => std::mem::replace(&mut self.nodes[b as usize].next, block),
        };
        match after {
            NIL => self.lists[valid as usize].tail = block,
            a => self.nodes[a as usize].previous = block,
        }
        let node = &mut self.nodes[block as usize];
        (node.previous, node.next, node.listed) = (before, after, valid);
    }
}

impl VictimPolicy for CostBenefit {
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        let units = self.lists.len() as u32 - 1;
        let node = &mut self.nodes[block.index()];
        if valid == units || node.last_invalidation == 0 {
            node.last_invalidation = tick;
        }
        self.candidates += 1;
        self.link(block.get(), valid);
    }

    #[inline]
    fn invalidated(&mut self, block: BlockId, valid: u32, tick: u64) {
        let node = &mut self.nodes[block.index()];
        if node.listed == NIL {
            node.last_invalidation = tick;
            return;
        }
        self.unlink(block.get());
        self.nodes[block.index()].last_invalidation = tick;
        self.link(block.get(), valid);
    }

    fn taken(&mut self, block: BlockId) {
        self.unlink(block.get());
        let node = &mut self.nodes[block.index()];
        (node.listed, node.last_invalidation) = (NIL, 0);
        self.candidates -= 1;
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let units = view.units_per_block();
        let mut best: Option<((u64, u32), (u64, u32))> = None;
        for (valid, list) in (0..units).zip(&self.lists) {
            if list.head == NIL {
                continue;
            }
            let since = self.nodes[list.head as usize].last_invalidation;
            let (score, order) = ((view.tick() - since + 1, valid), (since, list.head));
            let better = best.is_none_or(|(top, top_order)| {
                Self::compare(score, top, units).then(top_order.cmp(&order)).is_gt()
            });
            if better {
                best = Some((score, order));
            }
        }
        best.map(|(_, (_, block))| BlockId::new(block))
    }

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        std::mem::size_of::<Node>() as u64
    }
}
