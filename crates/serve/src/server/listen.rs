use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::ServeError;
use super::tls::{Encrypted, Tls};

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Unix socket path, accessible to its owner only.
    Unix(PathBuf),
    /// TCP address; port 0 selects a free port.
    Tcp(SocketAddr),
}

impl Address {
    /// Returns the URI for NBD clients. For TCP, the scheme depends on `is_encrypted`. HOST stands for the name of
    /// this machine if the server listens on all its addresses.
    pub fn uri(&self, export: &str, is_encrypted: bool) -> String {
        match self {
            Address::Unix(path) => {
                format!("nbd+unix:///{}?socket={}", encoded(export), encoded(&path.display().to_string()))
            }
            Address::Tcp(address) => {
                let scheme = if is_encrypted { "nbds" } else { "nbd" };
                if address.ip().is_unspecified() {
                    return format!("{scheme}://HOST:{}/{}", address.port(), encoded(export));
                }
                format!("{scheme}://{address}/{}", encoded(export))
            }
        }
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[derive(Debug)]
pub(super) enum Listener {
    /// Listener, and the socket file to remove at the end.
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds `address`. Without encryption, a TCP address must be a loopback address.
    pub(super) fn bind(address: &Address, is_encrypted: bool) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address: shown(address), source };
        match address {
            Address::Tcp(tcp) if !is_encrypted && !tcp.ip().is_loopback() => {
                Err(ServeError::NotLoopback(*tcp))
            }
            Address::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Tcp(listener))
            }
            Address::Unix(path) => {
                make_way(path)?;
                // With a umask, the socket is private from its creation. A chmod would leave a moment for
                // others to connect.
                let before = rustix::process::umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                rustix::process::umask(before);
                let listener = bound.map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Unix(listener, std::path::absolute(path).map_err(failed)?))
            }
        }
    }

    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // The file may be gone already.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

fn shown(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(address) => address.to_string(),
    }
}

/// Removes the socket file of a dead server. Refuses other files, and the socket of a running server.
fn make_way(path: &Path) -> Result<(), ServeError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ServeError::NotASocket(path.to_owned()));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(ServeError::InUse(path.to_owned()));
    }
    fs::remove_file(path).map_err(|source| ServeError::Listen { address: path.display().to_string(), source })
}

#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<Encrypted>),
}

impl Stream {
    pub(super) fn encrypt(&mut self, tls: &Tls) -> io::Result<()> {
        if let Self::Tcp(socket) = self {
            *self = Self::Tls(Box::new(Encrypted::new(socket.try_clone()?, tls)?));
        }
        Ok(())
    }

    /// True if decrypted bytes are buffered. A poll of the socket does not announce them.
    pub(super) fn has_buffered(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_buffered())
    }

    pub(super) fn has_output(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_output())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self { stream.flush() } else { Ok(()) }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes `parts` with `file` attached to the first byte. Only Unix sockets carry files.
    pub(super) fn write_with_file(
        &mut self,
        parts: &[IoSlice<'_>],
        file: BorrowedFd<'_>,
    ) -> io::Result<usize> {
        let Self::Unix(stream) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let (files, mut space) = ([file], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        Ok(sendmsg(stream, parts, &mut control, SendFlags::NOSIGNAL)?)
    }

    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
            Self::Tls(stream) => stream.write(parts),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.socket().as_fd(),
        }
    }
}
