//! A drive of the simulator as a block device of this machine: `strobe serve`.
//!
//! [`nbd`] and [`nvme_tcp`] are protocols as functions of bytes; [`vhost`] has a guest's memory and rings, too. [`Engine`] hands requests to the drive and decides what
//! time it is there. [`Server`] owns the sockets and does both on one thread, so that nothing is locked. Another protocol
//! needs a session of its own, a variant of [`Protocol`], and shares the rest.

mod buffers;
mod clock;
#[cfg(target_os = "linux")]
mod desk;
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
pub use desk::Desk;
pub use engine::{Engine, Lag};
#[cfg(target_os = "linux")]
pub use result::{Beginning, LagResult, ServeResult, ServeTime, Served, ServerResult, SpaceResult};
#[cfg(target_os = "linux")]
pub use server::{Address, Protocol, ServeError, Server, Sockets, Tls};
pub use session::{Buffers, Session};
