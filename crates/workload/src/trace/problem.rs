//! Decoding errors: the reader adds trace name, position and text.

use std::io;

pub(super) type Reason = String;

#[derive(Debug)]
pub(super) enum Problem {
    Io(io::Error),
    Malformed(Reason),
    Truncated(Reason),
}
