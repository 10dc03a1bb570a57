//! The simple distributions, and scattering of ranks.

use strobe_types::{Op, Prng, State, scatter};

/// Distribution of slots. A type parameter lets the batch loop be compiled for each distribution.
pub(super) trait Draw {
    fn slot(&mut self, rng: &mut Prng, op: Op) -> u32;
}

#[derive(Clone, Debug)]
pub(super) struct Uniform {
    pub(super) slots: u32,
}

impl Draw for Uniform {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng, _op: Op) -> u32 {
        rng.below(self.slots)
    }
}

#[derive(Clone, Debug, State)]
pub(super) struct Sequential {
    #[state(skip)]
    slots: u32,
    next: [u32; CURSORS],
}

pub(super) const CURSORS: usize = 3;

pub(super) fn cursor(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write | Op::Flush => 1,
        Op::Trim => 2,
    }
}

impl Sequential {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots, next: [0; CURSORS] }
    }
}

impl Draw for Sequential {
    #[inline(always)]
    fn slot(&mut self, _rng: &mut Prng, op: Op) -> u32 {
        let next = &mut self.next[cursor(op)];
        let slot = *next;
        *next = if slot + 1 == self.slots { 0 } else { slot + 1 };
        slot
    }
}

#[derive(Clone, Debug)]
pub(super) struct HotCold {
    hot: u32,
    cold: u32,
    hot_share: f64,
}

impl HotCold {
    /// `hot_fraction` is rounded to whole slots. With two or more slots each class has at least one.
    pub(super) fn new(slots: u32, hot_fraction: f64, hot_share: f64) -> Self {
        let hot = ((f64::from(slots) * hot_fraction + 0.5) as u32).clamp(1, (slots - 1).max(1));
        Self { hot, cold: slots - hot, hot_share }
    }
}

impl Draw for HotCold {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng, _op: Op) -> u32 {
        // The coin flip is unpredictable, so select the class by data, not by a branch. If the range has one
        // slot, that slot is hot.
        let hot = rng.chance(self.hot_share) || self.cold == 0;
        let (first, count) = if hot { (0, self.hot) } else { (self.hot, self.cold) };
        first + rng.below(count)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Scattered<D> {
    inner: D,
    slots: u32,
    stride: u32,
}

impl<D> Scattered<D> {
    pub(super) fn new(inner: D, slots: u32) -> Self {
        Self { inner, slots, stride: stride(slots) }
    }
}

impl<D: Draw> Draw for Scattered<D> {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng, op: Op) -> u32 {
        scatter(self.inner.slot(rng, op), self.slots, self.stride)
    }
}

/// Least number from slots/φ on (φ the golden ratio) that is coprime to `slots`.
///
/// Its multiples visit every slot once and spread any run of ranks evenly.
pub(super) fn stride(slots: u32) -> u32 {
    // 2^32/φ, the multiplier of Fibonacci hashing.
    let golden = ((u64::from(slots) * 0x9e37_79b9) >> 32) as u32;
    // The search ends at slots − 1 at the latest, which is coprime to `slots`.
    (golden.max(1)..slots).find(|&candidate| greatest_common_divisor(candidate, slots) == 1).unwrap_or(1)
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
