//! Exact selection for scores that grow linearly with time.

use strobe_types::{BlockId, Ppa, Prng};

use super::linear::{BlockHistory, LinearScore};
use super::{BlockView, VictimPolicy};

/// A score as a function of the tick: (gain · tick − offset) / divisor.
///
/// All whole numbers, so that two scores compare exactly and the moment at which one overtakes
/// the other is exact too. A divisor of 0 is an infinite score: a block without valid units, to be
/// taken at once. A gain of 0 is no candidate: nothing to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Growth per tick, before division.
    pub gain: u64,
    /// What is subtracted, before division.
    pub offset: u128,
    /// Common divisor.
    pub divisor: u64,
}

impl Line {
    /// A line that is never chosen.
    pub const NEVER: Self = Self { gain: 0, offset: 0, divisor: 1 };

    /// A line above all others.
    pub const ALWAYS: Self = Self { gain: 1, offset: 0, divisor: 0 };

    /// `factor · (tick + 1 − since) / divisor`.
    pub fn of_age(factor: u64, since: u64, divisor: u64) -> Self {
        // The one tick that keeps a fresh block's age above 0 is kept in the offset: with factor
        // times since at least factor, as ticks start at 1.
        Self { gain: factor, offset: u128::from(factor) * u128::from(since.saturating_sub(1)), divisor }
    }

    fn scaled(&self, tick: u64, by: u64) -> u128 {
        (u128::from(self.gain) * u128::from(tick)).saturating_sub(self.offset) * u128::from(by)
    }

    /// Whether `self` beats `other` at `tick`; of equals the lower block wins.
    fn beats(&self, id: u32, other: &Self, other_id: u32, tick: u64) -> bool {
        let order = match (self.divisor, other.divisor) {
            (0, 0) => std::cmp::Ordering::Equal,
            (0, _) => std::cmp::Ordering::Greater,
            (_, 0) => std::cmp::Ordering::Less,
            (mine, theirs) => self.scaled(tick, theirs).cmp(&other.scaled(tick, mine)),
        };
        order.then(other_id.cmp(&id)).is_gt()
    }

    /// The first tick at which `self`, which does not beat `winner` now, does; `u64::MAX` if never.
    fn overtakes(&self, id: u32, winner: &Self, winner_id: u32) -> u64 {
        if winner.divisor == 0 || self.divisor == 0 {
            return u64::MAX;
        }
        let signed = |x: u64| i128::from(x);
        let faster = signed(self.gain) * signed(winner.divisor) - signed(winner.gain) * signed(self.divisor);
        if faster <= 0 {
            return u64::MAX;
        }
        let behind =
            self.offset as i128 * signed(winner.divisor) - winner.offset as i128 * signed(self.divisor);
        let first = if id < winner_id {
            behind.div_euclid(faster) + i128::from(behind.rem_euclid(faster) != 0)
        } else {
            behind.div_euclid(faster) + 1
        };
        u64::try_from(first).unwrap_or(if first < 0 { 0 } else { u64::MAX })
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The best block below.
    winner: u32,
    /// The first tick at which some winner below is overtaken.
    valid_until: u64,
}

/// Picks the candidate with the largest score, exactly, for scores that are lines in time.
///
/// A kinetic tournament: a binary tree over the blocks in which each node knows the better of its
/// two children and until when. Blocks that changed are entered when the next victim is asked for;
/// then only the nodes whose time has come are played again. Cost per choice: a few nodes for each
/// block that changed since the last, whatever the number of blocks.
#[derive(Clone, Debug)]
pub struct Kinetic {
    score: LinearScore,
    units_per_block: u32,
    lines: Vec<Line>,
    history: Vec<BlockHistory>,
    candidate: Vec<bool>,
    candidates: u32,
    /// Blocks whose line is out of date, each once.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// A heap-ordered tree: the children of `n` are `2n` and `2n + 1`, the root is 1. Leaves are
    /// pairs of blocks.
    nodes: Vec<Node>,
}

impl Kinetic {
    /// An index for `blocks` blocks, none of them a candidate.
    pub fn new(blocks: u32, units_per_block: u32, score: LinearScore) -> Self {
        let leaves = (blocks as usize).next_power_of_two().max(2);
        let mut index = Self {
            score,
            units_per_block,
            lines: vec![Line::NEVER; leaves],
            history: vec![BlockHistory::default(); blocks as usize],
            candidate: vec![false; blocks as usize],
            candidates: 0,
            dirty: Vec::new(),
            is_dirty: vec![false; blocks as usize],
            nodes: vec![Node { winner: 0, valid_until: u64::MAX }; leaves],
        };
        for node in (1..leaves).rev() {
            index.nodes[node] = index.played(node, 0);
        }
        index
    }

