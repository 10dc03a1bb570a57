//! Draws of slots: the simple distributions, and the scattering of ranks.

use strobe_types::{Prng, State, scatter};

/// Draws slot numbers. Implementations are small values of known type, so that the loop over a
/// batch is compiled for each of them.
pub(super) trait Draw {
    /// The next slot, below the number of slots given at construction.
    fn slot(&mut self, rng: &mut Prng) -> u32;
}

/// All slots equally likely.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    pub(super) slots: u32,
}

impl Draw for Uniform {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng) -> u32 {
        rng.below(self.slots)
    }
}

/// One slot after the other.
#[derive(Clone, Debug, State)]
pub(super) struct Sequential {
    #[state(skip)]
    pub(super) slots: u32,
    pub(super) next: u32,
}

impl Draw for Sequential {
    #[inline(always)]
    fn slot(&mut self, _rng: &mut Prng) -> u32 {
        let slot = self.next;
        self.next = if slot + 1 == self.slots { 0 } else { slot + 1 };
        slot
    }
}

/// Two classes of slots, each uniform: the first `hot` slots, and the rest.
#[derive(Clone, Debug)]
pub(super) struct HotCold {
    hot: u32,
    cold: u32,
    hot_share: f64,
}

impl HotCold {
    /// `hot_fraction` of the slots, rounded, get `hot_share` of the draws. With two slots or
    /// more each class has at least one.
    pub(super) fn new(slots: u32, hot_fraction: f64, hot_share: f64) -> Self {
        let hot = ((f64::from(slots) * hot_fraction + 0.5) as u32).clamp(1, (slots - 1).max(1));
        Self { hot, cold: slots - hot, hot_share }
    }
}

impl Draw for HotCold {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng) -> u32 {
        // A coin against the shares is unpredictable, so both classes are described by data and
        // not by a branch. The single slot of a range of one is hot.
        let hot = rng.chance(self.hot_share) || self.cold == 0;
        let (first, count) = if hot { (0, self.hot) } else { (self.hot, self.cold) };
        first + rng.below(count)
    }
}

/// Takes the draws of `inner` as ranks and spreads them over all slots, one to one.
#[derive(Clone, Debug)]
pub(super) struct Scattered<D> {
    inner: D,
    slots: u32,
    stride: u32,
}

impl<D> Scattered<D> {
    /// Spreads the ranks of `inner`, which are below `slots`.
    pub(super) fn new(inner: D, slots: u32) -> Self {
        Self { inner, slots, stride: stride(slots) }
    }
}

impl<D: Draw> Draw for Scattered<D> {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng) -> u32 {
        scatter(self.inner.slot(rng), self.slots, self.stride)
    }
}

/// The least number from slots/φ on (φ the golden ratio) that has no factor in common with
/// `slots`: multiples of it visit every slot once, and any run of ranks is spread evenly.
pub(super) fn stride(slots: u32) -> u32 {
    // 2^32/φ, the multiplier of Fibonacci hashing.
    let golden = ((u64::from(slots) * 0x9e37_79b9) >> 32) as u32;
    // Ends at slots − 1 at the latest, which shares no factor with its successor.
    (golden.max(1)..slots).find(|&candidate| greatest_common_divisor(candidate, slots) == 1).unwrap_or(1)
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
