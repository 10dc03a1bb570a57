//! Serves a simulated drive as a block device of this machine: `strobe serve`.
//!
//! [`nbd`] and [`nvme_tcp`] implement protocols without sockets: bytes in, bytes out. [`vhost`] also accesses
//! the memory and rings of a guest. [`Engine`] submits requests to the drive and advances its virtual time.
//! [`Server`] owns the sockets and runs everything on one thread, without locks. A new protocol needs a
//! session type and a variant of [`Protocol`].

mod buffers;
mod clock;
#[cfg(target_os = "linux")]
mod control_commands;
mod engine;
#[cfg(target_os = "linux")]
mod metrics;
pub mod nbd;
pub mod nvme_tcp;
#[cfg(target_os = "linux")]
mod result;
#[cfg(target_os = "linux")]
mod server;
mod session;
#[cfg(target_os = "linux")]
pub mod vhost;

pub use clock::Pace;
#[cfg(target_os = "linux")]
pub use control_commands::ControlCommands;
pub use engine::{Engine, Lag};
#[cfg(target_os = "linux")]
pub use result::{Beginning, LagResult, ServeResult, ServeTime, Served, ServerResult, SpaceResult};
#[cfg(target_os = "linux")]
pub use server::{Address, Protocol, ServeError, Server, Sockets, Tls};
pub use session::{Buffers, Session};
