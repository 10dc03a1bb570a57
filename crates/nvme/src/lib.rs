//! NVMe command set of a simulated drive, independent of the transport.
//!
//! A transport (PCI in a guest, TCP of a server) has its own queues, memory and controller. It calls a
//! [`CommandSet`] three times per command:
//!
//! 1. [`CommandSet::input_bytes`] returns the number of bytes to fetch from the host.
//! 2. [`CommandSet::begin`] refuses the command, answers it, or returns [`Work`] for the drive.
//! 3. [`CommandSet::finish`] turns the drive's answer into data and a status for the host.
//!
//! Section numbers refer to the NVMe base specification 2.0 unless stated otherwise.

mod admin;
mod begun;
mod command_set;
mod entry;
mod io;
mod options;
mod pages;
mod placement;
mod registers;

pub use begun::Begun;
pub use command_set::{After, CommandSet, Queue};
pub use entry::{Entry, Status};
pub use io::Work;
pub use options::{Fabrics, Options};
pub use pages::{DATA_BYTES_MAX, NAMESPACE, NQN, PAGE_BYTES};
pub use registers::{ENTRIES_MAX, Effect, Registers};
