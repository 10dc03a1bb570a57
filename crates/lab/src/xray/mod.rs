//! X-ray of a drive: state of every block and every die in the measured window, in frames at equal distances.
//!
//! A run without run.xray records nothing. Blocks come from `Inspectable::block_info`, dies from
//! `Timing::holder`.

mod packed;
mod recorder;

pub(crate) use recorder::{Clock, Recorder};

use schemars::JsonSchema;
use serde::Serialize;

/// Most cells of all frames. On a larger drive a cell covers several blocks, which limits a result to a few
/// megabytes.
const CELLS_MAX: u64 = 1 << 20;

/// Activity of blocks and dies in the measured window.
///
/// Blocks are drawn as cells, plane by plane: cell c of plane p is number `p × cells_per_plane + c`. It
/// covers `blocks_per_cell` blocks of that plane, from block `c × blocks_per_cell` on. Planes are numbered
/// through the dies (`planes_per_die`), dies through the channels.
///
/// Each text holds one byte per cell and frame, frame by frame. Each byte is the difference from the same
/// cell in the previous frame (modulo 256); the bytes are compressed by zlib and encoded in base64. In
/// Python: `zlib.decompress(base64.b64decode(text))`, then `numpy.frombuffer(...,
/// numpy.uint8).reshape(frames, -1).cumsum(0, dtype=numpy.uint8)`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Xray {
    /// Channels of the drive.
    pub channels: u32,
    /// Dies of the drive.
    pub dies: u32,
    /// Planes per die.
    pub planes_per_die: u32,
    /// Blocks per plane.
    pub blocks_per_plane: u32,
    /// Blocks that share a cell; the last cell of a plane may have fewer.
    pub blocks_per_cell: u32,
    /// Cells per plane.
    pub cells_per_plane: u32,
    /// Time of each frame: the first at the begin of the window, the last at its end.
    pub frames: Vec<XrayFrame>,
    /// Stage of each cell: 0 erased, 1 open, 2 full, 3 victim being emptied, 4 reserved for the drive's
    /// tables, 5 bad. A cell of several blocks shows 3 if one is being emptied, else 1 if one is open, else
    /// the most frequent stage.
    pub stage: String,
    /// Stream of each cell: 0 unknown, 1 host, 2 relocated units, 3 cold relocated units, 4 wear levelling, 5
    /// map, 6 host in SLC mode. On a drive with a placement, 1 to 3 are replaced by 7 + number of the stream;
    /// 22 covers 15 and above. Erased blocks, blocks recovered after a power cut, and all blocks of
    /// block-mapped schemes are unknown. A cell of several blocks shows the most frequent known stream.
    pub stream: String,
    /// Share of valid units in each cell, from 0 to 255; 0 means none and 255 all.
    pub valid: String,
    /// Share of units programmed since the erase, from 0 to 255; 0 means none and 255 all.
    pub written: String,
    /// 1 if any block of the cell was programmed or erased since the previous frame. The age of a cell is the
    /// time since its last 1.
    pub changed: String,
    /// Erases of each cell, as a mean of its good blocks: `wear_min` + `wear_step` × this value.
    pub wear: String,
    /// Fewest erases of any cell in any frame.
    pub wear_min: u32,
    /// Erases per step of `wear`.
    pub wear_step: u32,
    /// 1 for each valid unit, in the order of units on flash, block by block. Present only on a drive of at
    /// most 64 blocks of at most 64 units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// Operation that holds each die at the time of the frame, one byte per die. 0: none, 1: host read, 2:
    /// host program, 3: read for a copy, 4: program for a copy, 5: erase. Absent without timing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// Time and host pages of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct XrayFrame {
    /// Virtual time in ns since the start of the simulation, as in `intervals`.
    pub at_ns: u64,
    /// Host pages (mapping units read, written or trimmed) since the begin of the window.
    pub host_pages: u64,
}
