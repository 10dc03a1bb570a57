//! The target's side of NVMe over TCP (NVMe TCP transport specification 1.0), without sockets and clocks.
//!
//! A connection is a queue. The first of a host is its admin queue: Connect makes a [controller](Subsystem) for it; further
//! connections are I/O queues of that controller. Each connection is a [`Session`]:
//!
//! 1. The connection's bytes go into [`room`](crate::Session::room).
//! 2. [`Session::submit`] takes PDUs apart, gathers the data of commands, and hands them to the drive.
//! 3. [`Session::answer`] takes the drive's answers, in any order.
//! 4. [`output`](crate::Session::output) has the bytes to send.
//!
//! **Memory** of a connection is bounded: at most one PDU is buffered, a queue has at most 128 commands, and data is
//! asked for only while commands that are not whole have less than [`GATHERED_BYTES_MAX`]. Nothing is read
//! while commands under way and answers have more than 32 MiB.

mod commands;
mod session;
mod subsystem;
mod wire;

pub use strobe_nvme::{NQN, Options};

pub use session::{GATHERED_BYTES_MAX, Session};
pub use subsystem::{DISCOVERY_NQN, Subsystem};
