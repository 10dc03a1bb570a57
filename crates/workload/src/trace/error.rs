use std::fmt;
use std::io;
use std::path::PathBuf;

/// Position in a trace.
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

/// Error of opening or reading a trace. The affected record was not returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open trace {}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file cannot be read, or its gzip data is corrupt.
    #[error("cannot read trace {name} at {position}: {source}")]
    Io {
        /// Name of the trace.
        name: String,
        /// Line or record being read.
        position: Position,
        /// Error of the operating system or the decompressor.
        source: io::Error,
    },
    /// The format is unknown.
    #[error("unknown trace format `{given}`, did you mean `{nearest}`? The formats are {known}")]
    UnknownFormat {
        /// Given name.
        given: String,
        /// Nearest known format.
        nearest: &'static str,
        /// All known formats.
        known: String,
    },
    /// An option does not fit the format or is out of range.
    #[error("trace option {option}: {reason}")]
    BadOption {
        /// Name of the option.
        option: &'static str,
        /// Fault and remedy.
        reason: String,
    },
    /// The file has an unsupported compression.
    #[error("trace {name} is compressed with {kind}; decompress it first, or recompress it with gzip")]
    Compressed {
        /// Name of the trace.
        name: String,
        /// Kind of compression.
        kind: &'static str,
    },
    /// A line or record violates the format.
    #[error("trace {name}, {position}: {reason}: `{text}`")]
    Malformed {
        /// Name of the trace.
        name: String,
        /// Position in the trace.
        position: Position,
        /// Fault, and the remedy if known.
        reason: String,
        /// The line, or the record in hexadecimal, shortened and without control characters.
        text: String,
    },
    /// The file ends within compressed data or within a binary record.
    #[error("trace {name}, {position}: {reason}; the file was cut off, fetch or copy it again")]
    Truncated {
        /// Name of the trace.
        name: String,
        /// First incomplete line or record.
        position: Position,
        /// Missing part.
        reason: String,
    },
    /// The trace holds several devices and none was selected.
    #[error(
        "trace {name}, {position}: a second device `{second}` after `{first}`; choose one with \
         `--device {first}`, give each an offset with `--device {first}@0 --device {second}@100g`, or lay all over \
         each other with `--device all`: `{text}`"
    )]
    SeveralDevices {
        /// Name of the trace.
        name: String,
        /// First record of the second device.
        position: Position,
        /// Device of all earlier records.
        first: String,
        /// Device of this record.
        second: String,
        /// The line, or the record in hexadecimal.
        text: String,
    },
    /// A device is selected, but the records have none.
    #[error(
        "trace {name} has no names of devices, so `--device {device}` (workload.device) matches nothing: leave it \
         out, or name the column of devices (format csv: `--columns ...,device`)"
    )]
    NoDevices {
        /// Name of the trace.
        name: String,
        /// Selected device.
        device: String,
    },
    /// The selected device is not in the trace.
    #[error("trace {name} has no device `{device}`, but {known}; correct `--device`")]
    NoSuchDevice {
        /// Name of the trace.
        name: String,
        /// Selected device.
        device: String,
        /// Devices in the trace.
        known: String,
    },
}

const SHOWN_CHARS_MAX: usize = 200;

/// Text of a trace, shortened and with control characters escaped.
pub(super) fn printable(bytes: &[u8]) -> String {
    let prefix = &bytes[..bytes.len().min(4 * SHOWN_CHARS_MAX)];
    let text = String::from_utf8_lossy(prefix);
    let mut shown = String::new();
    // Text from a trace must not control the terminal.
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
