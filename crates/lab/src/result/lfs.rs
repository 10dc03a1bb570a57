use schemars::JsonSchema;
use serde::Serialize;

use crate::numbers::ratio;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LfsBytes {
    pub(crate) updated: u64,
    pub(crate) cleaned: u64,
    pub(crate) moved: u64,
    pub(crate) checkpoints: u64,
}

/// Activity of a log-structured file system, and the total cost of its updates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LfsResult {
    /// Bytes that the application wrote.
    pub updated_bytes: u64,
    /// Bytes of the segments that were cleaned.
    pub cleaned_bytes: u64,
    /// Bytes of live blocks in cleaned segments, moved or copied.
    pub moved_bytes: u64,
    /// Live share of the cleaned segments, from 0 to 1; null if none was cleaned.
    pub victims_live: Option<f64>,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes programmed on flash, for any cause, per byte that the application wrote. It covers the cleaning
    /// of the file system and the work of the drive; `waf` is per unit that the file system wrote. Use it to
    /// compare cleaning methods. Null if the application wrote nothing.
    pub programmed_per_byte: Option<f64>,
    /// Bytes per second that the application wrote; null without timing.
    pub updated_bytes_per_s: Option<f64>,
}

impl LfsResult {
    pub(crate) fn of(done: LfsBytes, programmed: u64, virtual_ns: u64) -> Self {
        let LfsBytes { updated, cleaned, moved, checkpoints } = done;
        Self {
            updated_bytes: updated,
            cleaned_bytes: cleaned,
            moved_bytes: moved,
            victims_live: ratio(moved, cleaned),
            checkpoints,
            programmed_per_byte: ratio(programmed, updated),
            updated_bytes_per_s: ratio(updated, virtual_ns).map(|per_ns| per_ns * 1e9),
        }
    }
}
