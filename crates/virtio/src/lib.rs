//! A drive as a virtio block device: messages, rings and requests of vhost-user, without listening sockets,
//! clocks and drives.
//!
//! 1. A [`Receiver`] takes [messages](message) and their files from a socket.
//! 2. [`Memory`] maps the guest's memory, and each [`Ring`] finds requests there.
//! 3. A [`Block`] turns requests into commands, which a [`Host`] submits to the drive. The `Block` writes the
//!    answers into the guest's memory.
//! 4. [`Inflight`] records in-flight requests, for the next process after a crash.
//!
//! The guest is untrusted: each index, address and length is checked, and a malformed request is an error. The
//! crate is empty on systems other than Linux.

#![cfg(target_os = "linux")]

mod block;
mod inflight;
pub mod message;
mod parts;
mod receive;
mod ring;

pub use block::{Block, BlockOptions, Host};
pub use inflight::Inflight;
pub use parts::PARTS_MAX;
pub use receive::{Message, Received, Receiver};
pub use ring::{Chain, Memory, Returned, Ring, SIZE_MAX};
pub use vm_memory::{self, GuestMemoryMmap};
