//! Twins of real drives.
//!
//! [`Measurements`](measurements::Measurements) are figures taken on a real drive. [`check`] puts the same
//! load on a simulated drive and compares the two. [`fit`] searches for drive parameters that reproduce the
//! measurements. [`published`] holds measurements of drives published by others.
//!
//! To add a measured drive, add a CSV file in `data/` and an entry in `published.rs`.

pub mod ablation;
pub mod check;
pub mod fit;
pub mod measurements;
pub mod published;
mod scaled;
mod twin;

pub use scaled::scaled;
pub use twin::{Question, Twin, TwinError};

use measurements::Load;
use strobe_ssd::DriveConfig;

/// Amount of simulation per row of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// 100,000 reads a row, for results.
    Full,
    /// 12,500 reads a row, for a search of thousands of evaluations.
    Quick,
    /// A drive of a few blocks for tests; its figures are meaningless.
    Tiny,
}

impl Effort {
    fn units(self) -> u64 {
        match self {
            Effort::Full => 24_000_000,
            Effort::Quick => 20_000_000,
            Effort::Tiny => 40_000,
        }
    }

    fn blocks_per_plane(self, config: &DriveConfig) -> u32 {
        let nand = &config.nand;
        let planes = u64::from(nand.channels * nand.dies_per_channel * nand.planes_per_die);
        let per_block =
            u64::from(nand.pages_per_block) * u64::from(nand.page_bytes / config.ftl.mapping_unit_bytes);
        // Reserved blocks, a few per plane, must stay a small part of the drive.
        let least = if self == Effort::Tiny { 16 } else { 64 };
        (self.units() / (planes * per_block)).clamp(least, 1 << 20) as u32
    }

    /// Virtual time in ms to simulate `load`: warm-up, then measurement.
    fn span(self, load: &Load, is_saturated: bool) -> (u64, u64) {
        // The warm-up must be long enough for GC to start and for its victims to reach their steady spacing.
        // A drive of 30 million units showed constant figures from 560,000 writes on, and fewer long reads
        // before.
        let (writes, reads, saturated_ms) = match self {
            Effort::Full => (800_000, 100_000, (16_000, 4_000)),
            Effort::Quick => (600_000, 12_500, (10_000, 2_000)),
            Effort::Tiny => (6_000, 500, (500, 500)),
        };
        match load.offered {
            Some(offered) if !is_saturated => {
                let warmup = (1000 * writes / offered.writes_s.max(1)).clamp(1000, 60_000);
                (warmup, (1000 * reads / offered.reads_s.max(1)).clamp(200, 40_000))
            }
            // Warm-up lasts until free space falls to the level where the host is throttled.
            _ => saturated_ms,
        }
    }
}
