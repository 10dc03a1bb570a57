//! Block traces: recorded requests of a real system, read as a stream.
//!
//! [`open`] turns a file and a format name ([`FORMATS`]) into a [`TraceReader`]. Memory is bounded, and no
//! file can cause a panic: a trace yields records, then ends, or fails with one [`TraceError`] that gives
//! position and remedy.
//!
//! Several formats have the same shape and opposite meanings: 1 is a read for `mqsim` and a write for
//! `tencent`. Without a format name a trace is therefore read only if a single format matches
//! ([`only_format`]).
//!
//! To add a text format, copy `spc.rs`, change its table entry and `parse_line`, and add a line to
//! [`FORMATS`]. For a binary format copy `vscsi.rs`.

mod columns;
mod csv;
mod detail;
mod device;
mod error;
mod format;
mod formats;
mod guess;
mod input;
mod line;
mod merged;
mod options;
mod per_cpu;
mod problem;
mod reader;
mod record;
mod skipped;
mod slice;
#[cfg(test)]
mod testing;

mod alibaba;
mod blkparse;
mod blktrace;
mod disksim;
mod fio;
mod fiu;
mod mqsim;
mod msr;
mod oracle_general;
mod spc;
mod ssdsim;
mod strobe;
mod systor;
mod tencent;
mod vscsi;
mod zstd;

pub use detail::Detail;
pub use device::Overlap;
pub use error::{Position, TraceError};
pub use format::Format;
pub use formats::{FORMATS, find_format};
pub use guess::{NoFormat, guess, only_format};
pub use options::{Action, PlacedDevice, TraceOptions};
pub use reader::{TraceReader, TraceRecord, check_options, from_reader, open, recorded_action};
pub use skipped::{SkipReason, Skipped};
pub use slice::{Covered, Extent};
