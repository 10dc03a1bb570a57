//! Published scores that grow linearly with a block's age.
//!
//! Notation: u is the valid share of a block, EC its erase count; ages are in ticks plus one.

use std::cmp::Ordering;

use strobe_types::{BlockId, Ppa, Stored};

use super::tournament::{Curve, Score, not_after};

/// A score as a function of the tick: (gain · tick − offset) / divisor.
///
/// Integers compare exactly. A divisor of 0 means an infinite score (no valid unit), a gain of 0 no candidate
/// (no invalid unit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct Line {
    /// Growth per tick, before division.
    pub gain: u64,
    /// Subtrahend, before division.
    pub offset: u128,
    /// Common divisor.
    pub divisor: u64,
}

impl Line {
    /// A line above all others.
    pub const ALWAYS: Self = Self { gain: 1, offset: 0, divisor: 0 };

    /// `factor · (tick + 1 − since) / divisor`.
    pub fn of_age(factor: u64, since: u64, divisor: u64) -> Self {
        // The plus one of the age is folded into the offset, which is not negative as ticks start at 1.
        Self { gain: factor, offset: u128::from(factor) * u128::from(since.saturating_sub(1)), divisor }
    }

    fn scaled(&self, tick: u64, by: u64) -> u128 {
        (u128::from(self.gain) * u128::from(tick)).saturating_sub(self.offset) * u128::from(by)
    }
}

impl Curve for Line {
    const NEVER: Self = Self { gain: 0, offset: 0, divisor: 1 };

    fn compare(&self, other: &Self, tick: u64) -> Ordering {
        match (self.divisor, other.divisor) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (mine, theirs) => self.scaled(tick, theirs).cmp(&other.scaled(tick, mine)),
        }
    }

    fn value(&self, tick: u64) -> f64 {
        self.scaled(tick, 1) as f64 / self.divisor as f64
    }

    fn overtakes(&self, winner: &Self, tick: u64) -> u64 {
        if winner.divisor == 0 || self.divisor == 0 {
            return u64::MAX;
        }
        let rate = |line: &Self, by: u64| i128::from(line.gain) * i128::from(by);
        let faster = rate(self, winner.divisor) - rate(winner, self.divisor);
        if faster <= 0 {
            return u64::MAX;
        }
        // The difference is exact, and `not_after` errs only towards early.
        let behind = winner.scaled(tick, self.divisor) - self.scaled(tick, winner.divisor);
        not_after(tick, behind as f64 / faster as f64)
    }
}

/// History of a block, input of a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct BlockHistory {
    /// Tick of its opening (allocated, became active).
    pub opened: u64,
    /// Tick of its last page's write.
    pub closed: u64,
    /// Tick of the last invalidation, else of closing.
    pub last_invalidation: u64,
    /// Units that became invalid.
    pub invalidations: u64,
    /// Sum of the ticks of these invalidations.
    pub invalidation_ticks: u64,
    /// Erases before this use.
    pub erase_count: u32,
}

impl BlockHistory {
    pub(crate) fn opened(erase_count: u32, tick: u64) -> Self {
        Self { opened: tick, erase_count, ..Self::default() }
    }

    pub(crate) fn close(&mut self, tick: u64) {
        self.closed = tick;
        if self.invalidations == 0 {
            self.last_invalidation = tick;
        }
    }

    #[inline]
    pub(crate) fn invalidate(&mut self, tick: u64) {
        self.last_invalidation = tick;
        self.invalidations += 1;
        self.invalidation_ticks += tick;
    }
}

/// A score linear in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum LinearScore {
    /// CB: max age·(1−u)/2u, age since the last invalidation (Kawaguchi, Nishioka & Motoda 1995).
    CostBenefit,
    /// LFS: max age·(1−u)/(1+u), age since the block's last write (Rosenblum & Ousterhout 1992).
    Lfs,
    /// CAT: min u/(1−u) · 1/age · (EC+1), age since allocation (Chiang & Chang 1999).
    Cat,
    /// FeGC: max Σ (now − time of invalidation) over the invalid units (Kwon et al. 2011).
    FeGc,
    /// CAPi: max age·(1−u)/(1+u)², age since the block became active (Hwang & Kwak 2016).
    CaPi,
}

impl Score for LinearScore {
    type Block = BlockHistory;
    type Curve = Line;

    fn opened(&mut self, _id: BlockId, erase_count: u32, tick: u64) -> BlockHistory {
        BlockHistory::opened(erase_count, tick)
    }

    fn closed(&mut self, block: &mut BlockHistory, tick: u64) {
        block.close(tick);
    }

    fn invalidated(&mut self, _unit: Ppa, _id: BlockId, block: &mut BlockHistory, tick: u64) {
        block.invalidate(tick);
    }

    fn curve(&self, _id: BlockId, block: &BlockHistory, valid: u32, units: u32) -> Line {
        self.line(block, valid, units)
    }
}

impl LinearScore {
    /// The score of policy `name`, if linear.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cost-benefit" => Self::CostBenefit,
            "lfs" => Self::Lfs,
            "cat" => Self::Cat,
            "fegc" => Self::FeGc,
            "capi" => Self::CaPi,
            _ => return None,
        })
    }

    /// Score of a candidate with `valid` of `units` valid units.
    pub fn line(self, block: &BlockHistory, valid: u32, units: u32) -> Line {
        let (valid, units) = (u64::from(valid), u64::from(units));
        let dead = units - valid;
        if dead == 0 {
            return Line::NEVER;
        }
        match self {
            // Both divide by u: an empty block comes first.
            Self::CostBenefit | Self::Cat if valid == 0 => Line::ALWAYS,
            Self::CostBenefit => Line::of_age(dead, block.last_invalidation, 2 * valid),
            Self::Lfs => Line::of_age(dead, block.closed, units + valid),
            Self::Cat => Line::of_age(dead, block.opened, valid * (u64::from(block.erase_count) + 1)),
            Self::CaPi => Line::of_age(dead * units, block.opened, (units + valid) * (units + valid)),
            // Only padding to gain: the score is below that of any block with an invalidation.
            Self::FeGc if block.invalidations == 0 => Line { gain: 1, offset: 0, divisor: 1 << 56 },
            Self::FeGc => {
                let offset =
                    u128::from(block.invalidation_ticks).saturating_sub(u128::from(block.invalidations));
                Line { gain: block.invalidations, offset, divisor: 1 }
            }
        }
    }
}
