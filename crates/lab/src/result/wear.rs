//! [`WearResult`] repeats the fields of [`WearSummary`]: the order of keys in results is fixed, with derived
//! fields between them.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::WearSummary;
use strobe_nand::NandOp;
use strobe_ssd::{CommandKind, DriveStats};
use strobe_types::{Geometry, Op};

use crate::Experiment;
use crate::lifetime::{BadBlockPoint, curve};

/// Wear at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WearResult {
    /// Fewest erases of a good block.
    pub erase_min: u32,
    /// Mean erases of the good blocks.
    pub erase_mean: f64,
    /// Most erases of a good block.
    pub erase_max: u32,
    /// Standard deviation of the erases of the good blocks.
    pub erase_stddev: f64,
    /// Bad blocks, factory-bad ones included.
    pub bad_blocks: u32,
    /// Host pages written when the first block went bad, since the drive was new or its image was opened;
    /// null if none went bad.
    pub first_bad_block_host_writes: Option<u64>,
    /// Blocks gone bad in use over host pages written, since the drive was new or its image was opened: every
    /// block, or 256 of them spread evenly, the first and the last among them.
    pub bad_block_curve: Vec<BadBlockPoint>,
    /// Host pages that could be written before any block goes bad under perfectly even wear, at the write
    /// amplification of the measured window: (endurance + 1) × mapping units on good flash / `waf`. Null if
    /// endurance is unlimited, the host wrote nothing, or no flash was programmed. Also null if `waf` does
    /// not represent the drive's life: `window.verdict` is not "steady" (guests have no verdict), and no
    /// block went bad in use.
    pub ideal_host_pages: Option<u64>,
    /// Blocks per bin of erase counts, from `erase_min` to `erase_max`, in bins of equal width.
    pub histogram: Vec<u32>,
}

/// SMART-like counters since the drive was new or its image was opened, under the names of nvme-cli's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Smart {
    /// Mean erases in percent of the endurance; at most 255; 0 if endurance is unlimited.
    pub percent_used: u32,
    /// Spare blocks left, in percent: 100 when new, 0 when all blocks beyond the logical capacity have gone
    /// bad.
    pub avail_spare: u32,
    /// Thousands of 512-byte units read by the host, rounded up.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written by the host, rounded up.
    pub data_units_written: u64,
    /// Thousands of 512-byte units programmed on flash, rounded up.
    pub media_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Failed programs and erases of data blocks, all repaired, and host commands that ended with an unrecovered
    /// read error.
    pub media_errors: u64,
}

impl WearResult {
    /// Result for a drive at the end of its run.
    pub fn of(wear: WearSummary, ideal_host_pages: Option<u64>) -> Self {
        Self {
            erase_min: wear.erase_min,
            erase_mean: wear.erase_mean,
            erase_max: wear.erase_max,
            erase_stddev: wear.erase_stddev,
            bad_blocks: wear.bad_blocks,
            first_bad_block_host_writes: wear.first_bad_block_host_writes,
            bad_block_curve: curve(&wear.bad_block_host_writes),
            ideal_host_pages,
            histogram: wear.histogram,
        }
    }
}

impl Smart {
    pub(crate) fn of(
        total: &DriveStats,
        wear: &WearResult,
        geometry: &Geometry,
        experiment: &Experiment,
    ) -> Self {
        let units = |bytes: u64| bytes.div_ceil(512_000);
        let unread: u64 = CommandKind::ALL.iter().map(|&kind| total.host.errors(kind)).sum();
        let nand = &experiment.drive.nand;
        let used = match nand.endurance_pe {
            0 => 0.0,
            limit => 100.0 * wear.erase_mean / f64::from(limit),
        };
        // Factory-bad blocks are not a failure of the drive.
        let grown_bad = wear.bad_blocks.saturating_sub(nand.factory_bad_blocks);
        let needed = experiment.drive.logical_units().div_ceil(u64::from(geometry.units_per_block()));
        // Spare blocks are those beyond the logical capacity.
        let spare = u64::from(geometry.blocks() - nand.factory_bad_blocks).saturating_sub(needed);
        Self {
            percent_used: (used as u32).min(255),
            avail_spare: (100 * (spare - u64::from(grown_bad).min(spare)) / spare.max(1)) as u32,
            data_units_read: units(total.host.bytes(Op::Read)),
            data_units_written: units(total.host.bytes(Op::Write)),
            media_units_written: units(total.nand.total(NandOp::Program) * u64::from(geometry.page_bytes())),
            host_read_commands: total.host.commands(Op::Read),
            host_write_commands: total.host.commands(Op::Write),
            media_errors: total.gc.program_failures + total.gc.erase_failures + unread,
        }
    }
}
