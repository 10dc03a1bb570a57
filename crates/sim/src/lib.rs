//! A software SSD: flash chips, translation layer and controller, simulated exactly, deterministically and fast.
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
//! A drive is layers, each of which knows the one below by its contract only:
//!
//! | Layer | Crate | What it does |
//! |---|---|---|
//! | controller | `strobe-ssd` | takes [`Command`]s of 512-byte sectors, splits them into mapping units, keeps the write caches, charges firmware and link |
//! | translation | `strobe-ftl` | knows where each unit lies on flash, collects garbage, levels wear, finds the map again after a power cut |
//! | flash | `strobe-nand` | enforces the rules of NAND (erase before program, pages in order), times dies and buses, wears blocks out, keeps data if asked to |
//!
//! A [`DriveConfig`] describes all of it: geometry and times of the flash, mapping scheme, capacity, victim policy,
//! caches, limits of commands. [`presets`] has complete drives by name. Every key has a documented unit, range and
//! default, and [`build`] refuses a drive with a value outside its range, as well as one that could not work: when
//! collection starts there is always something to gain and room to move it to.
//!
//! # Time
//!
//! Time is virtual, in nanoseconds, and an argument: a command is submitted at a time, and its [`Completion`] says when it
//! was done. Nothing waits and nothing reads a clock. Dies and buses are resources with reservations; what runs side by
//! side on a real drive overlaps here too. Built with `timing = false` a drive only counts, several times as fast.
//!
//! There is one door, [`Device`]: [`submit`](Device::submit) hands a command over, [`next_event`](Device::next_event) says
//! when something happens next, and [`advance`](Device::advance) lets time pass and hands out what is complete.
//! [`execute`](Device::execute), [`write_bytes`](Device::write_bytes) and [`read_bytes`](Device::read_bytes) do one command
//! alone; [`run`](Device::run) does many [`Request`]s, issued by a [`HostQueue`] as a host does: with so many outstanding,
//! at a rate, or at times of their own. [`Inspect`] is for what can be seen from outside, [`Simulated`] for what no real
//! drive can: a copy of the whole drive, a power cut at a chosen flash operation.
//!
//! # Data, and power cuts
//!
//! With `nand.data = DataMode::Bytes` a drive keeps what is written, and completions of reads carry it. With
//! `ftl.durable_map` it is found again after a power cut:
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
//! # What is counted
//!
//! [`DriveStats`] has what the host asked for and every operation on flash, once, under its one cause: host,
//! collection, merge, map, wear levelling, copy, cache, recovery, padding. Two of them make a window:
//! `later.since(&earlier)`. Flash operations count pages; write amplification is what they hold in mapping
//! units, for whatever cause, per mapping unit that the host wrote: [`DriveStats::waf`].
//!
//! # Experiments
//!
//! An [`Experiment`] is a drive, a workload (a generator or a block trace), and what to run: fill the drive, warm it up,
//! measure. [`runner::run`] carries it out and returns a [`RunResult`], which serialises to the JSON that the `strobe`
//! program prints.
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
//! In Rust, [`Experiment::new`] does without text. [`runner::run_on`] takes a drive that you have built, for example
//! with a victim policy or a placement of your own ([`DriveBuilder`], [`VictimPolicy`], [`Placement`]), and an [`Observer`](runner::Observer) watches a
//! run and may stop it.
//!
//! # Deterministic
//!
//! The same configuration, seed and commands give the same bytes, on every machine and in every build: results, times,
//! what is on flash. There is no thread, clock, hash order or mathematics of the platform in the engine; all chance
//! comes from the seed. So a result can be compared bit by bit, and a failure found once can be found again. Only what
//! the simulation itself cost differs, and [`RunResult::reproducible`] leaves that out.

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
