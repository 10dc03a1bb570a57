//! A software SSD: flash chips, translation layer and controller, simulated exactly, deterministically and
//! fast.
//!
//! ```
//! use strobe_sim::{Command, DriveConfig, Lba, Range, SimTime, build};
//!
//! let mut config = DriveConfig::preset("jasmine-4g")?;
//! config.ftl.gc.victim = "cost-benefit".to_owned();
//! let mut drive = build(&config, true, 1)?;
//! // Eight writes at once, each with a tag of ours; then time passes until all of them are complete.
//! for tag in 0..8 {
//!     let range = Range::new(Lba::new(64 * tag), 64);
//!     drive.submit(SimTime::ZERO, tag, &Command::write(range), None);
//! }
//! let mut done = Vec::new();
//! while let Some(next) = drive.next_event() {
//!     drive.advance(next, &mut done);
//! }
//! println!("the last, {}, took {} ns", done[7].tag, done[7].at.as_ns());
//! assert_eq!(drive.stats().host.units_written, 8 * 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The drive
//!
//! A drive consists of layers. Each uses the layer below only through its documented interface:
//!
//! | Layer | Crate | Function |
//! |---|---|---|
//! | controller | `strobe-ssd` | takes [`Command`]s of 512-byte sectors, splits them into mapping units, runs the write caches, charges firmware and link time |
//! | translation | `strobe-ftl` | maps units to flash, collects garbage, levels wear, recovers the map after a power cut |
//! | flash | `strobe-nand` | enforces the rules of NAND (erase before program, pages in order), times dies and buses, wears blocks out, optionally keeps data |
//!
//! A [`DriveConfig`] describes the whole drive: geometry and times of the flash, mapping scheme, capacity,
//! victim policy, caches, command limits. [`presets`] has complete drives by name. Every key has a documented
//! unit, range and default.
//!
//! [`build`] refuses values outside their range and drives that could not work: whenever collection starts,
//! there must be invalid units to reclaim and free space for relocation.
//!
//! # Time
//!
//! Time is virtual, in nanoseconds. The caller passes the submission time of a command, and its
//! [`Completion`] returns the completion time. The engine never reads a clock. Dies and buses are resources
//! with reservations, so operations overlap as on a real drive. A drive built with `timing = false` only
//! counts, and runs several times as fast.
//!
//! [`Device`] is the device interface:
//!
//! - [`submit`](Device::submit) submits a command.
//! - [`next_event`](Device::next_event) returns the time of the next event.
//! - [`advance`](Device::advance) lets time pass and returns completions.
//! - [`execute`](Device::execute), [`write_bytes`](Device::write_bytes) and
//!   [`read_bytes`](Device::read_bytes) run one command on an idle drive.
//! - [`run`](Device::run) runs many [`Request`]s, issued by a [`HostQueue`]: at a queue depth, at a rate, or
//!   at given times.
//!
//! # Data, and power cuts
//!
//! With `nand.data = DataMode::Bytes` a drive stores written data, and completions of reads return it. With
//! `ftl.durable_map` it recovers the map, and so the data, after a power cut:
//!
//! ```
//! use strobe_sim::{DataMode, DriveConfig, Lba, SimTime, build};
//!
//! let mut config = DriveConfig::preset("generic-8g")?;
//! (config.nand.blocks_per_plane, config.ftl.logical_pages) = (64, Some(8000));
//! (config.nand.data, config.ftl.durable_map) = (DataMode::Bytes, true.into());
//! let mut drive = build(&config, true, 1)?;
//! let mut now = drive.write_bytes(SimTime::ZERO, Lba::new(0), &[7; 4096])?;
//! drive.watch();
//! drive.plan_cut(drive.operations() + 3);
//! while !drive.was_cut() {
//!     now = drive.write_bytes(now, Lba::new(800), &[8; 4096])?;
//! }
//! let (mut drive, recovery) = drive.restart(now)?;
//! assert!(drive.verify().expect("watched").wrong.is_empty());
//! let mut found = [0; 4096];
//! drive.read_bytes(recovery.finished, Lba::new(0), &mut found)?;
//! assert_eq!(found, [7; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Counters
//!
//! [`DriveStats`] counts host requests and flash operations. Each flash operation counts under one [`Cause`],
//! such as host, collection or map. `later.since(&earlier)` gives the counts of a measurement window.
//!
//! Flash operations are counted in pages. Write amplification ([`DriveStats::waf`]) is the number of mapping
//! units in all programmed pages, for any cause, divided by the mapping units written by the host.
//!
//! # Experiments
//!
//! An [`Experiment`] is a drive, a workload (a generator or a block trace) and a run: fill the drive, warm it
//! up, measure. [`runner::run`] runs it and returns a [`RunResult`], which serialises to the JSON printed by
//! the `strobe` program.
//!
//! ```
//! use strobe_sim::{Experiment, runner};
//!
//! let experiment = Experiment::from_toml(
//!     r#"
//!     [drive]
//!     preset = "generic-8g"
//!     nand.blocks_per_plane = 64
//!     [workload]
//!     kind = "zipf"
//!     [run]
//!     warmup = "3x"
//!     "#,
//! )?;
//! let result = runner::run(&experiment, &mut ())?;
//! assert!(result.waf.is_some_and(|waf| (1.0..4.0).contains(&waf)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Experiment::new`] builds an experiment without text. [`runner::run_on`] takes a drive that you have
//! built, for example with a user-defined victim policy or placement ([`DriveBuilder`], [`VictimPolicy`],
//! [`Placement`]). An [`Observer`](runner::Observer) watches a run and may stop it.
//!
//! # Determinism
//!
//! Equal configuration, seed and commands give equal results, times and flash content, bit by bit, on every
//! machine and in every build. The engine uses no threads, clocks, hash order or platform mathematics; all
//! randomness comes from the seed. Only the cost of the simulation differs; [`RunResult::reproducible`]
//! leaves it out.

#[doc(no_inline)]
pub use strobe_ftl::gc::{BlockView, VictimPolicy};
#[doc(no_inline)]
pub use strobe_ftl::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};
#[doc(no_inline)]
pub use strobe_lab::{
    ConfigError, Experiment, RunConfig, RunError, RunResult, WorkloadConfig, result, runner,
};
#[doc(no_inline)]
pub use strobe_nand::{Cause, NandOp, OpCounts};
#[doc(no_inline)]
pub use strobe_ssd::{
    BuildError, Command, CommandError, CommandKind, Completion, DataMode, Device, DriveBuilder, DriveConfig,
    DriveStats, Hint, HostQueue, Inspect, KeyError, Latency, Pacing, Range, Recovery, RecoveryError,
    Simulated, Verdict, build, build_on_image, memory_bytes, presets,
};
#[doc(no_inline)]
pub use strobe_types::{BlockId, Geometry, Lba, Lpn, Op, Ppa, Prng, Request, SECTOR_BYTES, SimTime};
#[doc(no_inline)]
pub use strobe_workload as workload;
