//! A time, or one for each page type: a number or a list in a file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use strobe_nand::PageTimes;

/// The longest time a drive takes, in ns: a quarter of an hour.
const MOST_NS: u64 = 1_000_000_000_000;

/// A time in ns for all pages, or a list of one for each page type: page `p` of a block is of type `p` mod their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesByPage(PageTimes);

impl TimesByPage {
    /// The times.
    pub fn get(&self) -> PageTimes {
        self.0
    }
}

impl From<u64> for TimesByPage {
    fn from(ns: u64) -> Self {
        Self(ns.into())
    }
}

impl From<PageTimes> for TimesByPage {
    fn from(times: PageTimes) -> Self {
        Self(times)
    }
}

impl Serialize for TimesByPage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.types() {
            [all] => all.serialize(serializer),
            types => types.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TimesByPage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            All(u64),
            Types(Vec<u64>),
        }
        let types = match Either::deserialize(deserializer)? {
            Either::All(ns) => vec![ns],
            Either::Types(types) => types,
        };
        let times = PageTimes::by_type(&types);
        times.map(Self).ok_or_else(|| {
            de::Error::custom(format!("{} times by page type: give 1 to {}", types.len(), PageTimes::MOST))
        })
    }
}

impl JsonSchema for TimesByPage {
    fn schema_name() -> Cow<'static, str> {
        "TimesByPage".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "array"],
            "minimum": 0,
            "maximum": MOST_NS,
            "items": { "type": "integer", "minimum": 0, "maximum": MOST_NS },
            "minItems": 1,
            "maxItems": PageTimes::MOST,
        })
    }
}
