//! Names and units of keys and measures in tables for papers. Sweep files and data files use the paths.

use crate::Estimate;
use crate::plan::short;

/// Parts of a path whose name is not the part with spaces for underscores.
const WORDS: [(&str, &str); 6] = [
    ("waf", "WAF"),
    ("waf_bytes", "WAF in bytes"),
    ("over_provisioning", "over-provisioning"),
    ("bw_bytes", "bandwidth"),
    ("iops", "IOPS"),
    ("io_bytes", "volume"),
];
/// Largest first: ns per unit, and symbol.
const TIMES: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
/// Largest first: bytes per unit, and symbol.
const SIZES: [(f64, &str); 3] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];

/// Naming in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Last part of a key, path of a measure.
    Paths,
    /// Words with units.
    Words,
}

impl Naming {
    pub(crate) fn key(self, key: &str) -> String {
        match self {
            Self::Paths => short(key).to_owned(),
            Self::Words => worded(short(key)),
        }
    }

    /// Heading of `measure`, and the divisor of its numbers, chosen by the largest of `means`.
    pub(crate) fn measure(self, measure: &str, means: impl Iterator<Item = f64>) -> (String, f64) {
        if self == Self::Paths {
            return (measure.to_owned(), 1.0);
        }
        let most = means.map(f64::abs).fold(0.0, f64::max);
        let scaled = |name: &str, units: &[(f64, &'static str)], least: &'static str, per: &str| {
            let (scale, unit) =
                units.iter().copied().find(|(scale, _)| most >= *scale).unwrap_or((1.0, least));
            (format!("{} ({unit}{per})", titled(name)), scale)
        };
        match measure {
            _ if measure.ends_with("bw_bytes") => scaled(measure, &SIZES, "B", "/s"),
            _ if measure.ends_with("_ns") => scaled(measure.trim_end_matches("_ns"), &TIMES, "ns", ""),
            _ if measure.ends_with("bytes") && measure != "waf_bytes" => scaled(measure, &SIZES, "B", ""),
            _ => (titled(measure), 1.0),
        }
    }
}

/// `write.p99_9` as "write p99.9", `gc.copies_per_erase` as "gc copies per erase".
fn titled(measure: &str) -> String {
    measure.split('.').map(worded).collect::<Vec<_>>().join(" ")
}

fn worded(part: &str) -> String {
    if let Some((_, word)) = WORDS.iter().find(|(name, _)| *name == part) {
        return (*word).to_owned();
    }
    match part.strip_prefix('p').filter(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit())) {
        Some(percentile) => format!("p{}", percentile.replacen('_', ".", 1)),
        None => part.replace('_', " "),
    }
}

pub(crate) fn scaled(found: &Estimate, scale: f64) -> Estimate {
    let Estimate { n, mean, deviation, degrees, half_width } = *found;
    let half_width = half_width.map(|half| half / scale);
    Estimate { n, mean: mean / scale, deviation: deviation / scale, degrees, half_width }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_have_names_and_units_that_suit_their_size() {
        let of = |measure: &str, most: f64| Naming::Words.measure(measure, [most / 7.0, most].into_iter());
        for (measure, most, title, scale) in [
            ("waf", 7.3, "WAF", 1.0),
            ("write.p99_9_ns", 24_974_676.0, "write p99.9 (ms)", 1e6),
            ("read.mean_ns", 999.0, "read mean (ns)", 1.0),
            ("write.bw_bytes", 3.2e8, "write bandwidth (MB/s)", 1e6),
            ("host.write.bytes", 2e10, "host write bytes (GB)", 1e9),
            ("gc.copies_per_erase", 214.0, "gc copies per erase", 1.0),
            ("write.iops", 2e5, "write IOPS", 1.0),
        ] {
            assert_eq!(of(measure, most), (title.to_owned(), scale), "{measure}");
        }
        assert_eq!(Naming::Words.key("drive.ftl.over_provisioning"), "over-provisioning");
        assert_eq!(Naming::Paths.key("drive.ftl.over_provisioning"), "over_provisioning");
        assert_eq!(
            Naming::Paths.measure("write.p99_ns", [1e9].into_iter()),
            ("write.p99_ns".to_owned(), 1.0)
        );
    }
}
