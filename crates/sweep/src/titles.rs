//! Names and units of keys and measures in tables for papers. Sweep files and data files use the paths.

use toml::Value;

use crate::Estimate;
use crate::plan::{number, short, shown};

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

/// Largest first: bytes per unit of values of keys, and symbol.
const BINARY_SIZES: [(f64, &str); 3] = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];

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
        let (name, unit, scale) = self.measure_parts(measure, means);
        (unit.map(|unit| format!("{name} ({unit})")).unwrap_or(name), scale)
    }

    /// Name and unit of `measure`, and the divisor of its numbers, chosen by the largest of `means`.
    pub(crate) fn measure_parts(
        self,
        measure: &str,
        means: impl Iterator<Item = f64>,
    ) -> (String, Option<String>, f64) {
        if self == Self::Paths {
            return (measure.to_owned(), None, 1.0);
        }
        let most = means.map(f64::abs).fold(0.0, f64::max);
        let scaled = |name: &str, units: &[(f64, &'static str)], least: &'static str, per: &str| {
            let (scale, unit) =
                units.iter().copied().find(|(scale, _)| most >= *scale).unwrap_or((1.0, least));
            (titled(name), Some(format!("{unit}{per}")), scale)
        };
        match measure {
            _ if measure.ends_with("bw_bytes") => scaled(measure, &SIZES, "B", "/s"),
            _ if measure.ends_with("_ns") => scaled(measure.trim_end_matches("_ns"), &TIMES, "ns", ""),
            _ if measure.ends_with("bytes") && measure != "waf_bytes" => scaled(measure, &SIZES, "B", ""),
            _ => (titled(measure), None, 1.0),
        }
    }
}

/// Name of `key` with a number as value, in a unit that suits it: "write fraction 0.8", "program 200 µs".
pub(crate) fn valued(key: &str, value: &Value) -> String {
    let name = short(key);
    let in_units = |name: &str, units: &[(f64, &str)], least: &str| {
        let number = number(Some(value))?;
        // Only a unit that gives a short number: 4096 bytes are 4 KiB, 4097 bytes stay.
        let fits = |scale: &f64| number >= *scale && (number / scale * 10.0).fract() == 0.0;
        let unit = units.iter().find(|(scale, _)| fits(scale));
        let (scale, unit) = unit.copied().unwrap_or((1.0, least));
        Some(format!("{} {} {unit}", worded(name), number / scale))
    };
    let found = if let Some(name) = name.strip_suffix("_ns") {
        in_units(name, &TIMES, "ns")
    } else if let Some(name) = name.strip_suffix("_bytes") {
        in_units(name, &BINARY_SIZES, "B")
    } else {
        None
    };
    found.unwrap_or_else(|| format!("{} {}", worded(name), shown(value)))
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
        for (key, value, text) in [
            ("workload.write_fraction", Value::Float(0.8), "write fraction 0.8"),
            ("drive.ftl.over_provisioning", Value::Float(0.07), "over-provisioning 0.07"),
            ("drive.nand.program_ns", Value::Integer(200_000), "program 200 µs"),
            ("drive.nand.program_ns", Value::Integer(1_500_000), "program 1.5 ms"),
            ("drive.nand.program_ns", Value::Integer(123_456), "program 123456 ns"),
            ("workload.block_bytes", Value::Integer(4096), "block 4 KiB"),
            ("run.check", Value::Boolean(false), "check false"),
        ] {
            assert_eq!(valued(key, &value), text);
        }
        assert_eq!(Naming::Words.key("drive.ftl.over_provisioning"), "over-provisioning");
        assert_eq!(Naming::Paths.key("drive.ftl.over_provisioning"), "over_provisioning");
        assert_eq!(
            Naming::Paths.measure("write.p99_ns", [1e9].into_iter()),
            ("write.p99_ns".to_owned(), 1.0)
        );
    }
}
