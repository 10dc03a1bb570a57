//! Greedy and d-choices victim selection under uniform writes.
//!
//! Both use one model. Sort blocks by their number of valid units ("level"); mᵢ is the share of blocks at
//! level i. Between two erasures a block at level i loses one unit with rate λ·i, so mᵢ·λ·i blocks move down
//! to level i − 1. The erased block re-enters at level b. In steady state the flow down past a level equals
//! the erasures below that level.

use super::{ONE_OVER_E, lambert_w0, proper_share};

/// WA of greedy garbage collection (fewest valid units first) under uniform writes.
///
/// In steady state no block survives below some level j. Above j every level carries the full flow:
/// mᵢ = 1/(λ·i). The share x at level j follows from the number of valid units. Victims come from j
/// and j − 1. Cost O(b).
pub fn greedy(rho: f64, units_per_block: u32) -> Option<f64> {
    let rho = proper_share(rho)?;
    let b = f64::from(units_per_block);
    // Sum of 1/i for i in j+1..=b, updated as j decreases.
    let mut tail = 0.0;
    for level in (0..units_per_block).rev() {
        let j = f64::from(level);
        tail += 1.0 / (j + 1.0);
        let x = (tail * b * rho - (b - j)) / (tail * j - (b - j));
        let flow_to_next = x * j * tail / (1.0 - x);
        // The solutions of adjacent levels agree at their common boundary, so a rounding error is harmless.
        if x > -1e-9 && (-1e-9..=1.0 + 1e-9).contains(&flow_to_next) {
            let victim_units = j - flow_to_next.clamp(0.0, 1.0);
            return Some(b / (b - victim_units.max(0.0)));
        }
    }
    None
}

/// WA of greedy garbage collection under uniform writes, as a closed approximation of [`greedy`]
/// (Desnoyers 2012).
///
/// b/(b − X₀ + 1) with X₀ = ½ − (b/α)·W₀(−κ·e^(−κ)), κ = (1 + 1/2b)·α, α = 1/ρ. Within 0.4 % of
/// [`greedy`] for b ≥ 64 and 0.3 ≤ ρ ≤ 0.96; worse for small blocks (4 % at b = 16, ρ = 0.95).
pub fn greedy_desnoyers(rho: f64, units_per_block: u32) -> Option<f64> {
    let alpha = 1.0 / proper_share(rho)?;
    if units_per_block == 0 {
        return None;
    }
    let b = f64::from(units_per_block);
    let kappa = (1.0 + 0.5 / b) * alpha;
    let w = lambert_w0((-kappa * libm::exp(-kappa)).max(-ONE_OVER_E))?;
    let victim_units = 0.5 - b / alpha * w;
    Some(b / (b - victim_units + 1.0))
}

/// WA under uniform writes when the victim is the emptiest of `d` random blocks (Van Houdt 2013).
///
/// `d` = 1 is [`super::random_victim`]; large `d` approaches [`greedy`]. Solves the fixed point
/// mᵢ·λ·i = 1 − sᵢᵈ, where sᵢ = Σ mₖ over k ≥ i; sᵢᵈ is the probability that all d candidates are
/// at level i or above. λ makes the valid units add up, and WA = 1/(λ·ρ). Cost O(b) for each of
/// about 100 bisection steps.
pub fn d_choices(rho: f64, units_per_block: u32, d: u32) -> Option<f64> {
    let rho = proper_share(rho)?;
    if units_per_block == 0 || d == 0 {
        return None;
    }
    // Faster invalidation leaves fewer valid units. WA lies between 1 and the value for random
    // victims, which brackets λ = 1/(WA·ρ).
    let (mut slow, mut fast) = ((1.0 - rho) / rho * 0.999, 1.0 / rho * 1.001);
    for _ in 0..100 {
        let middle = 0.5 * (slow + fast);
        if valid_share(middle, units_per_block, d) > rho {
            slow = middle;
        } else {
            fast = middle;
        }
    }
    Some((2.0 / ((slow + fast) * rho)).max(1.0))
}

fn valid_share(lambda: f64, units_per_block: u32, d: u32) -> f64 {
    let mut above = 0.0;
    let mut units = 0.0;
    for level in (1..=units_per_block).rev() {
        let i = f64::from(level);
        // Root m of λ·i·m + (above + m)ᵈ = 1. The left side is convex and increasing, so Newton's
        // method from the right end converges monotonically.
        let mut m = 1.0 - above;
        for _ in 0..64 {
            let lower_power = power(above + m, d - 1);
            let error = lambda * i * m + lower_power * (above + m) - 1.0;
            let step = error / (lambda * i + f64::from(d) * lower_power);
            m -= step;
            if step <= 1e-15 * m {
                break;
            }
        }
        let m = m.max(0.0);
        above = (above + m).min(1.0);
        units += i * m;
    }
    units / f64::from(units_per_block)
}

fn power(mut base: f64, mut exponent: u32) -> f64 {
    // Repeated squaring, since `f64::powi` may differ between platforms.
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}
