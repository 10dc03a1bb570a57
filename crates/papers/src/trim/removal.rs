//! The host's time for the removal of a file: the one number that is fitted to what the paper says of deletions.

/// By how many percent more files the paper deletes in a second with 64 ranges a command (figure 7).
pub(super) const FASTER: f64 = 35.0;

/// Times of a removal that are tried, in ns.
pub(super) const TRIED_NS: [u32; 9] =
    [160_000, 180_000, 200_000, 220_000, 240_000, 260_000, 290_000, 320_000, 360_000];

/// A time of a removal, and how it was found.
///
/// How much faster deletions become is no smooth function of that time: commits of the journal come every so many
/// seconds, and how far the last one has got when the program ends moves a single run by many points. So a line is
/// laid through several times, ln(1 + gain) over ln(time), and the fit is where that line gives what the paper has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Removal {
    /// In ns, a whole number of µs.
    pub(super) ns: u32,
    /// Standard deviation of what was measured from the line, in points.
    pub(super) scatter: f64,
    /// Whether the paper's gain lies within what was tried; else the nearest time is taken.
    pub(super) is_within: bool,
    /// What was tried: the time in ns, and by how many percent deletions became faster.
    pub(super) tried: Vec<(u32, f64)>,
    /// The line: ln(1 + gain) = of[0] + of[1] · ln(ns).
    of: [f64; 2],
}

impl Removal {
    /// Fits the time to `tried`, at least two different ones, by least squares.
    pub(super) fn fitted(tried: Vec<(u32, f64)>) -> Self {
        let points = || tried.iter().map(|&(ns, faster)| (libm::log(ns.into()), libm::log1p(faster / 100.0)));
        let n = tried.len() as f64;
        let (x, y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
        let of_x = |at: (f64, f64)| at.0 - x;
        let slope = points().map(|at| of_x(at) * (at.1 - y)).sum::<f64>()
            / points().map(|at| of_x(at) * of_x(at)).sum::<f64>();
        let of = [y - slope * x, slope];
        let wanted = libm::exp((libm::log1p(FASTER / 100.0) - of[0]) / slope);
        let least = tried.iter().map(|&(ns, _)| ns).min().unwrap_or(0);
        let most = tried.iter().map(|&(ns, _)| ns).max().unwrap_or(0);
        let is_within = slope < 0.0 && (f64::from(least)..=f64::from(most)).contains(&wanted);
        let nearest = wanted.clamp(least.into(), most.into());
        let mut fit =
            Self { ns: (nearest / 1000.0).round() as u32 * 1000, scatter: 0.0, is_within, tried, of };
        let squares =
            fit.tried.iter().map(|&(ns, faster)| faster - fit.line(ns)).map(|off| off * off).sum::<f64>();
        fit.scatter = (squares / (n - 2.0).max(1.0)).sqrt();
        fit
    }

    /// What the line gives for a removal of `ns`, in percent.
    pub(super) fn line(&self, ns: u32) -> f64 {
        100.0 * libm::expm1(self.of[0] + self.of[1] * libm::log(ns.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 + gain = (300 µs / time)^0.8, and noise of both signs on it.
    fn tried(noise: f64) -> Vec<(u32, f64)> {
        let gain = |ns: u32| 100.0 * (libm::pow(300_000.0 / f64::from(ns), 0.8) - 1.0);
        TRIED_NS
            .iter()
            .zip([1.0, -1.0].iter().cycle())
            .map(|(&ns, sign)| (ns, gain(ns) + sign * noise))
            .collect()
    }

    #[test]
    fn the_time_is_where_the_line_has_what_the_paper_has() {
        let fit = Removal::fitted(tried(0.0));
        // 300 / 1.35^(1 / 0.8) = 206.2 µs.
        assert_eq!((fit.ns, fit.is_within), (206_000, true));
        assert!(fit.scatter < 1e-9 && (fit.line(206_161) - FASTER).abs() < 0.01, "{fit:?}");
        let noisy = Removal::fitted(tried(6.0));
        assert!(noisy.ns.abs_diff(206_000) < 8_000 && (4.0..9.0).contains(&noisy.scatter), "{noisy:?}");
    }

    #[test]
    fn what_no_time_gives_is_said_and_the_nearest_one_is_taken() {
        let all_less = tried(0.0).into_iter().map(|(ns, gain)| (ns, gain / 20.0)).collect();
        let fit = Removal::fitted(all_less);
        assert_eq!((fit.ns, fit.is_within), (TRIED_NS[0], false));
        let rises = TRIED_NS.iter().map(|&ns| (ns, f64::from(ns) / 1e4)).collect();
        assert!(!Removal::fitted(rises).is_within);
    }
}
