//! Crash tests of real file systems: power fails while a guest works on files, and what it was told to be durable
//! must be there afterwards.
//!
//! A *writer* in the guest says on its standard output what it is about to do, and, once fsync(2) has returned, what
//! is durable. Each line is heard before any request that the guest sends after it; so, when power fails, all that
//! was heard to be durable must be found again, and nothing may be found that was not announced. A *verifier* in the
//! next guest holds the files against these lines.

#![cfg(target_os = "linux")]

mod cut;
mod verifier;
mod writer;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

pub use cut::{Config, CrashError, CutReport, Parts, Prepared};
pub use verifier::{VerifierArgs, verify};
pub use writer::{WriterArgs, write};

const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: u64 = 4096;
/// Blocks of each file that fills the volume.
const FILL_BLOCKS: u32 = 256;
/// Folder of the filling files.
const FILL: &str = "fill";
/// Folders of all other files.
const FOLDERS: [&str; 3] = ["d0", "d1", "d2"];
/// Name of the program in the guest.
const GUEST: &str = "crash-guest";
/// Path of the writer's notes for the verifier.
const NOTES_PATH: &str = "/notes";
/// Prefix of each violation in the verifier's output.
const VIOLATION: &str = "violation: ";

/// Command line of the program in the guest.
#[derive(Parser, Clone, Debug)]
pub enum Guest {
    /// Work on files and say what is durable
    Write(WriterArgs),
    /// Hold files against what was durable
    Verify(VerifierArgs),
}

/// Promise of a file system beyond fsync(2) on a file and then on its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Promises {
    /// Names change all or nothing; a new file that is synced has its name; no foreign data shows up. So do ext4 and
    /// F2FS.
    Journal,
    /// None: names that are being changed may be found anyhow, as may bytes that are not synced.
    Fat,
    /// As [`Promises::Fat`], but each write is durable when it returns, with all that was done before.
    FatSync,
}

impl Promises {
    fn is_fat(self) -> bool {
        self != Promises::Journal
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Line of the writer: its next operation, or data that is now durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Note {
    /// Creates file `id`, empty.
    New { id: u32, path: String },
    /// Appends to it, up to `bytes`.
    Extend { id: u32, bytes: u64 },
    /// Overwrites blocks of it.
    Write { id: u32, block: u64, blocks: u64, version: u32 },
    /// All of the file is durable.
    Synced { id: u32 },
    /// Renames a file; one that has the new name goes.
    Rename { from: String, to: String },
    /// Removes a file.
    Remove { path: String },
    /// All names in a folder are durable.
    Folder { path: String },
}

/// One round of a mixing function (splitmix64).
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Content of sector `sector` of file `id` at `version`. Its first bytes name all three, and it is never zero.
fn content(seed: u64, id: u32, sector: u64, version: u32) -> [u8; SECTOR_BYTES] {
    let name = u64::from(id) << 32 | u64::from(version);
    let mut state = mix(mix(mix(seed) ^ name) ^ sector);
    let mut bytes = [0; SECTOR_BYTES];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        state = mix(state);
        let value = match at {
            0 => name,
            1 => sector,
            _ => state | 1,
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// The bytes from `from` up to `upto` of a file.
fn span(seed: u64, id: u32, from: u64, upto: u64, version: u32) -> Vec<u8> {
    let sector_bytes = SECTOR_BYTES as u64;
    let first = from / sector_bytes;
    let sectors = first..upto.div_ceil(sector_bytes);
    let mut bytes: Vec<u8> = sectors.flat_map(|sector| content(seed, id, sector, version)).collect();
    bytes.truncate((upto - first * sector_bytes) as usize);
    bytes.drain(..(from - first * sector_bytes) as usize);
    bytes
}
