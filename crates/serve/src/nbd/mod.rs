//! The server's side of the NBD protocol, without sockets, clocks and drives.
//!
//! 1. The connection's bytes go into [`room`](crate::Session::room).
//! 2. [`Session::next_request`] answers the handshake by itself and returns requests to the drive.
//! 3. [`Session::answer`] takes their results, in any order.
//! 4. [`output`](crate::Session::output) has the bytes to send.
//!
//! **Memory** of a connection is bounded: at most one message is buffered, and no request is taken up while
//! answers that wait and data of requests under way are more than [`OUTPUT_BYTES_MAX`].

mod export;
mod handshake;
mod session;
mod wire;

pub use export::{Export, PAYLOAD_BYTES_MAX};
pub use session::{Failed, OUTPUT_BYTES_MAX, Op, Request, Session};
pub use wire::ErrorCode;
