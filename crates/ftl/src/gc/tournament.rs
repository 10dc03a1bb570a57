//! Maximum of many curves over time.

use std::cmp::Ordering;
use std::fmt::Debug;

use strobe_types::{BlockId, Ppa, State, Stored, prefetch_write};

/// A score as a function of the tick.
pub trait Curve: Copy + PartialEq + Debug + Stored {
    /// Curve of an ineligible block: below all others, and never overtaking.
    const NEVER: Self;

    /// Compares the two scores at `tick`, exactly.
    fn compare(&self, other: &Self, tick: u64) -> Ordering;

    /// Rounded score at `tick`; infinite above all others.
    fn value(&self, tick: u64) -> f64;

    /// A tick before which `self`, now behind `winner`, does not overtake it; `u64::MAX` if it never does.
    /// Too early costs one more comparison, too late is an error.
    fn overtakes(&self, winner: &Self, tick: u64) -> u64;
}

/// A score: the state per block, and the resulting curve.
pub trait Score: State {
    /// History of a block.
    type Block: Copy + Default + Stored;
    /// Score of an unchanged block over time.
    type Curve: Curve;

    /// Reports that a block, erased `erase_count` times, was opened.
    fn opened(&mut self, id: BlockId, erase_count: u32, tick: u64) -> Self::Block;

    /// Reports that `unit` of an open block was written.
    fn written(&mut self, _unit: Ppa, _tick: u64) {}

    /// Reports that `block` is full.
    fn closed(&mut self, block: &mut Self::Block, tick: u64);

    /// Reports that `unit` of `block` became invalid.
    fn invalidated(&mut self, unit: Ppa, id: BlockId, block: &mut Self::Block, tick: u64);

    /// Curve of a candidate with `valid` of `units` units.
    fn curve(&self, id: BlockId, block: &Self::Block, valid: u32, units: u32) -> Self::Curve;

    /// Prefetches state kept outside [`Score::Block`].
    fn prefetch(&self, _id: BlockId) {}

    /// Host memory per block outside [`Score::Block`], in bytes.
    fn bytes_per_block() -> u64 {
        0
    }
}

/// More than the relative rounding errors of a few floating-point operations, 2⁻⁵³ each.
pub(crate) const MARGIN: f64 = 1.0 / (1u64 << 44) as f64;

/// First whole tick `ahead` ticks after `tick`, or one tick earlier.
pub(crate) fn not_after(tick: u64, ahead: f64) -> u64 {
    let ahead = ahead * (1.0 - MARGIN);
    let whole = ahead as u64;
    tick.saturating_add((whole + u64::from(ahead > whole as f64)).max(1))
}

/// A kinetic tournament (Basch, Guibas & Hershberger 1999): a binary tree whose nodes know the better of two
/// children and how long that holds. Of equals, the lowest block wins.
///
/// A changed block replays its matches upwards while results change. As time advances, only expired matches
/// are replayed.
#[derive(Clone, Debug, State)]
pub(crate) struct Tournament<C> {
    due: Vec<usize>,
    #[state(table)]
    curves: Vec<C>,
    /// The children of `n` are `2n` and `2n + 1`; the root is 1. Leaves are pairs of blocks.
    #[state(table)]
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
struct Node {
    winner: u32,
    /// No winner below is overtaken before this tick.
    valid_until: u64,
}

impl<C: Curve> Tournament<C> {
    pub(crate) fn new(blocks: u32) -> Self {
        let leaves = (blocks as usize).next_power_of_two().max(2);
        let nodes = vec![Node { winner: 0, valid_until: u64::MAX }; leaves];
        let mut new = Self { curves: vec![C::NEVER; leaves], nodes, due: Vec::new() };
        for node in (1..leaves).rev() {
            new.nodes[node] = new.played(node, 0);
        }
        new
    }

    pub(crate) fn enter(&mut self, block: u32, curve: C, tick: u64) {
        let at = block as usize;
        if std::mem::replace(&mut self.curves[at], curve) == curve {
            return;
        }
        // Replay upwards until a match keeps its result and is won by another block: then nothing changes
        // above.
        let mut node = (at + self.curves.len()) / 2;
        while node >= 1 {
            let after = self.played(node, tick);
            let before = std::mem::replace(&mut self.nodes[node], after);
            if before == after && after.winner != block {
                break;
            }
            node /= 2;
        }
    }

    pub(crate) fn best(&mut self, tick: u64) -> Option<u32> {
        self.advance(tick);
        let winner = self.nodes[1].winner;
        (self.curves[winner as usize] != C::NEVER).then_some(winner)
    }

    /// The two blocks of the match, and the tick until which the matches below hold.
    fn contenders(&self, node: usize) -> (u32, u32, u64) {
        let half = self.curves.len() / 2;
        if node >= half {
            let first = ((node - half) * 2) as u32;
            return (first, first + 1, u64::MAX);
        }
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        (left.winner, right.winner, left.valid_until.min(right.valid_until))
    }

    fn played(&self, node: usize, tick: u64) -> Node {
        let (left, right, below) = self.contenders(node);
        let curve = |block: u32| &self.curves[block as usize];
        // Left blocks are lower and win ties.
        let (winner, loser) = match curve(right).compare(curve(left), tick) {
            Ordering::Greater => (right, left),
            _ => (left, right),
        };
        let overtaken = curve(loser).overtakes(curve(winner), tick);
        Node { winner, valid_until: below.min(overtaken) }
    }

    /// Replays every expired match, found level by level to overlap memory fetches.
    fn advance(&mut self, tick: u64) {
        let half = self.curves.len() / 2;
        let mut due = std::mem::take(&mut self.due);
        due.extend((self.nodes[1].valid_until <= tick).then_some(1));
        let mut at = 0;
        while let Some(&node) = due.get(at) {
            at += 1;
            if node >= half {
                continue;
            }
            for child in [2 * node, 2 * node + 1] {
                let Node { winner, valid_until } = self.nodes[child];
                prefetch_write(&self.curves, winner as usize);
                if valid_until <= tick {
                    prefetch_write(&self.nodes, 2 * child);
                    due.push(child);
                }
            }
        }
        // `due` lists parents before children. Children are played first, because parents depend on them.
        for node in due.drain(..).rev() {
            self.nodes[node] = self.played(node, tick);
        }
        self.due = due;
    }

    #[inline]
    pub(crate) fn prefetch(&self, block: u32) {
        let at = block as usize;
        prefetch_write(&self.curves, at);
        // Most updates end within three matches.
        for up in 1..4 {
            prefetch_write(&self.nodes, (at + self.curves.len()) >> up);
        }
    }

    pub(crate) const BYTES_PER_BLOCK: usize = size_of::<C>() + size_of::<Node>();
}
