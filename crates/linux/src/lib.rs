//! Runs a real Linux kernel in virtual time on a simulated drive.
//!
//! User-Mode Linux runs as a process, and sockets connect its clock and its disk to the simulator. The
//! simulator is the guest's calendar (time-travel protocol with shared memory) and its disk (vhost-user with
//! in-band notifications). Everything runs on one thread, which makes runs repeatable. The crate is empty on
//! systems other than Linux.
//!
//! `session.rs` and `calendar.rs` schedule events; `disk.rs` selects the drive's interface (`block.rs`,
//! `nvme/`), `host/` serves host files, `guest.rs` and `job.rs` are the guest's side.

#![cfg(target_os = "linux")]

mod attached;
mod block;
mod calendar;
pub mod command;
mod disk;
mod error;
pub mod guest;
mod host;
mod interface;
pub mod job;
pub mod kernel;
mod kernel_log;
mod link;
mod machine;
mod nvme;
mod pin;
mod port;
mod process;
mod program;
mod real_time;
mod record;
mod root;
mod run;
mod scratch;
mod session;
pub mod time;
mod watch;

pub use attached::DiskOptions;
pub use disk::Disk;
pub use error::LinuxError;
pub use host::{HostFiles, HostUse, can_be_shown, hidden_by};
pub use interface::Interface;
pub use machine::{AddedSyncs, Clock, CpuCost, EPOCH_NS, Machine};
pub use process::{End, Ended, Stream};
pub use program::{MissingProgram, find_program, this_program};
pub use record::{Recorder, TraceForm};
pub use root::Root;
pub use run::{Exit, Mark, OtherOutcome, Outcome, PoweredDrive};
pub use scratch::Scratch;
pub use session::{Listener, boot};
pub use watch::Watch;
