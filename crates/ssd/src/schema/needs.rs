//! Keys that have an effect only with certain values of other keys: `x-needs` of a property of a schema.
//!
//! - `{"suspend.most": "above 0"}` needs that number. Other conditions are "not VALUE", "set" (not left out, 0
//!   or empty) and "left out".
//! - `{"mapping": ["page", "dftl"]}` needs one of these values. `null` stands for a key left out.
//! - Of several keys, one is enough. `because` is the reason, for messages.
//! - A key is in the table of the property, or a path from `drive`, `run` or `workload`.
//! - The needs of a table are those of its keys.

use std::fmt;

use serde_json::{Map, Value as Json};

use super::{join, resolve};

const REASON: &str = "because";

/// Condition under which a key has an effect. Displays as text for "no effect unless …".
#[derive(Clone, Debug)]
pub struct Need<'a> {
    table: String,
    declared: &'a Map<String, Json>,
}

impl<'a> Need<'a> {
    /// Need that `property` of the table at the path `table` declares.
    pub fn of(property: &'a Json, table: &str) -> Option<Self> {
        Some(Self { table: table.to_owned(), declared: property["x-needs"].as_object()? })
    }

    /// Needs of the key at `path` and of the tables that contain it. `schema` is that of the first name of
    /// `path`. A key in an element of a list does not repeat the needs of the list.
    pub fn at(schema: &'a Json, path: &str) -> Vec<Self> {
        let (mut needs, mut node) = (Vec::new(), schema);
        let mut names = path.split('.');
        let mut table = names.next().unwrap_or_default().to_owned();
        for name in names {
            let list = name.split_once('[').map(|(list, _)| list);
            node = &resolve(schema, node)["properties"][list.unwrap_or(name)];
            needs.extend(Self::of(node, &table));
            if list.is_some() {
                needs.clear();
                node = &resolve(schema, node)["items"];
            }
            table = join(&table, name);
        }
        needs
    }

    fn conditions(&self) -> impl Iterator<Item = (String, &'a Json)> {
        let conditions = self.declared.iter().filter(|(key, _)| *key != REASON);
        conditions.map(|(key, condition)| match key.split('.').next() {
            Some("drive" | "run" | "workload") => (key.clone(), condition),
            _ => (join(&self.table, key), condition),
        })
    }

    /// Paths of the keys that the need is about.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.conditions().map(|(key, _)| key)
    }

    /// True if the experiment `config` meets the need.
    pub fn is_met(&self, config: &Json) -> bool {
        self.conditions().any(|(key, condition)| {
            let value = key.split('.').fold(config, |node, name| &node[name]);
            match condition {
                Json::String(condition) => is_true(condition, value),
                values => values.as_array().is_some_and(|values| values.contains(value)),
            }
        })
    }
}

fn is_true(condition: &str, value: &Json) -> bool {
    let is_set = match value {
        Json::Null => false,
        Json::Array(items) => !items.is_empty(),
        value => value.as_f64() != Some(0.0),
    };
    match condition.split_once(' ') {
        Some(("above", least)) => value.as_f64().unwrap_or(0.0) > least.parse().expect("a number"),
        Some(("not", "0")) => value.as_f64() != Some(0.0),
        Some(("not", other)) => *value != *other,
        Some(("left", _)) => !is_set,
        _ => is_set,
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<_> = self.conditions().collect();
        let mut table = "";
        for (at, (key, condition)) in conditions.iter().enumerate() {
            let next = conditions.get(at + 1);
            let separator = match next {
                _ if at == 0 => "",
                Some(_) => ", ",
                None => " or ",
            };
            // The table is named once.
            let (own, name) = key.rsplit_once('.').unwrap_or(("", key));
            let key = if own == table { name } else { key };
            table = own;
            write!(f, "{separator}{key}")?;
            match condition {
                // Neighbours with the same condition share its text.
                Json::String(_) if next.is_some_and(|(_, next)| next == condition) => {}
                Json::String(condition) => match condition.strip_prefix("not ").filter(|other| *other != "0")
                {
                    Some(other) => write!(f, " is not \"{other}\"")?,
                    None => write!(f, " is {condition}")?,
                },
                values => {
                    let values = values.as_array().into_iter().flatten().filter(|value| !value.is_null());
                    let values: Vec<String> = values.map(Json::to_string).collect();
                    let (last, first) = values.split_last().expect("a value");
                    let first = if first.is_empty() { String::new() } else { first.join(", ") + " or " };
                    write!(f, " = {first}{last}")?;
                }
            }
        }
        match self.declared.get(REASON).and_then(Json::as_str) {
            Some(reason) => write!(f, "; {reason}"),
            None => Ok(()),
        }
    }
}
