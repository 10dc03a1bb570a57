//! The drive: what a host sees.
//!
//! [`Command`]s come in. [`Drive`] splits them into mapping units, merges partial ones, passes them through the
//! write caches to a mapping scheme and returns completion times. [`Engine`] is the same drive
//! behind a trait object, with its parameters (policy, timing, stored data) chosen at run time by
//! [`build`]; inside, everything is static. [`DriveConfig`] is the `[drive]` table of an
//! experiment, [`presets`] are ready-made ones.

mod buffer;
mod build;
mod bytes;
mod command;
mod config;
mod controller;
mod drive;
mod image;
mod nvram;
mod places;
mod power;
pub mod presets;
mod queue;
mod ranges;
mod room;
pub mod schema;
mod stats;
mod witness;

pub use build::{BuildError, build, build_with, memory_bytes};
pub use command::{Command, CommandError, CommandKind, Hint, Limit, LimitsConfig, RANGES_MAX, Range, Status};
pub use config::{
    AllocationName, ControllerConfig, CopyMode, DataMode, DriveConfig, FtlConfig, GcConfig, GcStreamName,
    MAPPINGS, Mapping, MappingInfo, MigrationName, NVRAM_RANGES_MAX, NandConfig, NvramConfig, NvramError,
    NvramPolicyName, POLICIES, PolicyInfo, SectorRange, TemperatureName, TranslationTable, TrimConfig,
    Victim, WearLevelingConfig, WearLevelingName,
};
pub use drive::{Drive, Engine};
pub use image::{
    Examined, ImageDrive, ImageProblem, build_on_image, examine, image_config, image_memory_bytes,
};
pub use nvram::Nvram;
pub use queue::{HostQueue, Pacing};
pub use room::Room;
pub use schema::KeyError;
pub use stats::{DriveStats, HostCounts, Latency, NvramStats};
pub use strobe_ftl::{MergeStats, Recovery, RecoveryError, TranslationStats};
pub use strobe_nand::{Access, Damage, Image, ImageError, ImageInfo, Scan};
pub use witness::Verdict;
