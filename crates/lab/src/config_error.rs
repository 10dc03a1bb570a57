//! Why an experiment is refused before it runs.

use strobe_ssd::KeyError;
use strobe_ssd::schema::short;

/// Why an experiment was refused before it ran. Each message names the key, what was given, what
/// is allowed, and the nearest valid name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Not TOML.
    #[error("{path}: not valid TOML: {message}")]
    Syntax {
        /// The file or option.
        path: String,
        /// The parser's message, with line and column.
        message: String,
    },
    /// An error with the file it was found in.
    #[error("{path}: {error}")]
    In {
        /// The file.
        path: String,
        /// Underlying error.
        error: Box<ConfigError>,
    },
    /// An error with the option of the command line that gave what is wrong.
    #[error("{}: {}", short(option), without_repetition(option, &error.to_string()))]
    Given {
        /// The option with its value.
        option: String,
        /// Underlying error.
        error: Box<ConfigError>,
    },
    /// A key is refused.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file that says nothing.
    #[error(
        "{0}: there is nothing in it; examples/quickstart.toml is a start, docs/REFERENCE.md has all keys"
    )]
    Empty(String),
    /// The table of a drive where an experiment should be.
    #[error(
        "this is a drive, not an experiment: name it in one, [drive] with preset = \"FILE.toml\", or use it with \
         `strobe replay TRACE --drive FILE.toml`"
    )]
    IsDrive,
    /// A sweep where an experiment should be.
    #[error(
        "this is a sweep, not one experiment: run it with `strobe sweep FILE.toml`, or leave [sweep] out"
    )]
    IsSweep,
    /// A key that would change nothing.
    #[error("{key} has no effect here: it counts with {wants}; leave it out, or set that too")]
    NoEffect {
        /// The key.
        key: String,
        /// Condition under which the key has an effect.
        wants: String,
    },
    /// `--set` without `=`.
    #[error("--set {}: expected KEY.PATH=VALUE, for example --set drive.ftl.gc.victim=fifo", short(.0))]
    BadSet(String),
    /// A key in something that has no keys.
    #[error("{0} is not a table, so nothing in it can be set")]
    NoTable(String),
}

/// `message` without the key and the value that the `option` in front of it has just named.
fn without_repetition(option: &str, message: &str) -> String {
    let rest = option.strip_prefix("--set ").and_then(|set| {
        let (key, value) = set.split_once('=')?;
        let rest = message.strip_prefix(key)?.strip_prefix(" = ")?;
        let rest = [short(&format!("\"{value}\"")), short(value)]
            .iter()
            .find_map(|value| rest.strip_prefix(value))?;
        rest.strip_prefix(": ").or_else(|| rest.strip_prefix(" is "))
    });
    rest.unwrap_or(message).to_owned()
}
