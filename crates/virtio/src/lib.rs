//! A drive as a virtio block device: the messages, rings and requests of vhost-user, without sockets that listen, clocks and
//! drives.
//!
//! 1. A [`Receiver`] takes [messages](message) and their files from a socket.
//! 2. [`Memory`] maps the guest's memory, and each [`Ring`] finds requests there.
//! 3. A [`Block`] makes commands of them, which a [`Host`] hands to the drive, and writes the answers to the guest's memory.
//! 4. [`Inflight`] keeps which requests are in flight where another process finds them after a crash.
//!
//! The guest is not trusted: each index, address and length is checked, and a broken request is an error. On other systems
//! than Linux the crate is empty.

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
