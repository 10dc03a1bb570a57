//! Published scores that grow linearly with a block's age.
//!
//! Notation: u is the valid share of a block, EC its erase count, ages are in ticks plus one.

use super::kinetic::Line;

/// What a score may use of a block's past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHistory {
    /// When the block was opened (allocated, became active).
    pub opened: u64,
    /// When its last page was written.
    pub closed: u64,
    /// When one of its units last became invalid; when it closed, if none has.
    pub last_invalidation: u64,
    /// Units that became invalid.
    pub invalidations: u64,
    /// Sum of the ticks at which they did.
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

/// A score that is a line in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl LinearScore {
    /// The score of a candidate with `valid` of `units` valid units.
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
            Self::FeGc => {
                let offset =
                    u128::from(block.invalidation_ticks).saturating_sub(u128::from(block.invalidations));
                Line { gain: block.invalidations, offset, divisor: 1 }
            }
        }
    }
}
