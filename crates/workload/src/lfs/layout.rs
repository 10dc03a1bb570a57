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
    /// Copies ranges consecutively to the sectors from `destination` on.
    Copy {
        /// First destination sector.
        destination: Lba,
        /// Source ranges.
        sources: &'a [Range],
    },
    /// Deallocates ranges.
    Trim(&'a [Range]),
    /// Makes completed writes durable.
    Flush,
}

/// Drive under a file system.
pub trait LfsDisk {
    /// Error of a command.
    type Error;

    /// Issues a command as soon as the queue has a free slot; it may complete later.
    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Self::Error>;

    /// Waits for all issued commands to complete.
    fn wait(&mut self) -> Result<(), Self::Error>;
}

named! {
    /// Cleaning method used when free segments run short.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Cleaning {
        /// Reads the live blocks of old segments and writes them to the log.
        #[default]
        Move => "move",
        /// Moves live blocks by copy commands, without data on the link. drive.ftl.copy_mode decides how the
        /// drive executes them.
        Copy => "copy",
        /// No cleaning: writes go to the dead blocks of old segments, the segment with the most dead blocks
        /// first (threaded logging).
        Threaded => "threaded",
        /// No log: every block has a fixed place.
        InPlace => "in-place",
    }
}

named! {
    /// Trims of blocks no longer referenced by a checkpoint.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Trims {
        /// Every dead block, at the next checkpoint.
        #[default]
        EveryBlock => "every-block",
        /// Only cleaned segments, as a whole.
        CleanedSegments => "cleaned-segments",
    }
}

/// Layout and parameters of a file system, in blocks. [`LfsConfig::layout`](super::LfsConfig::layout) fits one
/// to a drive.
#[derive(Clone, Copy, Debug)]
pub struct LfsLayout {
    /// Sectors per block.
    pub block_sectors: u32,
    /// Blocks per application update.
    pub update_blocks: u32,
    /// Largest read or write, in blocks.
    pub request_blocks: u32,
    /// Largest number of ranges of a copy.
    pub copy_ranges: usize,
    /// Largest number of ranges of a trim.
    pub trim_ranges: usize,
    /// Number of segments; the first holds the checkpoints.
    pub segments: u32,
    /// Blocks per segment, a multiple of `update_blocks`.
    pub segment_blocks: u32,
    /// Blocks per checkpoint, at most a segment.
    pub checkpoint_blocks: u32,
    /// Segments cleaned before each checkpoint. The same number is always free.
    pub cleaned_segments: u32,
    /// Cleaning method.
    pub cleaning: Cleaning,
    /// Trims sent to the drive.
    pub trims: Trims,
    /// Blocks written between checkpoints if cleaning does not trigger one.
    pub checkpoint_every: u32,
    /// True to flush after every update.
    pub sync: bool,
}

impl LfsLayout {
    /// Blocks available to live and dead file data: all except the checkpoint segment, the cleaning reserve,
    /// and half of the space of the two open segments.
    pub fn log_blocks(&self) -> u32 {
        self.segments.saturating_sub(1 + self.cleaned_segments + 1) * self.segment_blocks
    }

    /// Largest number of file blocks. Up to this number some full segment always has dead blocks, so cleaning
    /// terminates and threaded logging finds holes.
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
