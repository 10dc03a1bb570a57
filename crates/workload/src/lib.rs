//! Sources of requests: synthetic generators ([`synthetic`]), a log-structured file system ([`lfs`]), block
//! traces ([`trace`]), programs that use files ([`files`]) and arrival processes ([`arrivals`]). Closed forms
//! ([`oracle`]) predict the result of a correct drive for some of them.
//!
//! This crate does not know the drive: a generator fills batches of [`strobe_types::Request`], a trace reader
//! yields records with byte offsets and times.

pub mod arrivals;
pub mod files;
pub mod lfs;
pub mod oracle;
pub mod synthetic;
pub mod trace;
