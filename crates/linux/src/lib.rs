//! A real Linux kernel in virtual time on the drive.
//!
//! User-Mode Linux runs as a process; its clock and its disk are sockets to us. We are its calendar (the
//! time-travel protocol with shared memory) and its disk (vhost-user with in-band notifications), on one thread,
//! so that a run is the same every time.

#[cfg(target_os = "linux")]
mod calendar;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
pub mod guest;
pub mod job;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
mod pin;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod session;
pub mod time;
pub mod vhost;

#[cfg(target_os = "linux")]
pub use disk::{Disk, DiskOptions, Requests};
#[cfg(target_os = "linux")]
pub use error::LinuxError;
#[cfg(target_os = "linux")]
pub use process::{Boot, Clock, EPOCH_NS, Stream};
#[cfg(target_os = "linux")]
pub use record::{Recorder, TraceForm};
#[cfg(target_os = "linux")]
pub use root::{MissingProgram, Root, find_program};
#[cfg(target_os = "linux")]
pub use run::{Machine, Mark, Outcome, PoweredDrive};
#[cfg(target_os = "linux")]
pub use session::{End, Ended, Listener, boot};
