//! Why a trace cannot be read.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line of a text trace, counted from 1.
    Line(u64),
    /// A record of a binary trace, counted from 1.
    Record(u64),
}

impl Position {
    /// The number alone.
    pub const fn number(self) -> u64 {
        match self {
            Position::Line(number) | Position::Record(number) => number,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Line(number) => write!(f, "line {number}"),
            Position::Record(number) => write!(f, "record {number}"),
        }
    }
}

/// Why a trace cannot be opened or read further. Whatever record it is about was not returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open trace {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file cannot be read, or its gzip data are corrupt.
    #[error("cannot read trace {name} at {position}: {source}")]
    Io {
        /// The trace.
        name: String,
        /// The line or record that was wanted.
        position: Position,
        /// Error of the operating system or the decompressor.
        source: io::Error,
    },
    /// No format has this name.
    #[error("unknown trace format `{given}`, did you mean `{nearest}`? The formats are {known}")]
    UnknownFormat {
        /// The name given.
        given: String,
        /// The format whose name is closest.
        nearest: &'static str,
        /// All there are.
        known: String,
    },
    /// An option does not fit the format or is out of range.
    #[error("trace option {option}: {reason}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Fault, and the cure.
        reason: String,
    },
    /// The file is compressed by something else than gzip.
    #[error("trace {name} is compressed with {kind}; decompress it first, or recompress it with gzip")]
    Compressed {
        /// The trace.
        name: String,
        /// The kind of compression.
        kind: &'static str,
    },
    /// A line or record is not what the format says.
    #[error("trace {name}, {position}: {reason}: `{text}`")]
    Malformed {
        /// The trace.
        name: String,
        /// Position in the trace.
        position: Position,
        /// Fault, and the cure if there is one.
        reason: String,
        /// The line, or the record in hexadecimal: shortened, without control characters.
        text: String,
    },
    /// The file ends within compressed data or within a binary record.
    #[error("trace {name}, {position}: {reason}; the file was cut off, fetch or copy it again")]
    Truncated {
        /// The trace.
        name: String,
        /// The first line or record that is incomplete.
        position: Position,
        /// Missing part.
        reason: String,
    },
    /// The trace holds several devices and none was chosen.
    #[error(
        "trace {name}, {position}: a second device `{second}` after `{first}`; choose one with \
         `--device {first}`, or merge all with `--device all`: `{text}`"
    )]
    SeveralDevices {
        /// The trace.
        name: String,
        /// The first record of the second device.
        position: Position,
        /// The device of all records before.
        first: String,
        /// The device of this record.
        second: String,
        /// The line, or the record in hexadecimal.
        text: String,
    },
    /// The whole trace was read and the chosen device was not in it.
    #[error("trace {name} has no device `{device}`, but for example `{example}`; correct `--device`")]
    NoSuchDevice {
        /// The trace.
        name: String,
        /// The device chosen.
        device: String,
        /// A device that the trace holds.
        example: String,
    },
}

/// Characters of a line that a message shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Text from outside made fit for a terminal: shortened, control characters escaped.
pub(super) fn printable(bytes: &[u8]) -> String {
    let prefix = &bytes[..bytes.len().min(4 * SHOWN_CHARS_MAX)];
    let text = String::from_utf8_lossy(prefix);
    let mut shown = String::new();
    for c in text.chars().take(SHOWN_CHARS_MAX) {
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    if text.chars().count() > SHOWN_CHARS_MAX || prefix.len() < bytes.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn shown_text_is_short_and_harmless() {
        assert_eq!(printable(b"a\tb\x1b[31m\0\"'\\ \xc3\xa9"), "a\\tb\\u{1b}[31m\\0\"'\\ \u{e9}");
        assert_eq!(printable("\u{202e}x".as_bytes()), "\\u{202e}x");
        assert_eq!(printable(&[0xff]), "\u{fffd}");
        assert_eq!(printable(&[b'a'; 200]), "a".repeat(200));
        assert_eq!(printable(&[b'a'; 100_000]), "a".repeat(200) + "...");
    }
}
