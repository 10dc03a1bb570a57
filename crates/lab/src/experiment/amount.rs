use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use strobe_ssd::schema::parse_size;

use super::time::Time;

/// An amount of work: a number of host pages (mapping units), "12x" for twelve times the logical capacity, or
/// "60s" for that length of virtual time. For a trace also "5000 requests", "2 repeats" or "10 GiB" of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Mapping units.
    Pages(u64),
    /// Multiples of the logical capacity.
    Capacities(f64),
    /// Virtual time; for a trace the time of the trace.
    Time(Time),
    /// Requests of a trace.
    Requests(u64),
    /// Repetitions of a trace.
    Repeats(u64),
    /// Bytes of the requests of a trace.
    Bytes(u64),
}

impl Amount {
    /// Mapping units on a drive of `logical_units`; `None` for a time and a part of a trace.
    pub fn pages(self, logical_units: u32) -> Option<u64> {
        match self {
            Amount::Pages(pages) => Some(pages),
            Amount::Capacities(times) => Some((times * f64::from(logical_units)).round() as u64),
            Amount::Time(_) | Amount::Requests(_) | Amount::Repeats(_) | Amount::Bytes(_) => None,
        }
    }

    /// True if the amount is zero.
    pub fn is_zero(self) -> bool {
        match self {
            Amount::Pages(n) | Amount::Requests(n) | Amount::Repeats(n) | Amount::Bytes(n) => n == 0,
            Amount::Capacities(times) => times == 0.0,
            Amount::Time(time) => time.as_ns() == 0,
        }
    }

    /// Nanoseconds of a time; `None` for other amounts.
    pub fn ns(self) -> Option<u64> {
        match self {
            Amount::Time(time) => Some(time.as_ns()),
            _ => None,
        }
    }

    /// True for a part of a trace, which has no meaning for other workloads.
    pub fn is_of_trace(self) -> bool {
        matches!(self, Amount::Requests(_) | Amount::Repeats(_) | Amount::Bytes(_))
    }

    /// Reads "12x", "1.5x", a whole number, a time such as "60s", or a part of a trace such as "5000 requests".
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(time) = Time::parse(text) {
            return Some(Amount::Time(time));
        }
        let text = text.trim().replace('_', "");
        let whole = |number: &str| number.trim().parse().ok().filter(|&number| i64::try_from(number).is_ok());
        for (name, of) in [("request", Amount::Requests as fn(u64) -> Self), ("repeat", Amount::Repeats)] {
            let singular = text.strip_suffix('s').unwrap_or(&text);
            if let Some(number) = singular.strip_suffix(name) {
                return whole(number).map(of);
            }
        }
        // Without the B, "5m" would be minutes.
        if text.ends_with(['b', 'B']) {
            return parse_size(&text).and_then(|bytes| u64::try_from(bytes).ok()).map(Amount::Bytes);
        }
        match text.strip_suffix(['x', 'X']) {
            Some(times) => {
                let times: f64 = times.trim().parse().ok()?;
                (times.is_finite() && (0.0..=1e9).contains(&times)).then_some(Amount::Capacities(times))
            }
            // TOML has no larger numbers.
            None => whole(&text).map(Amount::Pages),
        }
    }
}

/// Units of bytes, as powers of two.
const SIZES: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Pages(pages) => write!(f, "{pages}"),
            Amount::Capacities(times) => write!(f, "{times}x"),
            Amount::Time(time) => time.fmt(f),
            Amount::Requests(requests) => write!(f, "{requests} requests"),
            Amount::Repeats(repeats) => write!(f, "{repeats} repeats"),
            Amount::Bytes(bytes) => {
                let (unit, shift) =
                    SIZES.iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift).unwrap_or(&SIZES[4]);
                write!(f, "{}{unit}", bytes >> shift)
            }
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Pages(pages) => serializer.serialize_u64(*pages),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Pages(u64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Pages(pages) => Ok(Amount::Pages(pages)),
            Either::Text(text) => Amount::parse(&text)
                .ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is no amount"))),
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "description": "a count of host pages (mapping units written), \"12x\" for twelve logical capacities, or \"60s\" of virtual time; of a trace also \"5000 requests\", \"2 repeats\" or \"10GiB\"",
        })
    }
}
