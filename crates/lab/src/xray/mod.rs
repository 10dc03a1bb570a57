//! The X-ray of a drive: what every block and every die did in the measured window, in frames at equal distances.
//!
//! `recorder.rs` takes the frames, `packed.rs` makes few bytes of them. Nothing of it is there in a run without
//! run.xray.

mod packed;
mod recorder;

pub(crate) use recorder::{Clock, Recorder};

use schemars::JsonSchema;
use serde::Serialize;

/// Cells of all frames together. A drive of more blocks has several of them in a cell, so that a result stays a few
/// megabytes.
const CELLS_MAX: u64 = 1 << 20;

/// Activity of blocks and dies in the measured window.
///
/// Blocks are drawn as cells, plane by plane: cell c of plane p, `p × cells_per_plane + c`, is of blocks `c ×
/// blocks_per_cell` and following of that plane. Planes count through the dies (`planes_per_die`), dies through the channels.
///
/// Each of the texts holds a byte for each cell of each frame: frame by frame, each byte less that of the same cell in the
/// frame before (modulo 256), compressed by zlib, in base64. In Python: `zlib.decompress(base64.b64decode(text))`, then
/// `numpy.frombuffer(..., numpy.uint8).reshape(frames, -1).cumsum(0, dtype=numpy.uint8)`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Xray {
    /// Channels of the drive.
    pub channels: u32,
    /// Dies of the drive.
    pub dies: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Blocks that share a cell; the last cell of a plane may have fewer.
    pub blocks_per_cell: u32,
    /// Cells of a plane.
    pub cells_per_plane: u32,
    /// When each frame was taken: the first at the begin of the window, the last at its end.
    pub frames: Vec<XrayFrame>,
    /// Stage of each cell: 0 erased, 1 open, 2 full, 3 victim being emptied, 4 reserved for the drive's tables,
    /// 5 bad. A cell of several blocks shows 3 if one is being emptied, else 1 if one is open, else the most
    /// frequent stage.
    pub stage: String,
    /// Stream of each cell: 0 unknown, 1 host, 2 relocated units, 3 cold relocated units, 4 wear levelling, 5
    /// map, 6 host in SLC mode. On a drive with a placement 1 to 3 are 7 and more instead: 7 + number of the stream, 22 for
    /// 15 and all above. Unknown are erased blocks, blocks recovered after a power cut, and all blocks of block-mapped
    /// schemes. A cell of several blocks shows the most frequent known stream.
    pub stream: String,
    /// Share of its units that are valid, from 0 to 255; 0 and 255 are none and all.
    pub valid: String,
    /// Share of its units that have been programmed since the erase, alike.
    pub written: String,
    /// 1 if any of it was programmed or erased since the frame before. How long ago that was is its age.
    pub changed: String,
    /// Its erases, mean of its good blocks: `wear_min` + `wear_step` × this.
    pub wear: String,
    /// Fewest erases of any cell in any frame.
    pub wear_min: u32,
    /// Erases that a step of `wear` stands for.
    pub wear_step: u32,
    /// 1 if the unit is valid, in the order of the block's units on flash, block by block. Only on a toy drive, of at
    /// most 64 blocks of at most 64 units; absent on others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// Operation that holds each die at the moment of the frame, one byte for each die. 0: none, 1: host read,
    /// 2: host program, 3: read for a copy, 4: program for a copy, 5: erase. Absent without timing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// A look into the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct XrayFrame {
    /// Virtual time in ns since the start of the simulation, as in `intervals`.
    pub at_ns: u64,
    /// Host pages (mapping units read, written or trimmed) of the window until then.
    pub host_pages: u64,
}
