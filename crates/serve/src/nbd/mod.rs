//! Server side of the NBD protocol, without sockets, clocks and drives.
//!
//! 1. Write received bytes to [`free_space`](crate::Session::free_space).
//! 2. [`Session::next_request`] handles the handshake and returns requests for the drive.
//! 3. [`Session::answer`] takes the results, in any order.
//! 4. [`output`](crate::Session::output) returns the bytes to send.
//!
//! **Memory** of a connection is bounded: one message, and [`OUTPUT_BYTES_MAX`] plus one request.

mod export;
mod handshake;
mod session;
mod wire;

pub use export::{Export, PAYLOAD_BYTES_MAX};
pub use session::{Failed, OUTPUT_BYTES_MAX, Op, Request, Session};
pub use wire::ErrorCode;
