//! SCATA, a score that grows with the square of time (Lin 2011, Electronics Letters 47(22)).

use std::cmp::Ordering;

use strobe_types::{BlockId, Ppa, State, Stored};

use super::tournament::{Curve, MARGIN, Score, not_after};
use super::write_ticks::WriteTicks;

/// Start of a block's age. The paper's table and its prose differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScataAge {
    /// The first invalidation, as in the table.
    OldestInvalid,
    /// The last invalidation, as in the prose.
    NewestInvalid,
}

/// max age_i · est · 1/(EC+1) · (1−u)/(1+u), with age_i since an invalidation ([`ScataAge`]) and est since
/// the write of the newest valid unit.
///
/// A block without valid units comes first, as it needs no copy.
#[derive(Clone, Debug, State)]
pub struct Scata {
    #[state(skip)]
    age: ScataAge,
    writes: WriteTicks,
}

/// History of a block, input of SCATA.
#[derive(Clone, Copy, Debug, Default, Stored)]
pub struct ScataBlock {
    invalidation: u64,
    erase_count: u32,
    has_invalid: bool,
}

impl Scata {
    pub(crate) fn new(blocks: u32, units_per_block: u32, age: ScataAge) -> Self {
        Self { age, writes: WriteTicks::new(blocks, units_per_block) }
    }
}

impl Score for Scata {
    type Block = ScataBlock;
    type Curve = Parabola;

    fn opened(&mut self, id: BlockId, erase_count: u32, _tick: u64) -> ScataBlock {
        self.writes.opened(id);
        ScataBlock { erase_count, ..ScataBlock::default() }
    }

    fn written(&mut self, unit: Ppa, tick: u64) {
        self.writes.written(unit, tick);
    }

    fn closed(&mut self, block: &mut ScataBlock, tick: u64) {
        if !block.has_invalid {
            block.invalidation = tick;
        }
    }

    fn invalidated(&mut self, unit: Ppa, id: BlockId, block: &mut ScataBlock, tick: u64) {
        self.writes.invalidated(unit, id);
        if self.age == ScataAge::NewestInvalid || !block.has_invalid {
            block.invalidation = tick;
        }
        block.has_invalid = true;
    }

    fn curve(&self, id: BlockId, block: &ScataBlock, valid: u32, units: u32) -> Parabola {
        let dead = units - valid;
        if dead == 0 {
            return Parabola::NEVER;
        }
        let Some(newest) = self.writes.newest(id) else { return Parabola::ALWAYS };
        Parabola {
            gain: dead,
            since: [block.invalidation, newest],
            divisor: (u64::from(block.erase_count) + 1) * u64::from(units + valid),
        }
    }

    fn prefetch(&self, id: BlockId) {
        self.writes.prefetch(id);
    }

    fn bytes_per_block() -> u64 {
        WriteTicks::BYTES_PER_BLOCK
    }
}

/// gain · (tick + 1 − since₀) · (tick + 1 − since₁) / divisor.
///
/// Integers compare exactly while ticks stay below 2⁵⁵, gains within 2¹⁶ and divisors below 2⁶³. A divisor of
/// 0 means an infinite score, a gain of 0 no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Parabola {
    /// Growth per square of a tick, before division.
    pub gain: u32,
    /// Start ticks of the two ages, not after the current tick.
    pub since: [u64; 2],
    /// Common divisor.
    pub divisor: u64,
}

impl Parabola {
    /// A curve above all others.
    pub const ALWAYS: Self = Self { gain: 1, since: [0; 2], divisor: 0 };

    fn ages(&self, tick: u64) -> [u64; 2] {
        self.since.map(|since| tick + 1 - since)
    }

    /// Score at `tick`, times both divisors.
    fn scaled(&self, tick: u64, by: u64) -> Wide {
        let [a, b] = self.ages(tick);
        Wide::product(u128::from(self.gain) * u128::from(a) * u128::from(b), by)
    }
}

impl Curve for Parabola {
    const NEVER: Self = Self { gain: 0, since: [0; 2], divisor: 1 };

