//! WA under skewed writes: without separation of hot and cold data, and with perfect separation. A hot/cold
//! policy must lie between the two.

use super::{fifo, greedy, proper_share};

/// Result of perfect hot/cold separation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// WA of both parts together at the best split of the spare space.
    pub write_amplification: f64,
    /// Share of the spare space for the hot part at that split, 0 to 1.
    pub hot_spare_share: f64,
}

/// WA of FIFO (= LRU) garbage collection with hot and cold data in the same blocks (Desnoyers
/// 2012).
///
/// Solves WA = Σ rₖ/(1 − e^(−rₖ/(fₖ·ρ·WA))). Each class is a pair (fₖ, rₖ): the share fₖ > 0 of the
/// addresses receives the share rₖ ≥ 0 of the writes, uniformly. The shares must each add up to 1.
/// A single class (1, 1) is [`super::fifo`].
pub fn hot_cold_fifo(rho: f64, classes: &[(f64, f64)]) -> Option<f64> {
    let rho = proper_share(rho)?;
    let (mut addresses, mut writes) = (0.0, 0.0);
    for &(f, r) in classes {
        if !(f > 0.0 && r >= 0.0) {
            return None;
        }
        addresses += f;
        writes += r;
    }
    let adds_up = |sum: f64| (sum - 1.0).abs() <= 1e-9;
    if !(adds_up(addresses) && adds_up(writes)) {
        return None;
    }
    let programs = |wa: f64| {
        let programs_of = |&(f, r): &(f64, f64)| {
            let invalidated = -libm::expm1(-r / (f * rho * wa));
            // A class that is never written is relocated whole: the limit for r → 0.
            if invalidated > 0.0 { r / invalidated } else { f * rho * wa }
        };
        classes.iter().map(programs_of).sum::<f64>()
    };
    // `programs` is convex, at least 1 at WA = 1, and below WA for large WA (its slope tends to ρ):
    // there is a single crossing.
    let (mut low, mut high) = (1.0, 2.0);
    while programs(high) > high {
        low = high;
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if programs(middle) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

/// Least WA of FIFO garbage collection with hot and cold data in separate blocks and the best split
/// of the spare space: min Σ rₖ·WA(ρₖ).
///
/// Share `f` of the addresses receives share `r` of the writes, both strictly between 0 and 1.
pub fn hot_cold_separated_fifo(rho: f64, f: f64, r: f64) -> Option<Separation> {
    separate(rho, f, r, fifo)
}

/// Least WA as in [`hot_cold_separated_fifo`], but with [`greedy`] garbage collection and blocks of
/// `units_per_block` units.
///
/// The table in `docs/MODEL.md`, section 7, uses [`super::greedy_desnoyers`] instead, which is up
/// to 0.25 % lower.
pub fn hot_cold_separated_greedy(rho: f64, units_per_block: u32, f: f64, r: f64) -> Option<Separation> {
    separate(rho, f, r, |rho| greedy(rho, units_per_block))
}

pub(super) fn separate(rho: f64, f: f64, r: f64, wa_of: impl Fn(f64) -> Option<f64>) -> Option<Separation> {
    let (rho, f, r) = (proper_share(rho)?, proper_share(f)?, proper_share(r)?);
    let part = |data: f64, spare: f64| wa_of(data / (data + spare)).unwrap_or(f64::INFINITY);
    let wa_at = |split: f64| {
        let spare = 1.0 - rho;
        r * part(f * rho, split * spare) + (1.0 - r) * part((1.0 - f) * rho, (1.0 - split) * spare)
    };
    // A coarse scan finds the minimum's interval despite the small kinks of finite blocks; a
    // golden-section search refines it.
    const STEPS: u32 = 200;
    let step = 1.0 / f64::from(STEPS);
    let mut best = (f64::INFINITY, 0.5);
    for i in 1..STEPS {
        let split = f64::from(i) * step;
        let wa = wa_at(split);
        if wa < best.0 {
            best = (wa, split);
        }
    }
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut low, mut high) = (best.1 - step, best.1 + step);
    for _ in 0..60 {
        let left = high - golden * (high - low);
        let right = low + golden * (high - low);
        if wa_at(left) < wa_at(right) {
            high = right;
        } else {
            low = left;
        }
    }
    let hot_spare_share = 0.5 * (low + high);
    let write_amplification = wa_at(hot_spare_share);
    write_amplification.is_finite().then_some(Separation { write_amplification, hot_spare_share })
}
