//! A log-structured file system, reduced to what a drive sees of it (Rosenblum and Ousterhout 1992; F2FS: Lee et al. 2015),
//! and two that do not clean beside it.
//!
//! Files take the share `utilization` of all blocks. An application updates extents of them, `update_bytes` each, all
//! equally likely. Every update goes to the end of the log, which lies in segments. When free segments run short, the file
//! system *cleans*: it takes the segments that were filled first, `cleaned_segments` of them, moves the blocks that are
//! live to another log (moved blocks do not mix with new ones), writes a checkpoint, flushes, and tells the drive what the
//! checkpoint refers to no longer. Blocks are moved by reading and writing them, or by copy commands
//! ([`Cleaning`]). The other two fill the dead blocks of old segments instead (threaded logging), or write every block
//! in its place.
//!
//! [`LfsConfig`] says what it is like, [`Lfs`] does it. An [`Lfs`] knows no drive: it hands [`LfsCommand`]s to an
//! [`LfsDisk`], which carries them out and waits where the file system has to.
//!
//! # Random stream
//!
//! One generator, [`Prng::derive`](strobe_types::Prng::derive) of the seed with the name `"lfs"`, gives one `below(extents)`
//! for each update.

mod config;
mod layout;
mod log;

#[cfg(test)]
mod tests;

pub use config::{LfsConfig, LfsKind};
pub use layout::{Cleaning, LfsCommand, LfsDisk, LfsLayout, Trims};
pub use log::{Lfs, LfsCounts};
