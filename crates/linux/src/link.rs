use std::io;

use crate::LinuxError;

pub(crate) fn gone(error: io::Error) -> LinuxError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            LinuxError::Ended(String::new())
        }
        _ => error.into(),
    }
}
