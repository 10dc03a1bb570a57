//! Reasons to reject a configuration key.

/// A rejected key. Messages name the key, its value, the allowed values, and the nearest valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An unknown key.
    #[error("unknown key {key}{}; valid here: {valid}", did_you_mean(nearest))]
    Unknown {
        /// The key as written.
        key: String,
        /// Nearest valid key.
        nearest: Option<String>,
        /// Keys that are valid in this table.
        valid: String,
    },
    /// A required key that is missing.
    #[error("{key} is missing{}", behind(": ", meaning))]
    Missing {
        /// The key.
        key: String,
        /// Documentation of the key.
        meaning: String,
    },
    /// A value of the wrong type or out of range.
    #[error("{key} = {}: must be {allowed}{}", short(given), behind(". ", meaning))]
    Value {
        /// The key.
        key: String,
        /// The value given.
        given: String,
        /// Allowed values.
        allowed: String,
        /// Documentation of the key.
        meaning: String,
    },
    /// An unknown name.
    #[error("{key} = {} is not known{}; known are {valid}", short(given), did_you_mean(nearest))]
    Name {
        /// The key.
        key: String,
        /// The value given.
        given: String,
        /// Nearest valid name.
        nearest: Option<String>,
        /// Valid names.
        valid: String,
    },
    /// A victim policy or placement that is neither a name nor a formula.
    #[error("{key}: {reason}; `strobe list {list}` explains them")]
    Formula {
        /// The key.
        key: String,
        /// Error, its position, and the alternatives.
        reason: String,
        /// Argument of `strobe list` that explains names and formulas.
        list: &'static str,
    },
    /// A table that is rejected for a reason outside its schema.
    #[error("{path}: not valid TOML: {reason}")]
    Table {
        /// The table.
        path: String,
        /// Message of the TOML parser.
        reason: String,
    },
}

impl KeyError {
    /// A value of the wrong type or out of range.
    pub fn value(
        key: impl Into<String>,
        given: impl Into<String>,
        allowed: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        let (key, given, allowed, meaning) = (key.into(), given.into(), allowed.into(), meaning.into());
        Self::Value { key, given, allowed, meaning }
    }

    /// The rejected key.
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown { key, .. }
            | Self::Missing { key, .. }
            | Self::Value { key, .. }
            | Self::Name { key, .. }
            | Self::Formula { key, .. }
            | Self::Table { path: key, .. } => key,
        }
    }
}

fn behind(sign: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{sign}{text}") }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

const QUOTED_CHARS_MAX: usize = 80;

/// `text`, truncated if it is long, to keep the rest of the message visible.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
