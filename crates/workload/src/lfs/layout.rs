//! Parameters of a log-structured file system, and its commands to the drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lba, Range, named};

/// Command of the file system to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LfsCommand<'a> {
    /// Reads a range.
    Read(Range),
    /// Writes a range.
    Write(Range),
    /// Copies ranges, one behind the other, to the sectors from `destination` on.
    Copy {
        /// First sector of the copy.
        destination: Lba,
        /// Ranges to copy.
        sources: &'a [Range],
    },
    /// Deallocates ranges.
    Trim(&'a [Range]),
    /// Makes durable what was written.
    Flush,
}

/// Drive below a file system.
pub trait LfsDisk {
    /// Why a command failed.
    type Error;

    /// Issues a command as soon as there is a place for it; it need not be complete.
    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Self::Error>;

    /// Waits until all commands that were issued are complete.
    fn wait(&mut self) -> Result<(), Self::Error>;
}

named! {
    /// Cleaning method when free segments run short.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Cleaning {
        /// It reads the live blocks of old segments and writes them to the log.
        #[default]
        Move => "move",
        /// Moves them by copy commands: no data crosses the link. drive.ftl.copy_mode decides how the drive
        /// carries them out.
        Copy => "copy",
        /// It does not clean: it writes to the dead blocks of old segments, those with the most of them first (threaded
        /// logging).
        Threaded => "threaded",
        /// It has no log: every block has its place from the start.
        InPlace => "in-place",
    }
}

named! {
    /// Trims of blocks that no checkpoint refers to any more.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Trims {
        /// Each of them, at the next checkpoint.
        #[default]
        EveryBlock => "every-block",
        /// Only segments that have been cleaned, as a whole.
        CleanedSegments => "cleaned-segments",
    }
}

/// Shape and habits of a file system, in blocks. [`LfsConfig::layout`](super::LfsConfig::layout) makes one that fits a
/// drive.
#[derive(Clone, Copy, Debug)]
pub struct LfsLayout {
    /// Sectors of a block.
    pub block_sectors: u32,
    /// Blocks of an update by the application.
    pub update_blocks: u32,
    /// Most blocks of a read or write.
    pub request_blocks: u32,
    /// Most ranges of a copy.
    pub copy_ranges: usize,
    /// Most ranges of a trim.
    pub trim_ranges: usize,
    /// Segments, the first of which holds the checkpoints.
    pub segments: u32,
    /// Blocks of a segment, a multiple of those of an update.
    pub segment_blocks: u32,
    /// Blocks of a checkpoint, at most a segment.
    pub checkpoint_blocks: u32,
    /// Segments cleaned before each checkpoint. The same number is always free.
    pub cleaned_segments: u32,
    /// When free segments run short.
    pub cleaning: Cleaning,
    /// Trims sent to the drive.
    pub trims: Trims,
    /// Blocks written from one checkpoint to the next where no cleaning asks for one.
    pub checkpoint_every: u32,
    /// True to flush after every update.
    pub sync: bool,
}

impl LfsLayout {
    /// Blocks that files and dead blocks share: all but those for checkpoints, those that cleaning needs
    /// in hand, and half of the two open segments.
    pub fn log_blocks(&self) -> u32 {
        self.segments.saturating_sub(1 + self.cleaned_segments + 1) * self.segment_blocks
    }

    /// Maximum number of blocks that files can have. It guarantees dead blocks in full segments, so that
    /// cleaning terminates and holes are found.
    pub fn file_blocks_max(&self) -> u32 {
        let blocks = match self.cleaning {
            Cleaning::InPlace => self.segments.saturating_sub(1) * self.segment_blocks,
            _ => {
                let full = self.segments.saturating_sub(1 + self.cleaned_segments + 2) * self.segment_blocks;
                full.saturating_sub(self.update_blocks)
            }
        };
        blocks / self.update_blocks * self.update_blocks
    }
}
