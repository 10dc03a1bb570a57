//! A result parsed from JSON, and the look-ups by which charts and pages read it.

use serde_json::Value;

const SCHEMA_VERSION: u64 = 1;

/// Error of a text that is not a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The JSON is truncated.
    #[error(
        "{name}: the JSON is truncated ({error}); was the run stopped, or the disk full? Run it again with --json"
    )]
    Truncated {
        /// Name of the input.
        name: String,
        /// Parser error.
        error: serde_json::Error,
    },
    /// The text is not JSON.
    #[error(
        "{name}: not JSON ({error}); results are written by strobe run or strobe replay with --json FILE"
    )]
    NoJson {
        /// Name of the input.
        name: String,
        /// Parser error.
        error: serde_json::Error,
    },
    /// The JSON is not the result of a run.
    #[error(
        "{name}: not a result of a run: it has no \"{missing}\"; results are written by strobe run or strobe replay \
         with --json FILE"
    )]
    NoResult {
        /// Name of the input.
        name: String,
        /// First required key that is missing.
        missing: &'static str,
    },
    /// The result has another schema version.
    #[error(
        "{name}: the result has schema_version {found}, this strobe reads version {SCHEMA_VERSION}; run it again with this \
         strobe, or use the one that wrote it"
    )]
    Version {
        /// Name of the input.
        name: String,
        /// Schema version found.
        found: String,
    },
}

/// A result with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Name in legends.
    pub name: String,
    result: Value,
}

/// Keys that identify a result. The result of a guest has "drive" instead of "config".
const KEYS: [&str; 4] = ["config", "host", "nand", "wear"];

impl Run {
    /// Parses `text`, the output of `--json`, as a result called `name`.
    pub fn read(name: &str, text: &str) -> Result<Self, ReadError> {
        let owned = || name.to_owned();
        let result: Value = serde_json::from_str(text).map_err(|error| {
            if error.is_eof() && !text.trim().is_empty() {
                ReadError::Truncated { name: owned(), error }
            } else {
                ReadError::NoJson { name: owned(), error }
            }
        })?;
        Self::new(name, result)
    }

    /// Checks `result` and calls it `name`.
    pub fn new(name: &str, result: Value) -> Result<Self, ReadError> {
        let owned = || name.to_owned();
        match result.get("schema_version") {
            None => return Err(ReadError::NoResult { name: owned(), missing: "schema_version" }),
            Some(found) if found.as_u64() != Some(SCHEMA_VERSION) => {
                let found = found.to_string().chars().take(40).collect();
                return Err(ReadError::Version { name: owned(), found });
            }
            Some(_) => {}
        }
        let has = |key: &str| result.get(key).is_some_and(Value::is_object);
        let is_guest = has("guest") && has("drive");
        match KEYS.into_iter().find(|key| !(has(key) || is_guest && *key == "config")) {
            Some(missing) => Err(ReadError::NoResult { name: owned(), missing }),
            None => Ok(Self { name: owned(), result }),
        }
    }

    /// The whole result.
    pub fn json(&self) -> &Value {
        &self.result
    }

    /// Value at `path`, keys separated by slashes; null if absent. A path to "config/drive" also finds the
    /// drive of a guest.
    pub(crate) fn at(&self, path: &str) -> &Value {
        match path.strip_prefix("config/") {
            Some(drive) if self.result.get("config").is_none() => at(&self.result, drive),
            _ => at(&self.result, path),
        }
    }

    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        number(self.at(path))
    }

    pub(crate) fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path).as_str()
    }
}

/// Value at `path` below `value`, keys and list indices separated by slashes; null if absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').fold(value, |value, key| match value {
        Value::Array(items) => key.parse().ok().and_then(|at: usize| items.get(at)).unwrap_or(&Value::Null),
        _ => value.get(key).unwrap_or(&Value::Null),
    })
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}
