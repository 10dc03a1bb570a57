//! Sockets that clients connect to.

use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::ServeError;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system, for its owner alone.
    Unix(PathBuf),
    /// A port of this machine; 0 is any free one.
    Tcp(SocketAddr),
}

impl Address {
    /// Its URI, as clients of NBD take it.
    pub fn uri(&self, export: &str) -> String {
        match self {
            Address::Unix(path) => {
                format!("nbd+unix:///{}?socket={}", encoded(export), encoded(&path.display().to_string()))
            }
            Address::Tcp(address) => format!("nbd://{address}/{}", encoded(export)),
        }
    }
}

/// `text` as part of a URI.
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

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    /// With the path that it is to be removed from.
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at `address`. A TCP port is offered to this machine only, as nothing is encrypted.
    pub(super) fn bind(address: &Address) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address: shown(address), source };
        match address {
            Address::Tcp(tcp) if !tcp.ip().is_loopback() => Err(ServeError::NotLoopback(*tcp)),
            Address::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Tcp(listener))
            }
            Address::Unix(path) => {
                make_way(path)?;
                // The socket is made with this mode, so that nobody else can connect in between.
                let before = rustix::process::umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                rustix::process::umask(before);
                let listener = bound.map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Unix(listener, std::path::absolute(path).map_err(failed)?))
            }
        }
    }

    /// Its address, with the port that was found.
    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    /// A client that has connected, if there is one.
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
            // It may be gone already.
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

/// Removes the socket of a server that is gone; refuses anything else that is at `path`.
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

/// A connected client.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(room),
            Self::Tcp(stream) => stream.read(room),
        }
    }

    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}
