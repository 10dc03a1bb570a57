use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{SECTOR_BYTES, defaults};

use super::layout::{Cleaning, LfsLayout, Trims};
use super::log::Lfs;
use crate::synthetic::WorkloadError;

/// Kind of the file system; there is only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LfsKind {
    /// A log-structured file system.
    #[default]
    Lfs,
}

defaults! {
    /// A log-structured file system under random updates; shows the cost of cleaning by moving blocks or by
    /// copy commands.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct LfsConfig {
        /// Always "lfs".
        pub kind: LfsKind = LfsKind::Lfs;
        /// Cleaning method used when free segments run short. Default "move".
        pub cleaning: Cleaning = Cleaning::Move;
        /// Share of the file system's blocks used by files. The fuller it is, the more of a segment is live at
        /// cleaning. Greater than 0, less than 1, and low enough for cleaning; the error names the limit.
        /// Default 0.8.
        #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
        pub utilization: f64 = 0.8;
        /// Block size in bytes, the unit of live data. A multiple of 512, default 4096.
        #[schemars(range(min = 512, max = 1_048_576), extend("multipleOf" = 512))]
        pub block_bytes: u32 = 4096;
        /// Bytes of an application update, also its alignment within files. A multiple of block_bytes, default
        /// 16384.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        pub update_bytes: u32 = 16_384;
        /// Segment size in bytes; a segment is cleaned as a whole. A multiple of update_bytes, default 2 MiB.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        pub segment_bytes: u32 = 2_097_152;
        /// Segments cleaned together before one checkpoint. The same number is always kept free. Default 4.
        #[schemars(range(min = 1, max = 65_536))]
        pub cleaned_segments: u32 = 4;
        /// Checkpoint size in bytes. A multiple of block_bytes, at most a segment, default 32768.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        pub checkpoint_bytes: u32 = 32_768;
        /// Bytes that the application writes between checkpoints if cleaning does not trigger one. Default 8
        /// MiB.
        #[schemars(range(min = 512, max = 1_099_511_627_776u64))]
        #[schemars(extend("x-needs" = {
            "cleaning": ["threaded", "in-place"],
            "because": "other cleaning ends with a checkpoint"
        }))]
        pub checkpoint_every: u64 = 8_388_608;
        /// Trims of dead blocks, sent after each checkpoint. Default "every-block".
        pub trims: Trims = Trims::EveryBlock;
        /// True to flush after every update. Default false.
        pub sync: bool = false;
        /// Largest read or write, and largest source range of a copy, in bytes. A multiple of block_bytes,
        /// default 131072.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        pub request_bytes: u32 = 131_072;
        /// Largest number of source ranges of a copy command. Default 128.
        #[schemars(range(min = 1, max = 256))]
        #[schemars(extend("x-needs" = {"cleaning": ["copy"]}))]
        pub copy_ranges: u32 = 128;
        /// Largest number of ranges of a trim. Default 64, the capacity of one block of an ATA TRIM.
        #[schemars(range(min = 1, max = 256))]
        pub trim_ranges: u32 = 64;
        /// Largest number of commands in flight. Default 32. fio: `iodepth`.
        #[schemars(range(min = 1, max = 65_536))]
        pub queue_depth: u32 = 32;
    }
}

impl LfsConfig {
    /// Checks the configuration for a drive of `drive_bytes` and returns an empty file system.
    pub fn build(&self, drive_bytes: u64, seed: u64) -> Result<Lfs, WorkloadError> {
        let layout = self.layout(drive_bytes)?;
        let blocks = layout.segments * layout.segment_blocks;
        let file_blocks = (f64::from(blocks) * self.utilization) as u32;
        let (least, most) = (layout.update_blocks, layout.file_blocks_max());
        if !(self.utilization > 0.0 && self.utilization < 1.0) || file_blocks < least || file_blocks > most {
            let share = |blocks: u32| f64::from(blocks) / f64::from(layout.segments * layout.segment_blocks);
            // Rounded inwards, so that both limits in the message are valid.
            let allowed = format!(
                "from {:.6} to {:.4}: of {} segments one holds checkpoints, two are being filled and {} \
                 (cleaned_segments) are free; smaller segments leave more space for files",
                share(least) + 1e-6,
                (share(most) * 1e4 - 0.5).floor() / 1e4,
                layout.segments,
                layout.cleaned_segments
            );
            return Err(out_of_range("utilization", self.utilization, allowed));
        }
        Ok(Lfs::new(layout, file_blocks, seed))
    }

