//! Vhost-user messages from a socket, with their files.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::message::Header;

/// Maximum files of a message: one per memory region.
const FILES_MAX: usize = 8;

/// Message: header, payload and files.
pub type Message = (Header, Vec<u8>, Vec<OwnedFd>);

/// Outcome of [`Receiver::receive`].
#[derive(Debug)]
pub enum Received {
    /// A complete message.
    Message(Message),
    /// The message is incomplete.
    Part,
    /// The peer has closed the socket.
    Closed,
    /// The bytes are not a message.
    Broken(String),
}

/// Reader of vhost-user messages. It never reads beyond a message: the next message's files would count as
/// its own.
#[derive(Debug, Default)]
pub struct Receiver {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Receiver {
    /// Reads from `socket`, at most up to the end of the current message.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<Received> {
        let header = match self.header() {
            Ok(header) => header,
            Err(broken) => return Ok(Received::Broken(broken)),
        };
        let (held, whole) = (self.bytes.len(), Header::BYTES + header.map_or(0, |header| header.bytes));
        // Without a complete header, only the rest of the header is read.
        self.bytes.resize(whole, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let buffers = &mut [IoSliceMut::new(&mut self.bytes[held..])];
        let received = recvmsg(socket, buffers, &mut control, RecvFlags::CMSG_CLOEXEC);
        let count = received.as_ref().map_or(0, |message| message.bytes);
        self.bytes.truncate(held + count);
        match received {
            Ok(_) if count == 0 => return Ok(Received::Closed),
            Ok(_) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.files.extend(rights);
            }
        }
        if self.files.len() > FILES_MAX {
            return Ok(Received::Broken(format!("a vhost-user message with more than {FILES_MAX} files")));
        }
        Ok(match self.header() {
            Err(broken) => Received::Broken(broken),
            Ok(Some(header)) if self.bytes.len() == Header::BYTES + header.bytes => {
                let payload = self.bytes.split_off(Header::BYTES);
                self.bytes.clear();
                Received::Message((header, payload, std::mem::take(&mut self.files)))
            }
            Ok(_) => Received::Part,
        })
    }

    fn header(&self) -> Result<Option<Header>, String> {
        self.bytes.first_chunk().map(|bytes| Header::parse(*bytes)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::message::reply;

    #[test]
    fn messages_come_in_parts_and_one_at_a_time() {
        let (mut there, here) = UnixStream::pair().expect("a socket");
        here.set_nonblocking(true).expect("it can");
        let mut receiver = Receiver::default();
        let (first, second) = (reply(2, &[7; 8]), reply(3, &[]));
        for byte in &first[..first.len() - 1] {
            there.write_all(&[*byte]).expect("it is open");
            assert!(matches!(receiver.receive(&here), Ok(Received::Part)));
        }
        assert_eq!(receiver.receive(&here).expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
        there.write_all(&[&first[first.len() - 1..], &second].concat()).expect("it is open");
        let Ok(Received::Message((header, payload, _))) = receiver.receive(&here) else { panic!() };
        assert_eq!((header.request, payload), (2, vec![7; 8]));
        let Ok(Received::Message((header, payload, _))) = receiver.receive(&here) else { panic!() };
        assert_eq!((header.request, payload), (3, Vec::new()));
        there.write_all(&[0; 12]).expect("it is open");
        assert!(matches!(receiver.receive(&here), Ok(Received::Broken(text)) if text.contains("version 0")));
        drop(there);
        assert!(matches!(Receiver::default().receive(&here), Ok(Received::Closed)));
    }
}
