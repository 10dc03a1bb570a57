//! The outcome of a command's beginning.

use strobe_types::SECTOR_BYTES;

use crate::io::Work;

/// Outcome of a command's beginning.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is done: data for the host, and dword 0 of its completion.
    Done {
        /// Data for the host.
        data: Vec<u8>,
        /// Dword 0.
        result: u32,
    },
    /// It waits for something that does not happen.
    Never,
    /// The drive has a part in it.
    Work {
        /// Its part.
        work: Work,
        /// True if a flush has to follow before the command is complete.
        is_forced: bool,
    },
}

impl Begun {
    /// Bytes of data that go to the host.
    pub fn output_bytes(&self) -> usize {
        match self {
            Begun::Done { data, .. } => data.len(),
            Begun::Work { work: Work::Read { range }, .. } => range.sectors as usize * SECTOR_BYTES as usize,
            Begun::Never | Begun::Work { .. } => 0,
        }
    }
}
