//! Messages of vhost-user on a socket, with the files that come along.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::LinuxError;
use crate::vhost::Header;

/// An error of a link whose other end may just have gone.
pub(crate) fn gone(error: io::Error) -> LinuxError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            LinuxError::Ended(String::new())
        }
        _ => error.into(),
    }
}

/// Files that may come with one message: a region of memory has one.
const FILES_MAX: usize = 8;

/// A message to the disk: header, what follows, and files.
pub(crate) type Message = (Header, Vec<u8>, Vec<OwnedFd>);

/// One message to the disk; `None` if the guest has closed the link.
pub(crate) fn receive(link: &mut UnixStream) -> Result<Option<Message>, LinuxError> {
    let mut bytes = [0; Header::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(&*link, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    let length = match received {
        Ok(message) => message.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => return Err(io::Error::from(error).into()),
    };
    if length == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    link.read_exact(&mut bytes[length..]).map_err(gone)?;
    let header = Header::parse(bytes).map_err(LinuxError::Protocol)?;
    let mut payload = vec![0; header.bytes];
    link.read_exact(&mut payload).map_err(gone)?;
    Ok(Some((header, payload, files)))
}
