//! Host requests.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{CommandKind, DriveStats};
use strobe_types::is_default;

/// Host commands by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostResult {
    /// Reads.
    pub read: HostOp,
    /// Writes.
    pub write: HostOp,
    /// Deallocations.
    pub trim: HostOp,
    /// Copies by the drive.
    pub copy: HostOp,
    /// Flushes.
    pub flush: HostOp,
    /// Ranges overwritten with zeros that the host did not send.
    pub write_zeroes: HostOp,
    /// Mapping units written, partial ones included. Units overwritten by write zeroes and units merged by a
    /// copy count; units copied whole and unmapped ones do not.
    pub pages_written: u64,
    /// Partially written units, merged with what they held before.
    pub read_modify_writes: u64,
    /// Writes that waited for a place: in a full write buffer or non-volatile cache, behind others that did, or because
    /// collection had to make room on flash first.
    pub stalled_writes: u64,
    /// Time for which they did, added up, in ns.
    pub stalled_ns: u64,
}

/// Commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostOp {
    /// Number of commands.
    pub commands: u64,
    /// Bytes covered.
    pub bytes: u64,
    /// Commands among them that ended with an unrecovered read error: reads, and partial writes or copies of what
    /// cannot be read. Left out if there were none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: u64,
}

impl HostResult {
    pub(crate) fn of(stats: &DriveStats) -> Self {
        let of = |kind: CommandKind| HostOp {
            commands: stats.host.commands(kind),
            bytes: stats.host.bytes(kind),
            errors: stats.host.errors(kind),
        };
        Self {
            read: of(CommandKind::Read),
            write: of(CommandKind::Write),
            trim: of(CommandKind::Trim),
            copy: of(CommandKind::Copy),
            flush: of(CommandKind::Flush),
            write_zeroes: of(CommandKind::WriteZeroes),
            pages_written: stats.host.units_written,
            read_modify_writes: stats.host.read_modify_writes,
            stalled_writes: stats.stalls.writes,
            stalled_ns: stats.stalls.ns,
        }
    }
}
