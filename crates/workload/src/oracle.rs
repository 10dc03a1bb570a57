//! Closed forms: what a correct drive must show for workloads that can be solved on paper.
//!
//! Every function is pure and knows nothing of the simulator, so agreement is evidence. Common
//! terms:
//!
//! * `rho` (ρ, 0 < ρ < 1): logical units over the physical units that take part in garbage
//!   collection. The free reserve and the blocks being filled do not take part; with them
//!   included the formulas miss by several per cent. [`effective_rho`] does the subtraction.
//! * `units_per_block` (b ≥ 1): mapping units in an erase block.
//! * WA, write amplification: units programmed, by host and garbage collection together, per
//!   unit written by the host; ≥ 1.
//!
//! The forms hold for a long steady state: many blocks (1 % from about 2000 on), many overwrites
//! after the fill (about 12 drive sizes, 40 under skew), single-unit writes. Outside the stated
//! domain, and for numbers that are not finite, every function answers `None`. All mathematics
//! goes through `libm`, so the answers are the same bits on every platform.

mod greedy;
mod hot_cold;
mod queue;
#[cfg(test)]
mod tests;

pub use greedy::{d_choices, greedy, greedy_desnoyers};
pub use hot_cold::{Separation, hot_cold_fifo, hot_cold_separated_fifo, hot_cold_separated_greedy};
pub use queue::md1_wait_ns;

/// The double nearest to 1/e; it lies a hair above, so it bounds the domain of [`lambert_w0`].
const ONE_OVER_E: f64 = 0.367_879_441_171_442_33;

/// The principal branch of Lambert's W, the w ≥ −1 with w·eʷ = x, for −1/e ≤ x ≤ 0.
///
/// Halley's iteration, as in Corless et al. 1996. Near the branch point −1/e, where the function
/// has a vertical tangent, the power series in √(2(e·x + 1)) takes over.
pub fn lambert_w0(x: f64) -> Option<f64> {
    if !(-ONE_OVER_E..=0.0).contains(&x) {
        return None;
    }
    let p = (2.0 * (std::f64::consts::E * x + 1.0)).max(0.0).sqrt();
    let near_branch_point =
        -1.0 + p * (1.0 + p * (-1.0 / 3.0 + p * (11.0 / 72.0 + p * (-43.0 / 540.0 + p * (769.0 / 17280.0)))));
    if p < 1e-3 {
        return Some(near_branch_point);
    }
    // Far from the branch point the series is poor (it gives 0.14 at x = 0), x itself is not.
    let mut w = if p < 0.7 { near_branch_point } else { x };
    for _ in 0..20 {
        let exp = libm::exp(w);
        let error = w * exp - x;
        let step = error / (exp * (w + 1.0) - (w + 2.0) * error / (2.0 * w + 2.0));
        w -= step;
        if step.abs() <= 1e-16 * w.abs() {
            break;
        }
    }
    Some(w)
}

/// WA of FIFO (= LRU) garbage collection under uniform writes, for any block size: 1/(1 − u)
/// with u = −ρ·W₀(−e^(−1/ρ)/ρ) the share of valid units in a victim (Desnoyers 2012; Xiang and
/// Kurkoski 2012). Also the limit of [`greedy`] for large blocks.
///
/// At least ten digits are good up to ρ = 0.999.
pub fn fifo(rho: f64) -> Option<f64> {
    let alpha = 1.0 / proper_share(rho)?;
    let x = (-alpha * libm::exp(-alpha)).max(-ONE_OVER_E);
    Some(alpha / (alpha + lambert_w0(x)?))
}

/// WA when the victim is a random block: 1/(1 − ρ), under any write pattern that does not look
/// at the victims and for any block size.
pub fn random_victim(rho: f64) -> Option<f64> {
    Some(1.0 / (1.0 - proper_share(rho)?))
}

/// The ρ that takes the place of `rho` when every request trims a random slot in use with
/// probability `q` and otherwise writes a random slot (Frankie et al. 2012): ρ·(1 − 2q)/(1 − q).
/// Defined for 0 ≤ q < ½; from ½ on nothing stays in use.
///
/// The second factor is the share of slots in use in the long run; the same substitution holds
/// for every uniform-write formula here.
pub fn trim_rho(rho: f64, q: f64) -> Option<f64> {
    let rho = proper_share(rho)?;
    (0.0..0.5).contains(&q).then(|| rho * (1.0 - 2.0 * q) / (1.0 - q))
}

/// The ρ that the formulas mean: logical units over the units of all blocks but
/// `reserved_blocks`, the free reserve and the open blocks together. `None` if that is not
/// strictly between 0 and 1.
pub fn effective_rho(
    logical_units: u64,
    physical_blocks: u64,
    units_per_block: u64,
    reserved_blocks: u64,
) -> Option<f64> {
    let blocks = physical_blocks.checked_sub(reserved_blocks)?;
    proper_share(logical_units as f64 / (blocks as f64 * units_per_block as f64))
}

/// `x`, if strictly between 0 and 1.
fn proper_share(x: f64) -> Option<f64> {
    (x > 0.0 && x < 1.0).then_some(x)
}
