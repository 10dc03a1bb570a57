//! The device's side of vhost-user (a virtio block device for QEMU), without clocks.
//!
//! A connection is a device of one guest, with its memory and up to [`RINGS`] rings:
//!
//! 1. [`Session::hear`] takes messages: the guest's memory, the places of its rings, and two files for each. By one the guest
//!    says that requests wait, by the other it is told that some are complete.
//! 2. [`Session::take`] takes requests from rings and hands them to the drive.
//! 3. [`Session::finish`] writes the drive's answers to the guest's memory, in any order.
//! 4. [`Session::tell`] signals rings with completions.
//!
//! Requests in flight are noted in memory that the guest's machine keeps ([`strobe_virtio::Inflight`]), so
//! that the next server repeats them.
//!
//! **Memory** of a connection is bounded: at most [`IN_FLIGHT_MAX`] requests are under way, and none is taken
//! while they hold more than [`OWED_BYTES_MAX`]. No message is taken while [`OUTPUT_BYTES_MAX`] bytes of
//! answers are unread. **The guest is not trusted**: what breaks the rules of its rings ends the connection.
//! It must not shrink the file of its memory, which QEMU's `memory-backend-memfd` seals against that.

mod line;
mod session;
#[cfg(test)]
mod tests;

pub use session::{IN_FLIGHT_MAX, OUTPUT_BYTES_MAX, OWED_BYTES_MAX, RINGS, Session};
