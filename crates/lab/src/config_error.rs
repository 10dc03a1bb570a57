use strobe_ssd::KeyError;
use strobe_ssd::schema::short;

/// Reason why an experiment was refused before it ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The text is not TOML.
    #[error("{path}: not valid TOML: {message}")]
    Syntax {
        /// File or option.
        path: String,
        /// Message of the parser, with line and column.
        message: String,
    },
    /// An error with the file that contains it.
    #[error("{path}: {error}")]
    In {
        /// Path of the file.
        path: String,
        /// Underlying error.
        error: Box<ConfigError>,
    },
    /// An error with the command-line option that caused it.
    #[error("{}: {}", short(option), without_repetition(option, &error.to_string()))]
    Given {
        /// Option with its value.
        option: String,
        /// Underlying error.
        error: Box<ConfigError>,
    },
    /// A key is refused.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file is empty.
    #[error("{0}: the file is empty; start from examples/quickstart.toml; docs/REFERENCE.md lists all keys")]
    Empty(String),
    /// A drive table instead of an experiment.
    #[error(
        "this is a drive, not an experiment: refer to it from an experiment ([drive] with preset = \
         \"FILE.toml\"), or run `strobe replay TRACE --drive FILE.toml`"
    )]
    IsDrive,
    /// A sweep instead of an experiment.
    #[error(
        "this is a sweep, not one experiment: run it with `strobe sweep FILE.toml`, or leave [sweep] out"
    )]
    IsSweep,
    /// A key without effect.
    #[error("{key} has no effect unless {wants}; leave it out, or set that too")]
    NoEffect {
        /// Path of the key.
        key: String,
        /// Condition under which the key has an effect.
        wants: String,
    },
    /// `--set` without `=`.
    #[error("--set {}: expected KEY.PATH=VALUE, for example --set drive.ftl.gc.victim=fifo", short(.0))]
    BadSet(String),
    /// A key in a value that is not a table.
    #[error("{0} is not a table, so nothing in it can be set")]
    NoTable(String),
}

/// Removes the option from `message`, because the option is printed in front.
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
