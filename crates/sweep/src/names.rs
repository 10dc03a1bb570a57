use std::collections::BTreeMap;

use strobe_ssd::{PLACEMENTS, POLICIES};
use toml::Value;

use crate::SweepError;

const FORMULAS: [&str; 2] = ["drive.ftl.gc.victim", "drive.ftl.placement.scheme"];

/// `sweep.names`: names and their formulas.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads the names. `values` are the keys and values that the sweep varies.
    pub(crate) fn read<'a>(
        given: Option<&Value>,
        values: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
    ) -> Result<Self, SweepError> {
        let wrong = |what: String| SweepError::key("names", what);
        let table = match given {
            None => return Ok(Self::default()),
            Some(Value::Table(table)) => table,
            Some(_) => return Err(wrong("must be a table: write [sweep.names]".to_owned())),
        };
        let mut names = BTreeMap::new();
        for (name, formula) in table {
            let Some(formula) = formula.as_str() else {
                return Err(wrong(format!(
                    "{name} = {formula}: a formula is a text, for example \"age * (1-u)\""
                )));
            };
            let is_policy = POLICIES.iter().any(|policy| policy.name == name);
            if is_policy || PLACEMENTS.iter().any(|placement| placement.name == name) {
                return Err(wrong(format!("{name} is the name of a built-in policy; choose another")));
            }
            let is_used =
                |(key, value): (&str, &Value)| FORMULAS.contains(&key) && value.as_str() == Some(name);
            if !values.clone().any(is_used) {
                let keys = FORMULAS.join(" or ");
                return Err(wrong(format!("no value of {keys} in the grid or in points is \"{name}\"")));
            }
            names.insert(name.clone(), formula.to_owned());
        }
        Ok(Self(names))
    }

    pub(crate) fn resolved(&self, key: &str, value: &Value) -> Value {
        let formula = value.as_str().filter(|_| FORMULAS.contains(&key)).and_then(|name| self.0.get(name));
        formula.map_or_else(|| value.clone(), |formula| Value::from(formula.as_str()))
    }
}
