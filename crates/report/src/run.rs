//! A result, read from its JSON, and what figures ask of it.

use serde_json::Value;

/// The version of results that is understood.
const SCHEMA_VERSION: u64 = 1;

/// Why a text is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It ends too early.
    #[error(
        "{name}: the JSON ends in the middle ({error}); was the run stopped, or the disk full? Run it again with --json"
    )]
    Truncated {
        /// Name of the input.
        name: String,
        /// Message of the reader.
        error: serde_json::Error,
    },
    /// It is no JSON.
    #[error(
        "{name}: that is no JSON ({error}); results are what strobe run or strobe replay write with --json FILE"
    )]
    NoJson {
        /// Name of the input.
        name: String,
        /// Message of the reader.
        error: serde_json::Error,
    },
    /// It is JSON of another kind.
    #[error(
        "{name}: that is no result of a run: it has no \"{missing}\"; results are what strobe run or strobe replay write \
         with --json FILE"
    )]
    NoResult {
        /// Name of the input.
        name: String,
        /// The first key that every result has, and this has not.
        missing: &'static str,
    },
    /// It is a result of another version.
    #[error(
        "{name}: a result of schema_version {found}; this strobe reads version {SCHEMA_VERSION}; run it again with this \
         strobe, or use the one that wrote it"
    )]
    Version {
        /// Name of the input.
        name: String,
        /// Its version.
        found: String,
    },
}

/// A result with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its name in legends.
    pub name: String,
    result: Value,
}

/// Keys that every result has, and hardly anything else; that of a guest has its drive where others have a configuration.
const KEYS: [&str; 4] = ["config", "host", "nand", "wear"];

impl Run {
    /// The result in `text`, which is what `--json` writes, to be called `name`.
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

    /// `result`, to be called `name`.
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

    /// Value at `path`, keys with slashes between; null if there is nothing. The drive of a guest is found where that of
    /// others is.
    pub(crate) fn at(&self, path: &str) -> &Value {
        match path.strip_prefix("config/") {
            Some(drive) if self.result.get("config").is_none() => at(&self.result, drive),
            _ => at(&self.result, path),
        }
    }

    /// The number at `path`.
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        number(self.at(path))
    }

    /// The list at `path`, which may be empty.
    pub(crate) fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    /// The text at `path`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path).as_str()
    }
}

/// Value at `path` below `value`.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').fold(value, |value, key| match value {
        Value::Array(items) => key.parse().ok().and_then(|at: usize| items.get(at)).unwrap_or(&Value::Null),
        _ => value.get(key).unwrap_or(&Value::Null),
    })
}

/// A finite number.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}
