//! The simulated SSD as a host sees it.
//!
//! A host submits [`Command`]s and receives [`Completion`]s through [`Device`]. [`Drive`] splits commands
//! into mapping units, merges partial units and passes them through the write caches to a mapping scheme.
//!
//! [`build`] makes a drive from a [`DriveConfig`], the `[drive]` table of an experiment. Policies, timing and
//! the kind of stored data are chosen at run time. [`presets`] holds ready-made configurations. [`Inspect`]
//! reads the state of a drive; [`Simulated`] cuts its power or copies it.

mod assembly;
mod buffer;
mod capacity;
mod command;
mod config;
mod controller;
mod device;
mod drive;
mod error;
mod fat;
mod latency;
mod limits;
mod nvram;
mod oracle;
pub mod presets;
mod queue;
pub mod schema;
mod state_file;
mod stats;
mod target;

pub use assembly::{
    Aged, AgedOn, Ageing, AgeingError, BuildError, DriveBuilder, Examined, ImageDrive, ImageProblem, build,
    build_aged, build_on_image, collection_read_pages, empty_memory_bytes, examine, image_config,
    image_memory_bytes, kept_blocks, memory_bytes,
};
pub use capacity::Capacity;
pub use command::{Command, CommandKind, DataTag, Hint, RANGES_MAX, Range};
pub use config::{
    ControllerConfig, CopyMode, DataMode, DriveConfig, DurableMap, FaultAt, FaultsTable, FtlConfig, GcConfig,
    GcMode, MAPPINGS, Mapping, MappingInfo, NVRAM_RANGES_MAX, NandConfig, NvramConfig, NvramError,
    NvramPolicyName, PLACEMENTS, POLICIES, PlacementInfo, PlacementTable, PolicyInfo, RefreshTable,
    ScheduleTable, Scheme, SchemeName, SectorRange, TranslationTable, TrimConfig, Victim, WearLevelingConfig,
    WearLevelingName,
};
pub use device::{Completion, Device, InFlightWork, Inspect, PowerCut, Simulated};
pub use drive::Drive;
pub use error::{CommandError, Limit, Status};
pub use latency::{Latencies, Latency};
pub use limits::LimitsConfig;
pub use nvram::Nvram;
pub use oracle::Verdict;
pub use queue::{Goal, HostQueue, Pacing};
pub use schema::KeyError;
pub use state_file::{StateFile, StateFileError, StateHeader, StateProblem, differences, write_state};
pub use stats::{DriveStats, HostCounts, NvramStats, ReclaimUnits, StallStats};
pub use strobe_ftl::{
    Allocation, BlockInfo, DieAllocation, FtlError, GcStream, Isolation, LogVictim, MergeStats, Recovery,
    RecoveryError, SlcConfig, SlcStats, Stage, Stream, Temperature, TranslationStats, WhenFull,
};
pub use strobe_nand::{
    Access, Class, CutOperations, Damage, EventLog, Image, ImageError, ImageInfo, Issue, PageTimes,
    RetryConfig, Scan, SlcMode, SuspendConfig,
};
pub use strobe_types::{StateError, StateReader, StateWriter, Stored};
pub use target::{Answer, Requests, Target};
