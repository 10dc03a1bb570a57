//! Target side of NVMe over TCP (NVMe TCP transport specification 1.0), without sockets and clocks.
//!
//! Each connection carries one queue. A host's first connection is its admin queue: Connect creates a
//! [controller](Subsystem). Further connections are I/O queues of that controller. A [`Session`] handles one
//! connection:
//!
//! 1. Write received bytes to [`free_space`](crate::Session::free_space).
//! 2. [`Session::submit`] parses PDUs, gathers the data of commands, and submits them to the drive.
//! 3. [`Session::answer`] takes the drive's answers, in any order.
//! 4. [`output`](crate::Session::output) returns the bytes to send.
//!
//! **Memory** of a connection is bounded: at most one PDU, 128 commands, [`GATHERED_BYTES_MAX`], and 32 MiB
//! of in-flight commands and answers.

mod commands;
mod session;
mod subsystem;
mod wire;

pub use strobe_nvme::{NQN, Options};

pub use session::{GATHERED_BYTES_MAX, Session};
pub use subsystem::{DISCOVERY_NQN, Subsystem};
