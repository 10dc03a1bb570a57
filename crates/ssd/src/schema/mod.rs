//! Checks a TOML table against the JSON schema of its target type. The schema consists of the doc comments
//! and attributes that `strobe schema` prints. So documentation, checks and error messages agree.

mod error;
mod names;
mod needs;

pub use error::{KeyError, short};
pub use names::nearest;
pub use needs::Need;

use std::collections::BTreeMap;
use std::sync::Mutex;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use toml::{Table, Value};

/// The schema of `T`, cached: its generation takes a millisecond, and a sweep reads thousands of experiments.
pub fn of<T: JsonSchema>() -> &'static Json {
    static MADE: Mutex<BTreeMap<&'static str, &'static Json>> = Mutex::new(BTreeMap::new());
    let make = || -> &'static Json { Box::leak(Box::new(schemars::schema_for!(T).to_value())) };
    // If a thread panicked while it held the lock, the schema is generated without the cache.
    MADE.lock()
        .map_or_else(|_| make(), |mut made| made.entry(std::any::type_name::<T>()).or_insert_with(make))
}

/// Checks `table`, found under `path` (such as `drive`), against `schema`. Sizes written as strings ("4k",
/// "64MiB") under keys named `bytes` or ending in `_bytes` become numbers.
pub fn check(table: &mut Table, schema: &Json, path: &str) -> Result<(), KeyError> {
    Checker { root: schema }.table(table, schema, path)
}

