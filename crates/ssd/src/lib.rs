//! The drive: what a host sees.
//!
//! [`Drive`] splits commands into mapping units, merges partial ones, passes them through the
//! write buffer to a mapping scheme and returns completion times. [`Engine`] is the same drive
//! behind a trait object, with its parameters (policy, timing, stored data) chosen at run time by
//! [`build`]; inside, everything is static. [`DriveConfig`] is the `[drive]` table of an
//! experiment, [`presets`] are ready-made ones.

mod buffer;
mod build;
mod bytes;
mod config;
mod controller;
mod drive;
pub mod presets;
mod queue;
mod stats;

pub use build::{BuildError, build, build_with, memory_bytes};
pub use config::{
    AllocationName, ControllerConfig, CopyMode, DataMode, DriveConfig, FtlConfig, GcConfig, GcStreamName,
    MAPPINGS, MappingInfo, MigrationName, NandConfig, POLICIES, PolicyInfo, TemperatureName,
    WearLevelingConfig, WearLevelingName,
};
pub use drive::{CommandError, Drive, Engine};
pub use queue::{HostQueue, Pacing};
pub use stats::{DriveStats, HostCounts, Latency};
