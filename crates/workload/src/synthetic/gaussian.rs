use super::draw::Draw;
use strobe_types::{Op, Prng, State};

#[derive(Clone, Debug, State)]
pub(super) struct Gaussian {
    #[state(skip)]
    slots: f64,
    #[state(skip)]
    deviation: f64,
    #[state(skip)]
    uniform_share: f64,
    spare: Option<f64>,
}

impl Gaussian {
    pub(super) fn new(slots: u32, sigma: f64, uniform_share: f64) -> Self {
        let slots = f64::from(slots);
        Self { slots, deviation: slots * sigma, uniform_share, spare: None }
    }

    /// Marsaglia's polar method: exact, with only `log` and `sqrt`.
    #[inline(always)]
    fn normal(&mut self, rng: &mut Prng) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * rng.unit() - 1.0;
            let y = 2.0 * rng.unit() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * libm::log(square) / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

impl Draw for Gaussian {
    #[inline(always)]
    fn slot(&mut self, rng: &mut Prng, _op: Op) -> u32 {
        // Without a uniform share no number is drawn: the random stream is part of the interface.
        if self.uniform_share > 0.0 && rng.chance(self.uniform_share) {
            return rng.below(self.slots as u32);
        }
        loop {
            let position = 0.5 * self.slots + self.deviation * self.normal(rng);
            if position >= 0.0 && position < self.slots {
                return position as u32;
            }
        }
    }
}

/// Largest hot share: 2·√(1/(2πe)), rounded down. Flatter bells have smaller hot shares again.
pub(super) const HOT_SHARE_MAX: f64 = 0.48;

/// Standard deviation, as a share of the range, with the share `hot_share` of slots written more often than
/// the average slot. `None` unless 0 < `hot_share` ≤ 0.48.
///
/// Solves h = 2s·√(2·ln(1/(s·√(2π)))), the width of the bell above the mean density. The hot shares of Hwang
/// & Kwak 2016 (CAPi), h = .35, .30, .20, .10, give .108, .0854, .0488, .0205. The small part of the bell
/// outside the range is neglected, which changes h by some per cent at the largest shares.
pub fn gaussian_sigma(hot_share: f64) -> Option<f64> {
    if !(hot_share > 0.0 && hot_share <= HOT_SHARE_MAX) {
        return None;
    }
    let sqrt_2pi = (2.0 * std::f64::consts::PI).sqrt();
    let share_above_mean = |s: f64| 2.0 * s * (-2.0 * libm::log(s * sqrt_2pi)).sqrt();
    // The share grows with s up to s = 1/√(2πe), where it is 2s.
    let (mut low, mut high) = (0.0, 1.0 / (sqrt_2pi * std::f64::consts::E.sqrt()));
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if share_above_mean(middle) < hot_share {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}
