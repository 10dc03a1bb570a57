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
    /// Deallocate commands (trims).
    pub trim: HostOp,
    /// Copy commands, done by the drive.
    pub copy: HostOp,
    /// Flushes.
    pub flush: HostOp,
    /// Write Zeroes: ranges set to zero without data from the host.
    pub write_zeroes: HostOp,
    /// Mapping units written, partially written ones included. Units overwritten by Write Zeroes and units
    /// merged by a copy count. Units copied whole and unmapped units do not.
    pub pages_written: u64,
    /// Partially written units, merged with their previous content.
    pub read_modify_writes: u64,
    /// Writes that stalled: on a full write buffer or non-volatile cache, behind other stalled writes, or
    /// until collection freed space on flash.
    pub stalled_writes: u64,
    /// Stall time of these writes, summed, in ns.
    pub stalled_ns: u64,
}

/// Commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostOp {
    /// Number of successful commands.
    pub commands: u64,
    /// Bytes of these commands.
    pub bytes: u64,
    /// Commands that ended with an unrecovered read error: reads, and partial writes or copies of unreadable
    /// data. Other figures here exclude them. Absent if 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: u64,
}

impl HostResult {
    /// Result of a window.
    pub fn of(stats: &DriveStats) -> Self {
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
