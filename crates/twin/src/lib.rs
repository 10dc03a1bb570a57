//! Twins of real drives.
//!
//! [`Measurements`](measurements::Measurements) are what somebody has measured on a real drive. [`check`] asks a drive
//! of this simulator the same, and puts the two side by side; [`fit`] looks for the drive that answers alike.
//! [`published`] has the measurements of drives that others have published.

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

/// Amount of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// 100,000 reads a row: for results.
    Full,
    /// 12,500: for a search that asks thousands of times.
    Quick,
    /// A drive of a few blocks, to try the machinery out: the numbers mean nothing.
    Tiny,
}

impl Effort {
    /// Mapping units of the twin, about.
    fn units(self) -> u64 {
        match self {
            Effort::Full => 24_000_000,
            Effort::Quick => 20_000_000,
            Effort::Tiny => 40_000,
        }
    }

    /// Blocks of each plane of the twin of `config`.
    fn blocks_per_plane(self, config: &DriveConfig) -> u32 {
        let nand = &config.nand;
        let planes = u64::from(nand.channels * nand.dies_per_channel * nand.planes_per_die);
        let per_block =
            u64::from(nand.pages_per_block) * u64::from(nand.page_bytes / config.ftl.mapping_unit_bytes);
        // What is kept in hand, a few blocks of each plane, must be the smaller part.
        let least = if self == Effort::Tiny { 16 } else { 64 };
        (self.units() / (planes * per_block)).clamp(least, 1 << 20) as u32
    }

    /// Virtual time in ms for which `load` is simulated: before it is measured, and meanwhile.
    fn span(self, load: &Load, is_saturated: bool) -> (u64, u64) {
        // Collection has to begin, and it takes some generations of victims until they are as far apart as they stay: a
        // drive of 30 million units showed the same from 560,000 writes on, and fewer long reads before.
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
            // Room must come down to where the host is paced.
            _ => saturated_ms,
        }
    }
}
