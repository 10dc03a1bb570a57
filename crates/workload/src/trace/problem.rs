//! Why a trace cannot be decoded, before its name and the place are known.

use std::io;

/// Why a line is malformed, with the cure if there is one. The file, the line number and the
/// text are added by the reader.
pub(super) type Reason = String;

/// Why a source cannot go on.
#[derive(Debug)]
pub(super) enum Problem {
    Io(io::Error),
    Malformed(Reason),
    Truncated(Reason),
}
