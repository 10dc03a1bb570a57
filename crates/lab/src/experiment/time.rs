use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use toml::{Table, Value};

/// A length of virtual time, written with its unit: "250us", "100ms", "60s", "5m", "1.5h".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    ns: u64,
}

/// Units with their ns, largest first: fio's, and ns. "m" is minutes, as in fio.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

pub(super) const TIME_TEXT: &str =
    "a time with its unit in quotes, such as \"250us\", \"100ms\", \"60s\", \"5m\" or \"2h\"";

impl Time {
    /// Creates a time of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// Reads a number with a unit. `None` for anything else, and for 584 years (the end of virtual time) or
    /// more.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().replace('_', "");
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = match unit.trim() {
            "µs" => "us",
            "min" => "m",
            unit => unit,
        };
        let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*unit_ns).filter(|&ns| ns < u64::MAX).map(Self::from_ns);
        }
        let ns = number.parse::<f64>().ok()? * *unit_ns as f64;
        (ns < u64::MAX as f64).then_some(Self { ns: ns.round() as u64 })
    }

    pub(super) fn check(table: &Table, keys: &[&str], path: &str) -> Result<(), KeyError> {
        for key in keys {
            match table.get(*key) {
                None => {}
                Some(Value::String(text)) if Self::parse(text).is_some() => {}
                Some(other) => {
                    return Err(KeyError::value(format!("{path}.{key}"), other.to_string(), TIME_TEXT, ""));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit_ns): &&(&str, u64)| self.ns.is_multiple_of(*unit_ns);
        let (unit, unit_ns) = UNITS.iter().find(fits).filter(|_| self.ns > 0).unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", self.ns / unit_ns)
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is not {TIME_TEXT}")))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "a time with its unit: \"250us\", \"100ms\", \"60s\", \"5m\", \"2h\"",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units_and_written_as_short_as_they_go() {
        for (text, ns, written) in [
            ("250us", 250_000, "250us"),
            ("1000ms", 1_000_000_000, "1s"),
            ("60s", 60_000_000_000, "1m"),
            (" 1.5 h ", 5_400_000_000_000, "90m"),
            ("0s", 0, "0s"),
            ("7ns", 7, "7ns"),
            ("10min", 600_000_000_000, "10m"),
            ("0.5ms", 500_000, "500us"),
        ] {
            let time = Time::parse(text).expect(text);
            assert_eq!((time.as_ns(), time.to_string().as_str()), (ns, written), "{text}");
            assert_eq!(Time::parse(written), Some(time));
        }
        for text in ["", "5", "s", "-5s", "5x", "1e3s", "20000000d", "1.2.3s", "nan s"] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }
}
