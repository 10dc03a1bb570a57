//! Writes of unequal frequency: what a drive without separation must show, and the best that
//! perfect separation could reach. A policy that tells hot from cold must land between the two.

use super::{fifo, greedy, proper_share};

/// The outcome of separating hot from cold data perfectly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// WA of both parts together, at the best split of the spare space.
    pub write_amplification: f64,
    /// The share of the spare space that the hot part gets at that split, 0 to 1.
    pub hot_spare_share: f64,
}

/// WA of FIFO (= LRU) garbage collection, hot and cold data mixed in the same blocks (Desnoyers
/// 2012): the solution of WA = Σ rₖ/(1 − e^(−rₖ/(fₖ·ρ·WA))).
///
/// Each class is a pair (fₖ, rₖ): the share fₖ > 0 of the addresses receives the share rₖ ≥ 0 of
/// the writes, uniformly within the class. Both shares must add up to 1. One class (1, 1) is
/// [`super::fifo`].
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
            // A class that is never written is carried round whole: the limit for r → 0.
            if invalidated > 0.0 { r / invalidated } else { f * rho * wa }
        };
        classes.iter().map(programs_of).sum::<f64>()
    };
    // `programs` is convex, at least 1 at WA = 1 and below WA for large WA (its slope tends to
    // ρ), hence a single crossing.
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

/// The least WA of FIFO garbage collection when hot and cold data live in blocks of their own
/// and the spare space is split in the best way: min Σ rₖ·WA(ρₖ). Share `f` of the addresses
/// receives share `r` of the writes, both strictly between 0 and 1.
pub fn hot_cold_separated_fifo(rho: f64, f: f64, r: f64) -> Option<Separation> {
    separate(rho, f, r, fifo)
}

/// As [`hot_cold_separated_fifo`], with greedy garbage collection in blocks of
/// `units_per_block` units, by the finite-block formula [`greedy`]. (`docs/MODEL.md`, section 7,
/// tabulates this with [`super::greedy_desnoyers`] in its place, which reads up to 0.25 % lower.)
pub fn hot_cold_separated_greedy(rho: f64, units_per_block: u32, f: f64, r: f64) -> Option<Separation> {
    separate(rho, f, r, |rho| greedy(rho, units_per_block))
}

/// Finds the best split for parts whose WA alone is `wa_of`.
pub(super) fn separate(rho: f64, f: f64, r: f64, wa_of: impl Fn(f64) -> Option<f64>) -> Option<Separation> {
    let (rho, f, r) = (proper_share(rho)?, proper_share(f)?, proper_share(r)?);
    let part = |data: f64, spare: f64| wa_of(data / (data + spare)).unwrap_or(f64::INFINITY);
    let wa_at = |split: f64| {
        let spare = 1.0 - rho;
        r * part(f * rho, split * spare) + (1.0 - r) * part((1.0 - f) * rho, (1.0 - split) * spare)
    };
    // A coarse scan finds the valley (finite blocks give the curve small kinks), a golden-section
    // search its floor.
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