/// [`check`]s `table` against `schema`, the schema of `T`, and deserialises it.
pub fn read<T: DeserializeOwned>(mut table: Table, schema: &Json, path: &str) -> Result<T, KeyError> {
    check(&mut table, schema, path)?;
    // The schema has been checked, so only rules between keys can still fail.
    table.try_into().map_err(|error: toml::de::Error| KeyError::Table {
        path: path.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

/// Position of the name `given` in `valid`; an error if it is missing.
pub fn check_name(key: &str, given: &str, valid: &[&str]) -> Result<usize, KeyError> {
    valid.iter().position(|name| *name == given).ok_or_else(|| KeyError::Name {
        key: key.to_owned(),
        given: format!("\"{given}\""),
        nearest: nearest(given, valid.iter().copied()).map(str::to_owned),
        valid: valid.join(", "),
    })
}

/// Follows references and unwraps optional types.
pub fn resolve<'a>(root: &'a Json, mut node: &'a Json) -> &'a Json {
    loop {
        if let Some(name) = node["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
            node = &root["$defs"][name];
            continue;
        }
        let kinds = node["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        match kinds.iter().filter(|kind| kind["type"] != "null").collect::<Vec<_>>()[..] {
            [some] => node = some,
            _ => return node,
        }
    }
}

struct Checker<'a> {
    root: &'a Json,
}

impl<'a> Checker<'a> {
    fn table(&self, table: &mut Table, schema: &'a Json, path: &str) -> Result<(), KeyError> {
        let schema = resolve(self.root, schema);
        let Some(properties) = schema["properties"].as_object() else {
            return Ok(());
        };
        for (key, value) in table.iter_mut() {
            let place = join(path, key);
            let Some(property) = properties.get(key) else {
                let valid: Vec<&str> = properties.keys().map(String::as_str).collect();
                return Err(KeyError::Unknown {
                    nearest: nearest(key, valid.iter().copied()).map(|name| join(path, name)),
                    key: place,
                    valid: valid.join(", "),
                });
            };
            self.value(value, property, &place)?;
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        match required.into_iter().find(|key| !table.contains_key(*key)) {
            Some(key) => Err(KeyError::Missing { key: join(path, key), meaning: meaning(&properties[key]) }),
            None => Ok(()),
        }
    }

    fn value(&self, value: &mut Value, property: &'a Json, path: &str) -> Result<(), KeyError> {
        let schema = resolve(self.root, property);
        let wrong = |allowed: String, given: &Value| {
            KeyError::value(path, given.to_string(), allowed, meaning(property))
        };
        // Enumerations are compared by name. They may contain booleans.
        if let Some(names) = enum_names(schema) {
            let given = match &*value {
                Value::Boolean(given) => bool_name(*given),
                value => value.as_str().unwrap_or_default(),
            };
            if names.contains(&given) {
                return Ok(());
            }
            return Err(KeyError::Name {
                key: path.to_owned(),
                given: value.to_string(),
                nearest: nearest(given, names.iter().copied())
                    .filter(|_| !given.is_empty())
                    .map(str::to_owned),
                valid: names.join(", "),
            });
        }
        let is_size = path.ends_with("_bytes") || path.ends_with(".bytes");
        // A size as text becomes a number before its range is checked.
        if let (true, Some(size)) = (is_size, value.as_str().and_then(parse_size)) {
            *value = Value::Integer(size);
        }
        let out_of_range = |given: f64, types: &[&str], value: &Value| {
            wrong(range_text(property, schema, types) + &percent_hint(given, property, schema), value)
        };
        let types: Vec<&str> = match &schema["type"] {
            Json::String(one) => vec![one],
            Json::Array(many) => many.iter().filter_map(Json::as_str).filter(|t| *t != "null").collect(),
            _ => Vec::new(),
        };
        // A float such as 1e6 counts as a whole number.
        if let Value::Float(number) = *value
            && types.contains(&"integer")
            && number == number.trunc()
            && number.abs() <= WHOLE_MAX
        {
            *value = Value::Integer(number as i64);
        }
        match value {
            Value::Table(inner) if types.contains(&"object") => return self.table(inner, schema, path),
            Value::Array(items) if types.contains(&"array") => {
                let bound = |name: &str| schema[name].as_u64();
                let is_short = bound("minItems").is_some_and(|least| (items.len() as u64) < least);
                if is_short || bound("maxItems").is_some_and(|most| items.len() as u64 > most) {
                    return Err(wrong(range_text(property, schema, &types), value));
                }
                for (at, item) in items.iter_mut().enumerate() {
                    self.value(item, &schema["items"], &format!("{path}[{at}]"))?;
                }
            }
            Value::Integer(n) if types.contains(&"integer") || types.contains(&"number") => {
                let number = *n as f64;
                if !in_range(number, property, schema) {
                    return Err(out_of_range(number, &types, value));
                }
            }
            Value::Float(x) if types.contains(&"number") => {
                let number = *x;
                if !in_range(number, property, schema) {
                    return Err(out_of_range(number, &types, value));
                }
            }
            Value::String(_) if types.contains(&"string") => {}
            Value::Boolean(_) if types.contains(&"boolean") => {}
            _ if types.is_empty() => {}
            _ => return Err(wrong(range_text(property, schema, &types), value)),
        }
        Ok(())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn meaning(property: &Json) -> String {
    property["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn bool_name(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// The names that an enumeration allows; `None` if `schema` is not one.
pub fn enum_names(schema: &Json) -> Option<Vec<&str>> {
    if let Some(names) = schema["enum"].as_array() {
        return Some(
            names.iter().filter_map(|name| name.as_str().or(name.as_bool().map(bool_name))).collect(),
        );
    }
    let variants = schema["oneOf"].as_array()?;
    Some(variants.iter().filter_map(|v| v["const"].as_str()).collect())
}

/// The bound called `name` ("minimum", …) of a number, from the property, its schema or its type.
pub fn limit(name: &str, property: &Json, schema: &Json) -> Option<f64> {
    let given = property[name].as_f64().or_else(|| schema[name].as_f64());
    let fits_type = (name == "maximum" && schema["format"] == "uint32").then(|| f64::from(u32::MAX));
    given.or(fits_type)
}

fn in_range(x: f64, property: &Json, schema: &Json) -> bool {
    x.is_finite()
        && limit("minimum", property, schema).is_none_or(|min| x >= min)
        && limit("maximum", property, schema).is_none_or(|max| x <= max)
        && limit("exclusiveMinimum", property, schema).is_none_or(|min| x > min)
        && limit("exclusiveMaximum", property, schema).is_none_or(|max| x < max)
}

/// Floats up to this value represent all whole numbers exactly.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// Hint for a share that was given in percent; empty for other values.
fn percent_hint(given: f64, property: &Json, schema: &Json) -> String {
    let is_share = meaning(property).to_lowercase().contains("share");
    if is_share && given > 1.0 && given <= 100.0 && in_range(given / 100.0, property, schema) {
        format!("; a share, not percent: try {}", given / 100.0)
    } else {
        String::new()
    }
}

fn kind(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text in quotes",
        "boolean" => "true or false",
        "object" => "a table",
        "array" => "a list in brackets",
        other => other,
    }
}

fn range_text(property: &Json, schema: &Json, types: &[&str]) -> String {
    let kind = match types {
        [one] => kind(one),
        ["integer", "array"] => {
            let one = range_text(property, schema, &["integer"]);
            let most = schema["maxItems"].as_u64().map(|most| format!(" of up to {most}"));
            return format!("{one}, or a list{}", most.unwrap_or_default());
        }
        several => return several.iter().map(|name| kind(name)).collect::<Vec<_>>().join(" or "),
    };
    let show =
        |x: f64| if x.abs() < 1e15 && x == x.trunc() { format!("{}", x as i64) } else { format!("{x}") };
    let limit = |name| limit(name, property, schema).map(show);
    let above = limit("exclusiveMinimum").map(|min| format!(" greater than {min}"));
    let below = limit("exclusiveMaximum").map(|max| format!(" less than {max}"));
    let (low, high) = match (limit("minimum"), limit("maximum")) {
        (Some(min), Some(max)) => (Some(format!(" from {min} to {max}")), None),
        (Some(min), None) if below.is_none() => (Some(format!(" from {min} on")), None),
        (Some(min), None) => (Some(format!(" from {min}")), below),
        (None, Some(max)) => (above, Some(format!(" up to {max}"))),
        (None, None) => (above, below),
    };
    let and = if low.is_some() && high.is_some() { " and" } else { "" };
    format!("{kind}{}{and}{}", low.unwrap_or_default(), high.unwrap_or_default())
}

/// Parses a size as fio does: a number with an optional k, m, g or t (powers of 1024). "KiB" and "KB" are
/// equal, as with fio's default `kb_base`.
pub fn parse_size(text: &str) -> Option<i64> {
    let text = text.trim().replace('_', "");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DriveConfig;

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        assert_eq!(parse_size("4k"), Some(4096));
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("1_000"), Some(1000));
        assert_eq!(parse_size("k"), None);
        assert_eq!(parse_size("4x"), None);
        assert_eq!(parse_size("99999999999t"), None);
    }

    #[test]
    fn a_share_in_percent_is_answered_with_the_share() {
        let with = |value: &str| {
            drive(&complete("logical_pages = 1_635_778", &format!("over_provisioning = {value}")))
        };
        let error = with("28").expect_err("percent").to_string();
        assert!(error.contains("from 0 to 10; a share, not percent: try 0.28"), "{error}");
        assert!(with("12.5").expect_err("percent").to_string().contains("percent: try 0.125"));
        assert!(!with("-28").expect_err("negative").to_string().contains("percent"));
        for value in ["0.28", "1.0", "4.0", "10"] {
            assert!(with(value).is_ok(), "{value}");
        }
    }

    #[test]
    fn a_float_that_is_whole_is_a_whole_number() {
        let with =
            |value: &str| drive(&complete("logical_pages = 1_635_778", &format!("logical_pages = {value}")));
        assert!(with("1e6").is_ok());
        for value in ["1.5e-1", "-1e6", "nan", "inf", "1e300"] {
            let error = with(value).expect_err(value).to_string();
            assert!(error.contains("logical_pages") && error.contains("whole number"), "{error}");
        }
    }

    fn drive(text: &str) -> Result<(), KeyError> {
        DriveConfig::check_table(&mut text.parse().expect("TOML"))
    }

    fn complete(replace: &str, by: &str) -> String {
        crate::presets::find("generic-8g").expect("exists").toml.replace(replace, by)
    }

    #[test]
    fn the_presets_pass() {
        for preset in crate::presets::PRESETS {
            drive(preset.toml).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_nearest() {
        let error = drive(&complete("read_ns", "raed_ns")).expect_err("unknown").to_string();
        assert!(error.contains("drive.nand.raed_ns"), "{error}");
        assert!(error.contains("drive.nand.read_ns"), "{error}");
    }

    #[test]
    fn a_value_outside_its_range_is_named_with_the_range() {
        let error = drive(&complete("channels = 1", "channels = 0")).expect_err("range").to_string();
        assert!(error.contains("drive.nand.channels") && error.contains("from 1 to 256"), "{error}");
        let error = drive(&complete("logical_pages = 1_635_778", "over_provisioning = nan"));
        assert!(error.expect_err("not a number").to_string().contains("over_provisioning"));
    }

    #[test]
    fn a_wrong_type_is_named() {
        let error = drive(&complete("channels = 1", "channels = \"one\"")).expect_err("type").to_string();
        assert!(error.contains("a whole number from 1 to 256"), "{error}");
    }

    #[test]
    fn a_missing_key_is_explained() {
        let error = drive(&complete("erase_ns = 5_000_000", "")).expect_err("missing").to_string();
        assert!(error.contains("drive.nand.erase_ns") && error.contains("tBERS"), "{error}");
    }
}
