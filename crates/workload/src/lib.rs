//! Request sources: generators ([`synthetic`]), a log-structured file system ([`lfs`]), traces ([`trace`]),
//! file workloads ([`files`]) and arrival processes ([`arrivals`]). Closed forms ([`oracle`]) predict some
//! results.
//!
//! The crate does not depend on the drive. A generator fills batches of [`strobe_types::Request`].

pub mod arrivals;
pub mod files;
pub mod lfs;
pub mod oracle;
pub mod synthetic;
pub mod trace;
