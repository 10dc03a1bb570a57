//! Times by page type, given as a number or a list.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Longest time of a page, in ns: 1000 s.
const MOST_NS: u64 = 1_000_000_000_000;

/// A time for each page type. Multi-bit cells hold one page of each type, and types differ in the number of
/// sensing or program steps. Page `p` of a block has type `p` mod the number of types, usually the fastest
/// first. Layers of a stack differ too: list each type twice for faster and slower layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Given", into = "Given")]
pub struct PageTimes {
    ns: [u64; PageTimes::MOST],
    others: u8,
}

impl PageTimes {
    /// Most page types: four-bit cells on fast and slow layers.
    pub const MOST: usize = 8;

    /// Times of 1 to [`PageTimes::MOST`] types, in ns; `None` for any other number.
    pub fn by_type(ns: &[u64]) -> Option<Self> {
        let mut times = Self { ns: [0; Self::MOST], others: ns.len().checked_sub(1)?.try_into().ok()? };
        times.ns.get_mut(..ns.len())?.copy_from_slice(ns);
        Some(times)
    }

    /// Time of page `page` of a block, in ns.
    #[inline(always)]
    pub fn of(&self, page: u32) -> u64 {
        match self.others {
            0 => self.ns[0],
            others => self.ns[(page % (u32::from(others) + 1)) as usize % Self::MOST],
        }
    }

    /// Time of each type, in ns.
    pub fn types(&self) -> &[u64] {
        &self.ns[..=usize::from(self.others)]
    }

    /// Time of the fastest pages, in ns.
    pub fn shortest(&self) -> u64 {
        self.types().iter().copied().fold(u64::MAX, u64::min)
    }

    /// Time of the slowest pages, in ns.
    pub fn longest(&self) -> u64 {
        self.types().iter().copied().fold(0, u64::max)
    }
}

impl From<u64> for PageTimes {
    fn from(ns: u64) -> Self {
        Self { ns: [ns, 0, 0, 0, 0, 0, 0, 0], others: 0 }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Given {
    All(u64),
    Types(Vec<u64>),
}

impl TryFrom<Given> for PageTimes {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        match given {
            Given::All(ns) => Ok(ns.into()),
            Given::Types(types) => Self::by_type(&types)
                .ok_or_else(|| format!("{} times by page type: give 1 to {}", types.len(), Self::MOST)),
        }
    }
}

impl From<PageTimes> for Given {
    fn from(times: PageTimes) -> Self {
        match times.types() {
            &[all] => Self::All(all),
            types => Self::Types(types.to_vec()),
        }
    }
}

impl JsonSchema for PageTimes {
    fn schema_name() -> Cow<'static, str> {
        "PageTimes".into()
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
            "maxItems": Self::MOST,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_turns() {
        assert_eq!(PageTimes::by_type(&[]), None);
        assert_eq!(PageTimes::by_type(&[1; 9]), None);
        assert_eq!(PageTimes::by_type(&[7]), Some(7.into()));
        let times = PageTimes::by_type(&[30, 10, 20]).expect("three");
        assert_eq!([0, 1, 2, 3, 4, 5, 1151].map(|page| times.of(page)), [30, 10, 20, 30, 10, 20, 20]);
        assert_eq!((times.shortest(), times.longest(), times.types().len()), (10, 30, 3));
        assert_eq!(PageTimes::from(5).of(u32::MAX), 5);
    }
}
