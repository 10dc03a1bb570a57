//! Contribution of each mechanism to the accuracy: each is switched off in turn.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_lab::points::Watch;
use strobe_ssd::{DieAllocation, DriveConfig, GcMode, PageTimes, SuspendConfig};

use crate::Effort;
use crate::check::{Check, Figure, check_on, rows_of};
use crate::measurements::Measurements;
use crate::twin::{Twin, TwinError};

/// A mechanism that can be switched off.
#[derive(Clone, Copy, Debug)]
pub struct Mechanism {
    /// Name in tables.
    pub name: &'static str,
    off: fn(&mut DriveConfig),
}

/// All mechanisms.
pub const MECHANISMS: &[Mechanism] = &[
    Mechanism { name: "page types: all pages read alike", off: |drive| one_time(&mut drive.nand.read_ns) },
    Mechanism {
        name: "suspend: reads wait for programs and erases",
        off: |drive| drive.nand.suspend = SuspendConfig { most: 0, ..SuspendConfig::default() },
    },
    Mechanism {
        name: "nearly finished programs run to their end: all are suspended",
        off: |drive| drive.nand.suspend.least_left_ns = 0,
    },
    Mechanism {
        name: "GC reads in small steps: 16 pages per step",
        off: |drive| drive.ftl.gc.read_pages = 16,
    },
    Mechanism {
        name: "deadlines of GC reads: host reads come first",
        off: |drive| drive.controller.schedule.background_read_ns = 10_000_000,
    },
    Mechanism {
        name: "background GC: stop-the-world",
        off: |drive| drive.ftl.gc.mode = GcMode::StopTheWorld,
    },
    Mechanism {
        name: "free-first die allocation: stripes",
        off: |drive| drive.ftl.die_allocation = DieAllocation::Stripe,
    },
    Mechanism {
        name: "command jitter: none",
        off: |drive| (drive.controller.jitter_ns, drive.controller.write_jitter_ns) = (0, 0),
    },
    Mechanism {
        name: "write throttle: none",
        off: |drive| (drive.controller.write_throttle_ns, drive.controller.write_throttle_burst) = (0, 0),
    },
    Mechanism {
        name: "write buffer size: 64 MiB",
        off: |drive| drive.controller.write_buffer_bytes = 64 << 20,
    },
];

fn one_time(times: &mut PageTimes) {
    let types = times.types();
    *times = (types.iter().sum::<u64>() / types.len() as u64).into();
}

/// Result of a drive without one mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ablation {
    /// Name of the mechanism switched off.
    pub without: &'static str,
    /// Comparison without it.
    pub check: Check,
}

/// Compares the drive of `config` with `measurements`, once without each mechanism.
pub fn ablate(
    config: &DriveConfig,
    measurements: &Measurements,
    effort: Effort,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Vec<Ablation>, TwinError> {
    // One twin, aged once, serves all mechanisms.
    let twin = Twin::new(config, effort)?;
    // Keep only loads below saturation of the full drive. Without a mechanism a load may exceed saturation;
    // that is part of the result.
    let rows: Vec<_> = rows_of(measurements).into_iter().filter(|row| measurements.is_stable(row)).collect();
    let without = |mechanism: &Mechanism| {
        watch.stage(mechanism.name);
        let mut config = twin.config().clone();
        (mechanism.off)(&mut config);
        let check = check_on(&twin, &config, measurements, &rows, seed, watch)?;
        Ok(Ablation { without: mechanism.name, check })
    };
    MECHANISMS.iter().map(without).collect()
}

impl Ablation {
    /// Mean absolute error of `figure`, as a share.
    pub fn mean_error(check: &Check, figure: Figure) -> Option<f64> {
        let errors = check.errors(figure);
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }
}
