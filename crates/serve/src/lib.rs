//! A drive of the simulator as a block device of this machine: `strobe serve`.
//!
//! [`nbd`] is the protocol, a function of bytes. [`Engine`] hands requests to the drive and decides what time it is
//! there. [`Server`] owns the sockets and does both on one thread, so that nothing is locked. A server of another
//! protocol needs a session of its own beside `nbd`, and shares the rest.

mod clock;
#[cfg(target_os = "linux")]
mod desk;
mod engine;
#[cfg(target_os = "linux")]
mod metrics;
pub mod nbd;
#[cfg(target_os = "linux")]
mod result;
#[cfg(target_os = "linux")]
mod server;

pub use clock::Pace;
#[cfg(target_os = "linux")]
pub use desk::Desk;
pub use engine::{Engine, Lag};
#[cfg(target_os = "linux")]
pub use result::{Beginning, LagResult, ServeResult, ServeTime, Served, ServerResult, SpaceResult};
#[cfg(target_os = "linux")]
pub use server::{Address, ServeError, Server, Sockets};
