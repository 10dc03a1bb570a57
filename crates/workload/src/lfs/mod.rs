//! A log-structured file system, reduced to its I/O (Rosenblum and Ousterhout 1992; F2FS: Lee et al. 2015),
//! with two variants that do not clean.
//!
//! An application updates extents of `update_bytes`, all equally likely. Every update is appended to the log,
//! which consists of segments. When free segments run short, the file system *cleans*:
//!
//! 1. select the `cleaned_segments` segments that were filled first,
//! 2. move their live blocks to a second log head, by reads and writes or by copy commands ([`Cleaning`]),
//! 3. write a checkpoint and flush,
//! 4. trim the blocks that the checkpoint no longer references.
//!
//! The variants fill the dead blocks of old segments (threaded logging) or write every block in place.
//!
//! # Random stream
//!
//! One generator, [`Prng::derive`](strobe_types::Prng::derive) of the seed with the name `"lfs"`, draws one
//! `below(extents)` per update.

mod config;
mod layout;
mod log;

#[cfg(test)]
mod tests;

pub use config::{LfsConfig, LfsKind};
pub use layout::{Cleaning, LfsCommand, LfsDisk, LfsLayout, Trims};
pub use log::{Lfs, LfsCounts};
