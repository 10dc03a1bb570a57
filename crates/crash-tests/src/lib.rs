//! Crash tests of real file systems: power fails while a guest works on files, and acknowledged data must be there
//! afterwards.
//!
//! A *writer* in the guest announces each operation on its standard output. After fsync(2) has returned, it prints
//! which data is durable. Each line is received before any later request of the guest. Thus all data reported
//! durable before a cut must be found again, and no unannounced data may appear. A *verifier* in the next guest
//! compares the files with these lines.

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
const FILL_BLOCKS: u32 = 256;
const FILL: &str = "fill";
const FOLDERS: [&str; 3] = ["d0", "d1", "d2"];
const GUEST: &str = "crash-guest";
const NOTES_PATH: &str = "/notes";
const VIOLATION: &str = "violation: ";

/// Command line of the guest's program.
#[derive(Parser, Clone, Debug)]
pub enum Guest {
    /// Work on files and print durable data
    Write(WriterArgs),
    /// Compare files with the durable data
    Verify(VerifierArgs),
}

/// Guarantees of a file system beyond fsync(2) of a file and its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Promises {
    /// Names change atomically, a synced new file has its name, and no foreign data appears. Holds for ext4 and
    /// F2FS.
    Journal,
    /// No further guarantees: changing names and unsynced bytes may be found in any state.
    Fat,
    /// Like [`Promises::Fat`], but each write is durable on return, with everything done before.
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
    New {
        id: u32,
        path: String,
    },
    Extend {
        id: u32,
        bytes: u64,
    },
    Write {
        id: u32,
        block: u64,
        blocks: u64,
        version: u32,
    },
    /// The file is durable.
    Synced {
        id: u32,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    /// The names in a folder are durable.
    Folder {
        path: String,
    },
}

/// One round of splitmix64.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// It starts with file, version and sector, and is never zero.
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

fn span(seed: u64, id: u32, from: u64, upto: u64, version: u32) -> Vec<u8> {
    let sector_bytes = SECTOR_BYTES as u64;
    let first = from / sector_bytes;
    let sectors = first..upto.div_ceil(sector_bytes);
    let mut bytes: Vec<u8> = sectors.flat_map(|sector| content(seed, id, sector, version)).collect();
    bytes.truncate((upto - first * sector_bytes) as usize);
    bytes.drain(..(from - first * sector_bytes) as usize);
    bytes
}
