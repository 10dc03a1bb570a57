//! Why a key of a configuration is refused.

/// A key that is refused. Each message names it, what was given, what is allowed, and the nearest valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key that means nothing.
    #[error("unknown key {key}{}; valid here: {valid}", did_you_mean(nearest))]
    Unknown {
        /// The key as written.
        key: String,
        /// Valid key most like it.
        nearest: Option<String>,
        /// Keys that are valid in this table.
        valid: String,
    },
    /// A key that must be given.
    #[error("{key} is missing{}", behind(": ", meaning))]
    Missing {
        /// The key.
        key: String,
        /// Its documentation.
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
        /// The key's documentation.
        meaning: String,
    },
    /// A name that is not known.
    #[error("{key} = {} is not known{}; known are {valid}", short(given), did_you_mean(nearest))]
    Name {
        /// The key.
        key: String,
        /// The value given.
        given: String,
        /// Valid name most like it.
        nearest: Option<String>,
        /// Valid names.
        valid: String,
    },
    /// A victim policy or placement that is neither a name nor a formula.
    #[error("{key}: {reason}; `strobe list {list}` explains them")]
    Formula {
        /// The key.
        key: String,
        /// Fault, its place, and the alternatives.
        reason: String,
        /// The list that has them.
        list: &'static str,
    },
    /// A table that is no table of its kind for a reason that is not in its schema.
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

    /// The key that is refused.
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

/// `text` behind a `sign`, or nothing.
fn behind(sign: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{sign}{text}") }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Characters of an option or a value that a message quotes.
const QUOTED_CHARS_MAX: usize = 80;

/// `text`, cut if it is long: what is wrong with it should still be seen.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