    /// Memory of the file system on a drive of `drive_bytes`, in bytes.
    pub fn memory_bytes(&self, drive_bytes: u64) -> u64 {
        16 * (drive_bytes / u64::from(self.block_bytes.max(512)))
    }

    /// Layout on a drive of `drive_bytes`; a remainder smaller than a segment is unused.
    pub fn layout(&self, drive_bytes: u64) -> Result<LfsLayout, WorkloadError> {
        let Self { block_bytes, update_bytes, segment_bytes, cleaned_segments, .. } = *self;
        multiple("block_bytes", block_bytes, SECTOR_BYTES as u32, "512")?;
        multiple("update_bytes", update_bytes, block_bytes, "block_bytes")?;
        multiple("segment_bytes", segment_bytes, update_bytes, "update_bytes")?;
        multiple("checkpoint_bytes", self.checkpoint_bytes, block_bytes, "block_bytes")?;
        multiple("request_bytes", self.request_bytes, block_bytes, "block_bytes")?;
        if self.checkpoint_bytes > segment_bytes {
            let allowed =
                format!("at most segment_bytes = {segment_bytes}: one segment holds the checkpoints");
            return Err(out_of_range("checkpoint_bytes", self.checkpoint_bytes, allowed));
        }
        for (key, value) in [("copy_ranges", self.copy_ranges), ("trim_ranges", self.trim_ranges)] {
            if !(1..=256).contains(&value) {
                return Err(out_of_range(key, value, "from 1 to 256"));
            }
        }
        if !(1..=65_536).contains(&cleaned_segments) {
            return Err(out_of_range("cleaned_segments", cleaned_segments, "from 1 to 65536"));
        }
        let (segments, segment_blocks) =
            (drive_bytes / u64::from(segment_bytes), segment_bytes / block_bytes);
        if segments * u64::from(segment_blocks) > u64::from(u32::MAX) {
            let allowed = format!(
                "larger: the drive has {segments} segments of {segment_blocks} blocks, and \
                 at most {} blocks are possible",
                u32::MAX
            );
            return Err(out_of_range("block_bytes", block_bytes, allowed));
        }
        // One for checkpoints, two open ones, the free reserve, and one to clean.
        let least = u64::from(cleaned_segments) + 4;
        if segments < least {
            let allowed = format!(
                "at most {}, so that the drive of {drive_bytes} bytes has {least} segments: one for checkpoints, two \
                 that are filled, {cleaned_segments} free ones (cleaned_segments), and one to clean",
                drive_bytes / least
            );
            return Err(out_of_range("segment_bytes", segment_bytes, allowed));
        }
        let layout = LfsLayout {
            block_sectors: block_bytes / SECTOR_BYTES as u32,
            update_blocks: update_bytes / block_bytes,
            request_blocks: self.request_bytes / block_bytes,
            copy_ranges: self.copy_ranges as usize,
            trim_ranges: self.trim_ranges as usize,
            segments: segments as u32,
            segment_blocks,
            checkpoint_blocks: self.checkpoint_bytes / block_bytes,
            cleaned_segments,
            cleaning: self.cleaning,
            trims: self.trims,
            checkpoint_every: (self.checkpoint_every / u64::from(block_bytes)).min(u64::from(u32::MAX))
                as u32,
            sync: self.sync,
        };
        Ok(layout)
    }
}

fn out_of_range(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> WorkloadError {
    WorkloadError::OutOfRange { key, value: value.to_string(), allowed: allowed.into() }
}

fn multiple(key: &'static str, value: u32, unit: u32, name: &str) -> Result<(), WorkloadError> {
    if value > 0 && value.is_multiple_of(unit) {
        return Ok(());
    }
    let text = unit.to_string();
    let unit = if text == name { text } else { format!("{name} = {text}") };
    Err(out_of_range(key, value, format!("a multiple of {unit}")))
}
