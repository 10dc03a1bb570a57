//! Zipf's law on 1..=n, exactly, in constant time and memory.

use super::draw::Draw;
use strobe_types::Prng;

/// Draws rank k − 1 with probability proportional to k^−θ, for k in 1..=n and any θ > 0.
///
/// Rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates
/// from monotone discrete distributions"): draw x from the continuous density x^−θ by inverting
/// its integral H, round to k, and accept k with exactly the probability that corrects for the
/// rounding. More than three draws in four are accepted whatever θ and n. fio and YCSB use an
/// approximation (Gray et al. 1994) that excludes θ = 1.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// H(3/2) − h(1) and H(n + 1/2): the ends of the interval that is inverted.
    area_first: f64,
    area_last: f64,
    /// Draws that are rounded up by no more than this are accepted without a look at H.
    squeeze: f64,
}

impl Zipf {
    /// Zipf's law with exponent `theta` > 0 over `ranks` ≥ 1 ranks.
    pub(super) fn new(ranks: u32, theta: f64) -> Self {
        let squeeze = 2.0 - inverse_area(area(2.5, theta) - density(2.0, theta), theta);
        let ranks = f64::from(ranks);
        Self {
            ranks,
            theta,
            area_first: area(1.5, theta) - 1.0,
            area_last: area(ranks + 0.5, theta),
            squeeze,
        }
    }
}

impl Draw for Zipf {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng) -> u32 {
        loop {
            let u = self.area_last + rng.unit() * (self.area_first - self.area_last);
            let x = inverse_area(u, self.theta);
            // Rounding errors may lead a hair outside, and for huge θ the far end to infinity.
            let k = libm::floor(x + 0.5).clamp(1.0, self.ranks);
            if k - x <= self.squeeze || u >= area(k + 0.5, self.theta) - density(k, self.theta) {
                return k as u32 - 1;
            }
        }
    }
}

/// h(x) = x^−θ.
fn density(x: f64, theta: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// H(x), the integral of h from 1 to x: (x^(1−θ) − 1)/(1 − θ), or log x for θ = 1.
fn area(x: f64, theta: f64) -> f64 {
    let log_x = libm::log(x);
    let t = (1.0 - theta) * log_x;
    // (eᵗ − 1)/t is smooth at 0, so θ near 1 needs no special formula but for the quotient.
    let slope = if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t * 0.5 };
    slope * log_x
}

/// The x with H(x) = `area`.
fn inverse_area(area: f64, theta: f64) -> f64 {
    let t = (area * (1.0 - theta)).max(-1.0);
    let slope = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * 0.5 };
    libm::exp(slope * area)
}
