//! Exact Zipf sampling on 1..=n in constant time and memory.

use super::draw::Draw;
use strobe_types::{Op, Prng};

/// Draws rank k − 1 with probability proportional to k^−θ, for k in 1..=n and any θ > 0.
///
/// Rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates from monotone
/// discrete distributions").
///
/// More than three draws in four are accepted for any θ and n. fio and YCSB use an approximation (Gray et al.
/// 1994) that excludes θ = 1. Ranks with a total probability of about 10⁻¹³ or less blur together in double
/// precision.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// Ends of the area drawn from: H(3/2) − h(1) and H(n + 1/2).
    area_first: f64,
    area_last: f64,
    head: Head,
    /// Largest rounding up at which a draw past the table is accepted without evaluating H.
    squeeze: f64,
}

impl Zipf {
    pub(super) fn new(ranks: u32, theta: f64) -> Self {
        let head_ranks = ranks.min(HEAD_RANKS);
        let area_first = area(1.5, theta) - 1.0;
        // The bound grows with k, so the first rank past the table gives the bound that holds for all.
        let next = f64::from(head_ranks) + 1.0;
        let squeeze = next - inverse_area(accepted_from(next, theta), theta);
        let ranks = f64::from(ranks);
        Self {
            ranks,
            theta,
            area_first,
            area_last: area(ranks + 0.5, theta),
            head: Head::new(head_ranks, theta, area_first),
            squeeze,
        }
    }
}

impl Draw for Zipf {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng, _op: Op) -> u32 {
        loop {
            // Draw x from the continuous density x^−θ by inverting its integral H, round it to k, and accept
            // k with the probability that corrects for the rounding.
            let u = self.area_last + rng.unit() * (self.area_first - self.area_last);
            // Inverting H costs a logarithm and an exponential; a table makes the same decisions for the
            // first ranks.
            if u < self.head.end {
                let (rank, accepted_from) = self.head.find(u);
                if u >= accepted_from {
                    return rank;
                }
                continue;
            }
            let x = inverse_area(u, self.theta);
            // Rounding may leave the range slightly, and for huge θ the far end is infinite.
            let k = libm::floor(x + 0.5).clamp(1.0, self.ranks);
            if k - x <= self.squeeze || u >= accepted_from(k, self.theta) {
                return k as u32 - 1;
            }
        }
    }
}

/// Ranks in the table: 32 kB, about the size of an L1 cache.
const HEAD_RANKS: u32 = 2048;

#[derive(Clone, Debug)]
struct Head {
    /// For each rank k − 1: its end, H(k + 1/2), and the least area that is accepted.
    ranks: Vec<(f64, f64)>,
    /// For each of equal pieces of the area: the first rank that ends in or after the piece.
    guide: Vec<u16>,
    start: f64,
    pieces_per_area: f64,
    end: f64,
}

impl Head {
    fn new(count: u32, theta: f64, start: f64) -> Self {
        let mut end = start;
        let ranks: Vec<_> = (1..=count)
            .map(|k| {
                let k = f64::from(k);
                // For large θ the area is constant up to rounding; keep it monotone.
                end = area(k + 0.5, theta).max(end);
                (end, accepted_from(k, theta))
            })
            .collect();
        let pieces = 2 * HEAD_RANKS;
        let mut head =
            Self { ranks, guide: Vec::new(), start, pieces_per_area: f64::from(pieces) / (end - start), end };
        let mut rank = 0;
        for piece in 0..=pieces as usize {
            while rank + 1 < head.ranks.len() && head.piece(head.ranks[rank].0) < piece {
                rank += 1;
            }
            head.guide.push(rank as u16);
        }
        head
    }

    /// Rank that contains area `u` < `end`, and the least area accepted for it.
    #[inline(always)]
    fn find(&self, u: f64) -> (u32, f64) {
        let mut rank = usize::from(self.guide[self.piece(u)]);
        while u >= self.ranks[rank].0 {
            rank += 1;
        }
        (rank as u32, self.ranks[rank].1)
    }

    #[inline(always)]
    fn piece(&self, u: f64) -> usize {
        // Monotone in `u` despite rounding, as the guide requires.
        (((u - self.start) * self.pieces_per_area) as usize).min(2 * HEAD_RANKS as usize)
    }
}

fn accepted_from(k: f64, theta: f64) -> f64 {
    area(k + 0.5, theta) - density(k, theta)
}

fn density(x: f64, theta: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// H(x), the integral of h from 1 to x: (x^(1−θ) − 1)/(1 − θ), or log x for θ = 1.
fn area(x: f64, theta: f64) -> f64 {
    let log_x = libm::log(x);
    let t = (1.0 - theta) * log_x;
    // (eᵗ − 1)/t is smooth at 0; only the quotient needs a series near θ = 1.
    let slope = if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t * 0.5 };
    slope * log_x
}

fn inverse_area(area: f64, theta: f64) -> f64 {
    let t = (area * (1.0 - theta)).max(-1.0);
    let slope = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * 0.5 };
    libm::exp(slope * area)
}
