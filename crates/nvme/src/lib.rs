//! NVMe commands for a drive of the simulator, whatever brings them.
//!
//! A transport (PCI in a guest, TCP of a server) has queues, memory and a controller of its own. For each command it asks
//! three things of a [`CommandSet`]:
//!
//! 1. [`CommandSet::input_bytes`]: the data that the host sends along. The transport gets them.
//! 2. [`CommandSet::begin`]: the command is refused, answered at once, or [`Work`] for the drive.
//! 3. [`CommandSet::finish`]: the drive's answer becomes data and a status for the host.
//!
//! Numbers of sections are those of the NVMe base specification 2.0 unless said.

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
