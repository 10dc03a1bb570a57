//! Closed forms for workloads that can be solved on paper.
//!
//! Every function is pure and independent of the simulator, so agreement is evidence. Common terms:
//!
//! * `rho` (ρ, 0 < ρ < 1): logical units over the physical units that take part in garbage
//!   collection. The free reserve and open blocks are excluded; including them costs several per
//!   cent of accuracy. See [`effective_rho`].
//! * `units_per_block` (b ≥ 1): mapping units in an erase block.
//! * WA, write amplification (≥ 1): units programmed by host and garbage collection, per unit
//!   written by the host.
//!
//! The forms hold in a long steady state: single-unit writes, many blocks (1 % from about 2000 on)
//! and many overwrites after the fill (about 12 drive sizes, 40 under skew). Outside the domain and
//! for non-finite numbers every function returns `None`. All mathematics uses `libm`: results are
//! bit-identical on every platform.

mod greedy;
mod hot_cold;
mod queue;
#[cfg(test)]
mod tests;

pub use greedy::{d_choices, greedy, greedy_desnoyers};
pub use hot_cold::{Separation, hot_cold_fifo, hot_cold_separated_fifo, hot_cold_separated_greedy};
pub use queue::md1_wait_ns;

/// 1/e, rounded up, so that −1/e bounds the domain of [`lambert_w0`].
const ONE_OVER_E: f64 = 0.367_879_441_171_442_33;

/// Principal branch of Lambert's W: the w ≥ −1 with w·eʷ = x, for −1/e ≤ x ≤ 0.
///
/// Uses Halley's iteration (Corless et al. 1996). Near the branch point −1/e, where the tangent is
/// vertical, it uses the power series in √(2(e·x + 1)).
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
    // Far from the branch point the series is poor (0.14 at x = 0), so start from x.
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

/// WA of FIFO (= LRU) garbage collection under uniform writes, for any block size (Desnoyers 2012;
/// Xiang and Kurkoski 2012).
///
/// It is 1/(1 − u), where u = −ρ·W₀(−e^(−1/ρ)/ρ) is the share of valid units in a victim. It is
/// also the limit of [`greedy`] for large blocks. At least ten digits are exact up to ρ = 0.999.
pub fn fifo(rho: f64) -> Option<f64> {
    let alpha = 1.0 / proper_share(rho)?;
    let x = (-alpha * libm::exp(-alpha)).max(-ONE_OVER_E);
    Some(alpha / (alpha + lambert_w0(x)?))
}

/// WA of random victims: 1/(1 − ρ), for any block size and any write pattern independent of the
/// victims.
pub fn random_victim(rho: f64) -> Option<f64> {
    Some(1.0 / (1.0 - proper_share(rho)?))
}

/// Effective ρ when a request trims a random slot in use with probability `q` and otherwise writes
/// a random slot: ρ·(1 − 2q)/(1 − q) (Frankie et al. 2012).
///
/// Defined for 0 ≤ q < ½; from ½ on no slot stays in use. The second factor is the long-run share
/// of slots in use. The substitution holds for every uniform-write formula here.
pub fn trim_rho(rho: f64, q: f64) -> Option<f64> {
    let rho = proper_share(rho)?;
    (0.0..0.5).contains(&q).then(|| rho * (1.0 - 2.0 * q) / (1.0 - q))
}

/// ρ as the formulas define it: logical units over the units of all blocks except
/// `reserved_blocks`.
///
/// Reserved blocks are the free reserve and the open blocks. `None` if the result is not strictly
/// between 0 and 1.
pub fn effective_rho(
    logical_units: u64,
    physical_blocks: u64,
    units_per_block: u64,
    reserved_blocks: u64,
) -> Option<f64> {
    let blocks = physical_blocks.checked_sub(reserved_blocks)?;
    proper_share(logical_units as f64 / (blocks as f64 * units_per_block as f64))
}

fn proper_share(x: f64) -> Option<f64> {
    (x > 0.0 && x < 1.0).then_some(x)
}
