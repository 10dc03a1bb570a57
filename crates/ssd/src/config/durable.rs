//! Forms of the map that survive a power cut.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Durable form of the map: `false`, `true` or `"pages"` in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Given", into = "Given")]
pub enum DurableMap {
    /// Memory only: a power cut loses the map.
    #[default]
    Volatile,
    /// A journal with checkpoints, in reserved blocks.
    Journal,
    /// Map pages among the data: each holds a range of entries and is programmed whole.
    Pages,
}

impl DurableMap {
    /// True if the map survives a power cut.
    pub fn is_durable(self) -> bool {
        self != Self::Volatile
    }
}

impl From<bool> for DurableMap {
    fn from(is_durable: bool) -> Self {
        if is_durable { Self::Journal } else { Self::Volatile }
    }
}

/// The value as written in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Given {
    Durable(bool),
    Named(String),
}

impl TryFrom<Given> for DurableMap {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        match given {
            Given::Durable(is_durable) => Ok(is_durable.into()),
            Given::Named(name) if name == "pages" => Ok(Self::Pages),
            Given::Named(name) => Err(format!("\"{name}\": give true, false or \"pages\"")),
        }
    }
}

impl From<DurableMap> for Given {
    fn from(form: DurableMap) -> Self {
        match form {
            DurableMap::Pages => Self::Named("pages".to_owned()),
            form => Self::Durable(form.is_durable()),
        }
    }
}

impl JsonSchema for DurableMap {
    fn schema_name() -> Cow<'static, str> {
        "DurableMap".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [false, true, "pages"] })
    }
}
