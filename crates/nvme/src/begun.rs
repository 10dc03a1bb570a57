use strobe_types::SECTOR_BYTES;

use crate::io::Work;

/// Outcome of starting a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    /// Completed without the drive.
    Done {
        /// Data for the host.
        data: Vec<u8>,
        /// Dword 0 of the completion.
        result: u32,
    },
    /// Never completes (an asynchronous event request).
    Never,
    /// Needs the drive.
    Work {
        /// Drive work.
        work: Work,
        /// True if the command completes only after a subsequent flush.
        is_forced: bool,
    },
}

impl Begun {
    /// Number of bytes to send to the host.
    pub fn output_bytes(&self) -> usize {
        match self {
            Begun::Done { data, .. } => data.len(),
            Begun::Work { work: Work::Read { range }, .. } => range.sectors as usize * SECTOR_BYTES as usize,
            Begun::Never | Begun::Work { .. } => 0,
        }
    }
}
