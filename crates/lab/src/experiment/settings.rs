//! `--set KEY.PATH=VALUE`: one key of a table.

use strobe_ssd::KeyError;
use strobe_ssd::schema::nearest;
use toml::{Table, Value};

use crate::ConfigError;

/// Most parts of a path. No key has more than half of them.
const SET_DEPTH_MAX: usize = 8;

/// Removes the key at `path`; `jobs[2]` is the third of `[[jobs]]`.
pub(super) fn remove(table: &mut Table, path: &str) {
    let Some((first, rest)) = path.split_once('.') else {
        table.remove(path);
        return;
    };
    let (name, at) = match first.strip_suffix(']').and_then(|element| element.split_once('[')) {
        Some((name, at)) => (name, at.parse::<usize>().ok()),
        None => (first, None),
    };
    let inner = match (table.get_mut(name), at) {
        (Some(Value::Array(items)), Some(at)) => items.get_mut(at),
        (inner, None) => inner,
        _ => None,
    };
    if let Some(Value::Table(inner)) = inner {
        remove(inner, rest);
    }
}

/// Index of the table that `key` selects by its `name`, or by its number from 0.
pub(super) fn element(items: &[Value], key: &str) -> Option<usize> {
    let is_called = |item: &Value| item.get("name").and_then(Value::as_str) == Some(key);
    let by_number = || key.parse().ok().filter(|&at: &usize| at < items.len());
    items.iter().position(is_called).or_else(by_number)
}

/// Table at `key`; empty if it does not exist.
pub(super) fn sub_table(table: &Table, key: &str) -> Result<Table, KeyError> {
    match table.get(key) {
        None => Ok(Table::new()),
        Some(Value::Table(inner)) => Ok(inner.clone()),
        Some(other) => Err(KeyError::value(key, other.to_string(), format!("a table: write [{key}]"), "")),
    }
}

/// Path as in messages: an element of a list has its number in brackets.
pub(super) fn canonical(table: &Table, path: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut at: Option<&Value> = None;
    for name in path.split('.').map(str::trim) {
        match at.and_then(Value::as_array) {
            Some(items) if items.iter().all(Value::is_table) => {
                let found = element(items, name);
                if let (Some(number), Some(list)) = (found, names.last_mut()) {
                    list.push_str(&format!("[{number}]"));
                } else {
                    names.push(name.to_owned());
                }
                at = found.map(|number| &items[number]);
            }
            _ => {
                at = if names.is_empty() { table.get(name) } else { at.and_then(|value| value.get(name)) };
                names.push(name.to_owned());
            }
        }
    }
    names.join(".")
}

pub(super) fn find<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let step = |name: &str, get: &dyn Fn(&str) -> Option<&'a Value>| match name
        .strip_suffix(']')
        .and_then(|element| element.split_once('['))
    {
        Some((list, at)) => get(list)?.get(at.parse::<usize>().ok()?),
        None => get(name),
    };
    let mut names = key.split('.');
    let first = step(names.next()?, &|name| table.get(name))?;
    names.try_fold(first, |value, name| step(name, &|name| value.as_table()?.get(name)))
}

fn descend<'a>(table: &'a mut Table, keys: &[&str], done: usize) -> Result<&'a mut Table, ConfigError> {
    let Some(key) = keys.get(done) else { return Ok(table) };
    let no_table = || ConfigError::NoTable(keys[..=done].join("."));
    match table.entry(*key).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => descend(inner, keys, done + 1),
        // In a list of tables the next key selects the element.
        Value::Array(items) if items.iter().all(Value::is_table) => {
            let given = keys.get(done + 1).ok_or_else(no_table)?;
            let names = items.iter().filter_map(|item| item.get("name").and_then(Value::as_str));
            let valid: Vec<String> = names.map(str::to_owned).collect();
            let unknown = || KeyError::Name {
                key: keys[..=done].join("."),
                given: (*given).to_owned(),
                nearest: nearest(given, valid.iter().map(String::as_str)).map(str::to_owned),
                valid: valid.join(", "),
            };
            let found = element(items, given).ok_or_else(unknown)?;
            descend(items[found].as_table_mut().ok_or_else(no_table)?, keys, done + 2)
        }
        _ => Err(no_table()),
    }
}

/// Applies `sets` (`key.path=value`) to the `table` of a file.
pub fn apply_sets(table: &mut Table, sets: &[String]) -> Result<(), ConfigError> {
    sets.iter().try_for_each(|set| apply_set(table, set))
}

/// Value of a setting: TOML; invalid TOML is taken as text.
pub(super) fn value_of(text: &str) -> Value {
    let text = text.trim();
    format!("v = {text}")
        .parse::<Table>()
        .ok()
        .filter(|parsed| parsed.len() == 1)
        .and_then(|mut parsed| parsed.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Applies one setting.
pub(super) fn apply_set(table: &mut Table, set: &str) -> Result<(), ConfigError> {
    let bad = || ConfigError::BadSet(set.to_owned());
    let (path, text) = set.split_once('=').ok_or_else(bad)?;
    let value = value_of(text);
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.len() > SET_DEPTH_MAX {
        return Err(bad());
    }
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or_else(bad)?;
    if keys.iter().any(|key| key.is_empty()) {
        return Err(bad());
    }
    let target = descend(table, &keys, 0).map_err(|error| error.given_by_set(set))?;
    // Of two exclusive keys, the one on the command line replaces the other.
    for (one, other) in [
        ("logical_pages", "over_provisioning"),
        ("over_provisioning", "logical_pages"),
        ("rate_iops", "rate_points"),
        ("rate_points", "rate_iops"),
    ] {
        if last == one {
            target.remove(other);
        }
    }
    target.insert(last.to_owned(), value);
    Ok(())
}
