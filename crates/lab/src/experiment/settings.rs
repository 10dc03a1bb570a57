//! `--set KEY.PATH=VALUE`: one key of a table.

use strobe_ssd::KeyError;
use toml::{Table, Value};

use crate::ConfigError;

/// Most names in the path of a `--set`; no key lies deeper than half of it.
const SET_DEPTH_MAX: usize = 8;

/// Takes the key at `path` out of `table`.
pub(super) fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// The table within `table` called `key`, empty if there is none.
pub(super) fn sub_table(table: &Table, key: &str) -> Result<Table, KeyError> {
    match table.get(key) {
        None => Ok(Table::new()),
        Some(Value::Table(inner)) => Ok(inner.clone()),
        Some(other) => Err(KeyError::value(key, other.to_string(), format!("a table: write [{key}]"), "")),
    }
}

/// Applies one `key.path=value`. The value is TOML; what is not valid TOML is taken as text.
pub(super) fn apply_set(table: &mut Table, set: &str) -> Result<(), ConfigError> {
    let bad = || ConfigError::BadSet(set.to_owned());
    let (path, text) = set.split_once('=').ok_or_else(bad)?;
    let text = text.trim();
    let value = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .filter(|parsed| parsed.len() == 1)
        .and_then(|mut parsed| parsed.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.len() > SET_DEPTH_MAX {
        return Err(bad());
    }
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or_else(bad)?;
    let mut target = table;
    for (at, key) in keys.iter().enumerate() {
        if key.is_empty() {
            return Err(bad());
        }
        let no_table = || ConfigError::NoTable(keys[..=at].join(".")).given_by_set(set);
        let entry = target.entry(*key).or_insert_with(|| Value::Table(Table::new()));
        target = entry.as_table_mut().ok_or_else(no_table)?;
    }
    // Giving one of a pair on the command line replaces the other.
    for (one, other) in [("logical_pages", "over_provisioning"), ("over_provisioning", "logical_pages")] {
        if last == one {
            target.remove(other);
        }
    }
    target.insert(last.to_owned(), value);
    Ok(())
}