    /// Units of a block beyond which scores might not fit their integers.
    pub const UNITS_PER_BLOCK_MAX: u32 = 1 << 16;

    #[inline]
    fn touch(&mut self, block: BlockId) {
        if !std::mem::replace(&mut self.is_dirty[block.index()], true) {
            self.dirty.push(block.get());
        }
    }

    /// Enters the current line of `block` and replays its way to the root.
    fn enter(&mut self, block: u32, valid: u32, tick: u64) {
        let at = block as usize;
        let line = match self.candidate[at] {
            true => self.score.line(&self.history[at], valid, self.units_per_block),
            false => Line::NEVER,
        };
        if std::mem::replace(&mut self.lines[at], line) == line {
            return;
        }
        let mut node = (at + self.lines.len()) / 2;
        while node >= 1 {
            let before = self.nodes[node];
            let after = self.played(node, tick);
            self.nodes[node] = after;
            let same = before.winner == after.winner && before.valid_until == after.valid_until;
            if same && after.winner != block {
                break;
            }
            node /= 2;
        }
    }

    /// The two blocks that meet at `node`, and until when the matches below it hold.
    fn contenders(&self, node: usize) -> (u32, u32, u64) {
        let half = self.lines.len() / 2;
        if node >= half {
            let first = ((node - half) * 2) as u32;
            return (first, first + 1, u64::MAX);
        }
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        (left.winner, right.winner, left.valid_until.min(right.valid_until))
    }

    fn played(&self, node: usize, tick: u64) -> Node {
        let (left, right, below) = self.contenders(node);
        let line = |block: u32| &self.lines[block as usize];
        let (winner, loser) = match line(right).beats(right, line(left), left, tick) {
            true => (right, left),
            false => (left, right),
        };
        let overtaken = line(loser).overtakes(loser, line(winner), winner);
        Node { winner, valid_until: below.min(overtaken) }
    }

    /// Plays every match again whose time has come.
    fn advance(&mut self, node: usize, tick: u64) {
        if self.nodes[node].valid_until > tick {
            return;
        }
        if node < self.lines.len() / 2 {
            self.advance(2 * node, tick);
            self.advance(2 * node + 1, tick);
        }
        self.nodes[node] = self.played(node, tick);
    }
}

impl VictimPolicy for Kinetic {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.history[block.index()] = BlockHistory::opened(erase_count, tick);
    }

    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        self.history[block.index()].close(tick);
        self.candidate[block.index()] = true;
        self.candidates += 1;
        self.touch(block);
    }

    #[inline]
    fn invalidated(&mut self, _unit: Ppa, block: BlockId, _valid: u32, tick: u64) {
        self.history[block.index()].invalidate(tick);
        self.touch(block);
    }

    fn taken(&mut self, block: BlockId) {
        self.candidate[block.index()] = false;
        self.candidates -= 1;
        self.touch(block);
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let tick = view.tick();
        let mut dirty = std::mem::take(&mut self.dirty);
        for &block in &dirty {
            self.is_dirty[block as usize] = false;
            self.enter(block, view.valid(BlockId::new(block)), tick);
        }
        dirty.clear();
        self.dirty = dirty;
        self.advance(1, tick);
        let winner = self.nodes[1].winner;
        (self.lines[winner as usize].gain > 0).then_some(BlockId::new(winner))
    }

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        (std::mem::size_of::<Line>() + std::mem::size_of::<BlockHistory>() + std::mem::size_of::<Node>() + 6)
            as u64
    }
}
