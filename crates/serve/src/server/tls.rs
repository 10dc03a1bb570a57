use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::ServeError;

/// Maximum socket reads in one call.
const LOOKS_MAX: usize = 16;

/// Certificate and private key of a server.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads a certificate chain and its private key, both in PEM. With `clients`, a file of certificates in PEM,
    /// only clients with a certificate issued by one of them can connect.
    pub fn load(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, ServeError> {
        let wrong = |path: &Path, reason: &dyn std::fmt::Display| ServeError::Tls {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let certificates = |path: &Path| {
            let found = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(path, &error))?;
            if found.is_empty() { Err(wrong(path, &"it contains no certificate")) } else { Ok(found) }
        };
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(key, &error))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut issuers = RootCertStore::empty();
                for issuer in certificates(path)? {
                    issuers.add(issuer).map_err(|error| wrong(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(issuers), provider)
                    .build()
                    .map_err(|error| wrong(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, private).map_err(|error| wrong(key, &error))?;
        Ok(Self(Arc::new(config)))
    }
}

#[derive(Debug)]
pub(super) struct Encrypted {
    socket: TcpStream,
    tls: ServerConnection,
    has_buffered: bool,
}

impl Encrypted {
    pub(super) fn new(socket: TcpStream, Tls(config): &Tls) -> io::Result<Self> {
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self { socket, tls, has_buffered: false })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn has_buffered(&self) -> bool {
        self.has_buffered
    }

    pub(super) fn has_output(&self) -> bool {
        self.tls.wants_write()
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.has_buffered = false;
        // The limit keeps a fast client from blocking the server.
        for _ in 0..LOOKS_MAX {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return if filled > 0 { Ok(filled) } else { Err(error) },
            }
            if filled == buffer.len() {
                break;
            }
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return Ok(filled),
                Ok(_) => {}
                Err(_) if filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            }
            let outcome = self.tls.process_new_packets();
            // If the packet is invalid, this sends the alert that tells the client the reason.
            self.flush()?;
            outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        // After the last read, decrypted bytes may remain in rustls. The caller must not wait for the socket
        // then.
        self.has_buffered =
            self.tls.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0);
        if filled > 0 { Ok(filled) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = self.tls.writer().write_vectored(parts)?;
        self.flush()?;
        if count > 0 { Ok(count) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
