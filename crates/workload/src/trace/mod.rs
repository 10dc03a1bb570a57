//! Block traces: recorded requests of a real system, read as a stream.
//!
//! [`open`] turns a file and the name of its format ([`FORMATS`]) into a [`TraceReader`], an
//! iterator over [`TraceRecord`]s. Files may be gzip-compressed. Memory stays bounded whatever
//! the file holds, and nothing in a file can cause a panic: it yields records, or one
//! [`TraceError`] that names the place and the cure, and then ends.
//!
//! Several formats have the same shape and opposite meanings (1 is a read for `mqsim` and a write for `tencent`): a trace
//! is read in a format that nobody named only if it fits no other ([`only_format`]). [`guess`] is for messages.
//!
//! To add a text format, copy `spc.rs`, change its table entry and its `parse_line`, and add one
//! line to [`FORMATS`] in `formats.rs`. A binary one: `vscsi.rs`.

mod columns;
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

pub use detail::Detail;
pub use error::{Position, TraceError};
pub use format::Format;
pub use formats::{FORMATS, find_format};
pub use guess::{NoFormat, guess, only_format};
pub use options::{Action, TraceOptions};
pub use reader::{TraceReader, TraceRecord, from_reader, open, recorded_action};
pub use skipped::{SkipReason, Skipped};
