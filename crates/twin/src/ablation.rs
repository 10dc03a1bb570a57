//! Share of the error that each mechanism takes away: each is switched off in turn.

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
    /// Its name.
    pub name: &'static str,
    off: fn(&mut DriveConfig),
}

/// All of them.
pub const MECHANISMS: &[Mechanism] = &[
    Mechanism { name: "page types: all pages read alike", off: |drive| one_time(&mut drive.nand.read_ns) },
    Mechanism {
        name: "suspend: reads wait for programs and erases",
        off: |drive| drive.nand.suspend = SuspendConfig { most: 0, ..SuspendConfig::default() },
    },
    Mechanism {
        name: "programs that are nearly done run to their end: all are suspended",
        off: |drive| drive.nand.suspend.least_left_ns = 0,
    },
    Mechanism {
        name: "reads of collection in small steps: 16 pages at a time",
        off: |drive| drive.ftl.gc.read_pages = 16,
    },
    Mechanism {
        name: "reads of collection in turn: those of the host come first",
        off: |drive| drive.controller.schedule.background_read_ns = 10_000_000,
    },
    Mechanism {
        name: "collection in the background: it stops the world",
        off: |drive| drive.ftl.gc.mode = GcMode::StopTheWorld,
    },
    Mechanism {
        name: "free-first placement: stripes",
        off: |drive| drive.ftl.die_allocation = DieAllocation::Stripe,
    },
    Mechanism {
        name: "variation of the time of a command",
        off: |drive| (drive.controller.jitter_ns, drive.controller.write_jitter_ns) = (0, 0),
    },
    Mechanism {
        name: "a pace of writes: they are taken as they come",
        off: |drive| (drive.controller.write_pace_ns, drive.controller.write_pace_burst) = (0, 0),
    },
    Mechanism {
        name: "a write buffer of this size: one of 64 MiB",
        off: |drive| drive.controller.write_buffer_bytes = 64 << 20,
    },
];

fn one_time(times: &mut PageTimes) {
    let types = times.types();
    *times = (types.iter().sum::<u64>() / types.len() as u64).into();
}

/// A drive without one of its mechanisms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ablation {
    /// The mechanism.
    pub without: &'static str,
    /// Comparison without it.
    pub check: Check,
}

/// The drive of `config` without each of its mechanisms, held against `measurements`.
pub fn ablate(
    config: &DriveConfig,
    measurements: &Measurements,
    effort: Effort,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Vec<Ablation>, TwinError> {
    let twin = Twin::new(config, effort)?;
    // Loads that stay below saturation with everything on may be beyond it without something: that shows, too.
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
    /// Mean error of one kind, as a share.
    pub fn mean_error(check: &Check, figure: Figure) -> Option<f64> {
        let errors = check.errors(figure);
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }
}
