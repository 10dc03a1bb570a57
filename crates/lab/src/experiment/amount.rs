use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::Time;

/// An amount of work: a number of host pages (mapping units), "12x" for twelve times the logical capacity, or
/// "60s" for that length of virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Mapping units.
    Pages(u64),
    /// Multiples of the logical capacity.
    Capacities(f64),
    /// Virtual time.
    Time(Time),
}

impl Amount {
    /// Mapping units on a drive of `logical_units`; `None` for a time.
    pub fn pages(self, logical_units: u32) -> Option<u64> {
        match self {
            Amount::Pages(pages) => Some(pages),
            Amount::Capacities(times) => Some((times * f64::from(logical_units)).round() as u64),
            Amount::Time(_) => None,
        }
    }

    /// True if the amount is zero.
    pub fn is_zero(self) -> bool {
        match self {
            Amount::Pages(pages) => pages == 0,
            Amount::Capacities(times) => times == 0.0,
            Amount::Time(time) => time.as_ns() == 0,
        }
    }

    /// Nanoseconds of a time; `None` for other amounts.
    pub fn ns(self) -> Option<u64> {
        match self {
            Amount::Time(time) => Some(time.as_ns()),
            Amount::Pages(_) | Amount::Capacities(_) => None,
        }
    }

    /// Reads "12x", "1.5x", a whole number, or a time such as "60s".
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(time) = Time::parse(text) {
            return Some(Amount::Time(time));
        }
        let text = text.trim().replace('_', "");
        match text.strip_suffix(['x', 'X']) {
            Some(times) => {
                let times: f64 = times.trim().parse().ok()?;
                (times.is_finite() && (0.0..=1e9).contains(&times)).then_some(Amount::Capacities(times))
            }
            // TOML has no larger numbers.
            None => text.parse().ok().filter(|&pages| i64::try_from(pages).is_ok()).map(Amount::Pages),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Pages(pages) => write!(f, "{pages}"),
            Amount::Capacities(times) => write!(f, "{times}x"),
            Amount::Time(time) => time.fmt(f),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Pages(pages) => serializer.serialize_u64(*pages),
            Amount::Capacities(_) | Amount::Time(_) => serializer.collect_str(self),
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
            "description": "a count of host pages (mapping units written), \"12x\" for twelve logical capacities, or \"60s\" of virtual time",
        })
    }
}
