//! Errors of a socket to the guest.

use std::io;

use crate::LinuxError;

/// An error of a link whose other end may just have gone.
pub(crate) fn gone(error: io::Error) -> LinuxError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            LinuxError::Ended(String::new())
        }
        _ => error.into(),
    }
}
