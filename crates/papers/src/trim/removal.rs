//! Host time to remove a file, the only number fitted to the paper's deletions.

/// Excess of deletions per second with 64 ranges per command in the paper, in percent (figure 7).
pub(super) const FASTER: f64 = 35.0;

/// Tried removal times, ascending.
pub(super) const TRIED_NS: [u32; 9] =
    [160_000, 180_000, 200_000, 220_000, 240_000, 260_000, 290_000, 320_000, 360_000];

/// A fitted removal time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Removal {
    /// A whole number of µs.
    pub(super) ns: u32,
    /// True if the paper's gain lies within the tried range; otherwise the nearest time is used.
    pub(super) is_within: bool,
    /// Tried times in ns, each with the gain of deletions in percent.
    pub(super) tried: Vec<(u32, f64)>,
}

impl Removal {
    /// Fits the time to `tried`, at least three in ascending order.
    pub(super) fn fitted(tried: Vec<(u32, f64)>) -> Self {
        // The gain is not a smooth function of the time: the journal commits at fixed intervals, and a single
        // run depends on the progress of the last commit. Each time is therefore averaged with its two
        // neighbours, and no form of the curve is assumed.
        let means = means(&tried);
        // The gain falls as removals take longer; noise may cross more than once, so take the first crossing.
        let passes = means.windows(2).find(|pair| pair[0].1 >= FASTER && pair[1].1 < FASTER);
        let at = passes.map(|pair| {
            let part = (pair[0].1 - FASTER) / (pair[0].1 - pair[1].1);
            f64::from(pair[0].0) + part * f64::from(pair[1].0 - pair[0].0)
        });
        let off = |of: &&(u32, f64)| (of.1 - FASTER).abs();
        let nearest = || means.iter().min_by(|a, b| off(a).total_cmp(&off(b))).map_or(0.0, |of| of.0.into());
        let us = (at.unwrap_or_else(nearest) / 1000.0).round() as u32;
        Self { ns: us * 1000, is_within: at.is_some(), tried }
    }

    /// Mean gain of each time and its two neighbours, the basis of the fit.
    pub(super) fn means(&self) -> Vec<(u32, f64)> {
        means(&self.tried)
    }
}

fn means(tried: &[(u32, f64)]) -> Vec<(u32, f64)> {
    tried.windows(3).map(|of| (of[1].0, of.iter().map(|of| of.1).sum::<f64>() / 3.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 80 % at the least time to 0 % at the largest, with alternating `noise`.
    fn tried(noise: f64) -> Vec<(u32, f64)> {
        let gain = |ns: u32| 80.0 * f64::from(360_000 - ns) / 200_000.0;
        TRIED_NS
            .iter()
            .zip([1.0, -1.0].iter().cycle())
            .map(|(&ns, sign)| (ns, gain(ns) + sign * noise))
            .collect()
    }

    #[test]
    fn the_fit_is_where_the_mean_of_three_passes_what_the_paper_has() {
        // 360 - 200 · 35 / 80 = 272.5 µs. Around 260 µs the mean of three is that of 263.3, since the times
        // are not equidistant.
        let fit = Removal::fitted(tried(0.0));
        assert!(fit.is_within && fit.ns.abs_diff(272_500) < 4_000, "{fit:?}");
        let noisy = Removal::fitted(tried(9.0));
        assert!(noisy.is_within && noisy.ns.abs_diff(272_500) < 12_000, "{noisy:?}");
        assert_eq!(fit.means().len(), TRIED_NS.len() - 2);
    }

    #[test]
    fn what_no_time_gives_is_said_and_the_nearest_one_is_taken() {
        let all_less = tried(0.0).into_iter().map(|(ns, gain)| (ns, gain / 20.0)).collect();
        let fit = Removal::fitted(all_less);
        assert_eq!((fit.ns, fit.is_within), (TRIED_NS[1], false));
    }
}
