//! Where requests come from: synthetic generators ([`synthetic`]), a log-structured file system ([`lfs`]), block traces
//! ([`trace`]), programs that use files ([`files`]), when requests come ([`arrivals`]), and the closed forms ([`oracle`])
//! that tell what a correct drive must make of some of them.
//!
//! Nothing here knows the drive: a generator fills batches of [`strobe_types::Request`], a trace
//! reader yields records with byte offsets and times.

pub mod arrivals;
pub mod files;
pub mod lfs;
pub mod oracle;
pub mod synthetic;
pub mod trace;