    fn compare(&self, other: &Self, tick: u64) -> Ordering {
        match (self.divisor, other.divisor) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (mine, theirs) => self.scaled(tick, theirs).cmp(&other.scaled(tick, mine)),
        }
    }

    fn value(&self, tick: u64) -> f64 {
        let [a, b] = self.ages(tick);
        f64::from(self.gain) * a as f64 * b as f64 / self.divisor as f64
    }

    /// The result is never late, and only slightly early.
    fn overtakes(&self, winner: &Self, tick: u64) -> u64 {
        if winner.divisor == 0 || self.divisor == 0 || self.gain == 0 {
            return u64::MAX;
        }
        // After s ticks `self` leads by A·s² + B·s − C; the first root is wanted. A, B and C ≥ 0 are exact as
        // integers, and the margin outweighs all later rounding.
        let rate = |curve: &Self, by: u64| i128::from(curve.gain) * i128::from(by);
        let sum = |curve: &Self| curve.ages(tick).iter().map(|&age| i128::from(age)).sum::<i128>();
        let (mine, theirs) = (rate(self, winner.divisor), rate(winner, self.divisor));
        let (a, b) = (mine - theirs, mine * sum(self) - theirs * sum(winner));
        // Without more growth in either term, `self` never overtakes.
        if a <= 0 && b <= 0 {
            return u64::MAX;
        }
        let (a, b) = (a as f64, b as f64);
        let c = winner.scaled(tick, self.divisor).minus(self.scaled(tick, winner.divisor));
        let (square, product) = (b * b, 4.0 * a * c);
        // With a < 0 the two terms cancel and their rounding errors remain. A larger discriminant moves the
        // root towards now.
        let safety = if a < 0.0 { MARGIN * (square - product) } else { 0.0 };
        let discriminant = square + product + safety;
        if discriminant < 0.0 {
            return u64::MAX;
        }
        let root = discriminant.sqrt();
        // This form of the root adds numbers of equal sign, so nothing cancels.
        let first = if b > 0.0 { 2.0 * c / (b + root) } else { (root - b) / (2.0 * a) };
        not_after(tick, first)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u64,
}

impl Wide {
    fn product(a: u128, b: u64) -> Self {
        let low = u128::from(a as u64) * u128::from(b);
        Self { high: (a >> 64) * u128::from(b) + (low >> 64), low: low as u64 }
    }

    /// `self − other`; `other` must not be larger.
    fn minus(self, other: Self) -> f64 {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        (self.high - other.high - u128::from(borrow)) as f64 * 18_446_744_073_709_551_616.0 + low as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK_MAX: u64 = 1 << 40;

    fn parabola(now: u64) -> impl Strategy<Value = Parabola> {
        let age = (0u32..41, any::<u64>()).prop_map(|(bits, x)| x & ((1 << bits) - 1));
        let since = age.prop_map(move |age| now.saturating_sub(age)).boxed();
        (1u32..=1 << 16, since.clone(), since, 0u32..=32, any::<u32>()).prop_map(|(gain, a, b, bits, ec)| {
            let erases = (u64::from(ec) & ((1 << bits) - 1)) + 1;
            Parabola { gain, since: [a, b], divisor: erases * (2 * (1 << 16) - u64::from(gain)) }
        })
    }

    fn matches() -> impl Strategy<Value = (u64, Parabola, Parabola)> {
        (1u64..TICK_MAX).prop_flat_map(|now| (Just(now), parabola(now), parabola(now)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_curve_overtakes_before_its_time((now, a, b) in matches(), probes: [u64; 16]) {
            let (mut loser, mut winner) = (a, b);
            if loser.compare(&winner, now).is_gt() {
                std::mem::swap(&mut loser, &mut winner);
            }
            // The loser overtakes after a few calls of `overtakes`, or never.
            let (mut tick, mut looks) = (now, 0);
            while tick < 2 * TICK_MAX && loser.compare(&winner, tick).is_le() {
                let next = loser.overtakes(&winner, tick);
                prop_assert!(next > tick);
                let last = next.min(4 * TICK_MAX) - 1;
                for probe in probes.iter().map(|probe| tick + probe % (last - tick + 1)).chain([last]) {
                    prop_assert!(loser.compare(&winner, probe).is_le(), "at {probe}, not before {next}");
                }
                tick = next;
                looks += 1;
                prop_assert!(looks <= 6, "{loser:?} {winner:?}");
            }
        }

        #[test]
        fn products_are_wide_enough(a: u128, b: u64, c: u32) {
            let product = Wide::product(a, b);
            prop_assert_eq!(product.low, (a as u64).wrapping_mul(b));
            // (a·b + a·c) = a·(b + c)
            if let Some(sum) = b.checked_add(u64::from(c)) {
                let gap = Wide::product(a, sum).minus(product);
                let exact = a as f64 * f64::from(c);
                prop_assert!((gap - exact).abs() <= exact * 1e-15);
            }
        }
    }
}
