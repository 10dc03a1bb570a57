//! Device side of vhost-user (a virtio block device for QEMU), without clocks.
//!
//! A connection is a device of one guest, with its memory and up to [`RINGS`] rings:
//!
//! 1. [`Session::hear`] handles messages. They set the guest's memory, the ring addresses, and two event
//!    files per ring: kick for new requests, call for completions.
//! 2. [`Session::take`] takes requests from rings and submits them to the drive.
//! 3. [`Session::finish`] writes the drive's answers to the guest's memory, in any order.
//! 4. [`Session::tell`] notifies the guest of completions.
//!
//! In-flight requests are recorded in memory that the guest's process keeps ([`strobe_virtio::Inflight`]).
//! The next server repeats them.
//!
//! **Memory** of a connection is bounded: [`IN_FLIGHT_MAX`], [`OWED_BYTES_MAX`], [`OUTPUT_BYTES_MAX`]. **The
//! guest is untrusted**: a malformed ring or message ends the connection. The file of the guest's memory must
//! not shrink; QEMU's `memory-backend-memfd` prevents this with a seal.

mod line;
mod session;
#[cfg(test)]
mod tests;

pub use session::{IN_FLIGHT_MAX, OUTPUT_BYTES_MAX, OWED_BYTES_MAX, RINGS, Session};
