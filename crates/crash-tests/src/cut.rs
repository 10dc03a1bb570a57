//! Power cuts under a guest, and verification of the volume after them.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use strobe_lab::RunError;
use strobe_linux::command::{FileSystem, environment, keep_data};
use strobe_linux::job::{Job, Run, Step};
use strobe_linux::{End, LinuxError, Machine, Outcome, PoweredDrive, Root, Stream};
use strobe_ssd::{BuildError, CopyMode, DriveConfig, HostQueue, KeyError, Pacing, Simulated, build};
use strobe_types::{Lba, Op, Prng, Request, SimTime, StopFlag};

use strobe_crash::is_alarm;

use crate::{BLOCK_BYTES, GUEST, NOTES_PATH, Promises, SECTOR_BYTES, VIOLATION};

/// File system on a drive, with its usage.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name.
    pub name: &'static str,
    /// File system.
    pub file_system: FileSystem,
    /// Guarantees of the file system.
    pub promises: Promises,
    /// Additional arguments of mkfs.
    pub mkfs_options: Vec<String>,
    /// Mount options, separated by commas.
    pub mount_options: String,
    /// Steps after each mount before power fails: kernel switches. The configuration is skipped on kernels that
    /// lack one.
    pub setup: Vec<Step>,
    /// Changes to the drive's configuration.
    pub change: fn(&mut DriveConfig),
    /// Size of the pieces of a file that a write changes atomically: file system blocks or sectors, in bytes.
    pub piece_bytes: u32,
    /// Size of the files that fill the volume, in MiB.
    pub fill_mib: u32,
    /// Steps of the writer.
    pub steps: u32,
    /// True if the drive has a volatile write cache. Without one, the kernel sends no flushes.
    pub write_cache: bool,
    /// True if the file system survives a power cut during recovery from another one.
    ///
    /// F2FS does not. Before its checkpoint is complete, recovery overwrites the first nodes of the chain that it
    /// follows. In Linux 6.12, `recover_data` opens new segments for data only. Data synced since the previous
    /// checkpoint is then lost.
    pub recovers_again: bool,
}

impl Config {
    fn new(name: &'static str, file_system: FileSystem, promises: Promises) -> Self {
        Self {
            name,
            file_system,
            promises,
            mkfs_options: Vec::new(),
            mount_options: String::new(),
            setup: Vec::new(),
            change: |_| {},
            piece_bytes: if promises.is_fat() { SECTOR_BYTES as u32 } else { BLOCK_BYTES as u32 },
            fill_mib: 60,
            steps: 250,
            write_cache: true,
            recovers_again: true,
        }
    }

    /// Returns all tested configurations.
    pub fn all() -> Vec<Self> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // F2FS leaves 36 MiB of such a small drive.
        let f2fs = |name, mode: &str| Self {
            mount_options: format!("mode={mode}"),
            // Without discard at mkfs, the drive holds old data and must collect garbage.
            mkfs_options: words("-t 0"),
            fill_mib: 28,
            recovers_again: false,
            // A single die preserves the order of writes. Without fsync_mode=strict, F2FS writes a node after its
            // data without a flush in between. On several dies, the node may reach flash first. Roll-forward then
            // finds a node whose blocks hold old data (5 of 150 cuts on four dies).
            change: |drive| one_die(drive, 224),
            ..Self::new(name, FileSystem::F2fs, Promises::Journal)
        };
        let logical = Step::Set { path: "/sys/fs/f2fs/vda/gc_logical_copy".into(), value: "1".into() };
        let copies = |name| Self {
            setup: vec![logical.clone()],
            change: |drive| {
                drive.ftl.copy_mode = CopyMode::Logical;
                one_die(drive, 232);
            },
            ..f2fs(name, "lfs")
        };
        vec![
            Self {
                // Blocks of 1 KiB, which the drive must merge into its mapping units.
                mkfs_options: words("-K"),
                piece_bytes: 1024,
                ..Self::new("ext4", FileSystem::Ext4, Promises::Journal)
            },
            Self {
                mkfs_options: words("-b 4096"),
                mount_options: "discard".into(),
                ..Self::new("ext4-discard", FileSystem::Ext4, Promises::Journal)
            },
            f2fs("f2fs-lfs", "lfs"),
            f2fs("f2fs-adaptive", "adaptive"),
            copies("f2fs-logical-copy"),
            // Reveals a copy that is durable only after a flush.
            Self { write_cache: false, ..copies("f2fs-copy-through") },
            Self::new("vfat", FileSystem::Vfat, Promises::Fat),
            Self {
                mount_options: "sync".into(),
                steps: 150,
                ..Self::new("vfat-sync", FileSystem::Vfat, Promises::FatSync)
            },
        ]
    }

    /// 96 MiB on flash of 112 MiB: small, with little over-provisioning.
    fn drive(&self) -> Result<DriveConfig, KeyError> {
        let mut drive = DriveConfig::preset("jasmine-4g")?;
        let nand = &mut drive.nand;
        (nand.channels, nand.dies_per_channel) = (2, 2);
        (nand.blocks_per_plane, nand.pages_per_block) = (56, 64);
        drive.ftl.logical_pages = Some(24_576);
        drive.controller.write_buffer_bytes = 1 << 20;
        keep_data(&mut drive);
        (self.change)(&mut drive);
        Ok(drive)
    }

    fn mount(&self) -> Step {
        let kind = self.file_system.kernel_name().unwrap_or_default().to_owned();
        Step::Mount { kind, options: self.mount_options.clone() }
    }

    fn writer(&self, seed: u64, prepare: bool) -> Step {
        let mut argv: Vec<String> = [GUEST, "write", "--promises"].map(str::to_owned).into();
        argv.extend([self.promises.name(), format!("--seed={seed}"), format!("--fill={}", self.fill_mib)]);
        if prepare {
            argv.push("--prepare".into())
        } else {
            argv.push(format!("--steps={}", self.steps))
        }
        Run::must_succeed(argv)
    }
}

/// Failure of the test itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The drive failed.
    #[error(transparent)]
    Drive(#[from] RunError),
    /// The guest failed.
    #[error(transparent)]
    Guest(#[from] LinuxError),
    /// A step failed without a power cut.
    #[error("{0}")]
    Step(String),
    /// The kernel lacks a required switch.
    #[error("this kernel cannot: {0}")]
    Lacking(String),
    /// The guest finished before the planned cut.
    #[error("no power cut at operation {0}: the guest was done before")]
    NotCut(u64),
}

/// Components of the guests.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Path of the kernel.
    pub kernel: PathBuf,
    /// Path of the program `crash-guest`.
    pub program: PathBuf,
}

/// Result of one or two power cuts.
#[derive(Clone, Debug, Default)]
pub struct CutReport {
    /// Interrupted flash operation.
    pub operation: u64,
    /// Number of durability acknowledgements received from the writer.
    pub acknowledged: usize,
    /// True if power failed once more during recovery.
    pub was_cut_again: bool,
    /// Violated guarantees.
    pub violations: Vec<String>,
}

struct Left {
    outcome: Outcome,
    said: String,
    errors: String,
    alarms: Vec<String>,
}

/// Filled volume, with the recorded work of an uncut run.
pub struct Prepared {
    parts: Parts,
    config: Config,
    seed: u64,
    drive: Mutex<Box<dyn Simulated>>,
    start: SimTime,
    /// Output of the writer while it fills the volume.
    prepared: String,
    /// Output of the writer during the uncut run.
    worked: String,
    operations: RangeInclusive<u64>,
    collected_blocks: u64,
}

impl Prepared {
    /// Makes and fills a volume, and lets the guest work without a power cut to learn its flash operations.
    ///
    /// `wrap` wraps the drive under test.
    pub fn new(
        parts: &Parts,
        config: &Config,
        seed: u64,
        wrap: fn(Box<dyn Simulated>) -> Box<dyn Simulated>,
    ) -> Result<Self, CrashError> {
        let (drive, start) = used_drive(config, seed)?;
        let mut volume = Self {
            parts: parts.clone(),
            config: config.clone(),
            seed,
            drive: Mutex::new(drive.freeze()),
            start,
            prepared: String::new(),
            worked: String::new(),
            operations: 0..=0,
            collected_blocks: 0,
        };
        let mut steps = vec![Run::tool(config.file_system.mkfs(seed, &config.mkfs_options)), config.mount()];
        steps.extend(config.setup.iter().cloned());
        steps.extend([config.writer(seed, true), Step::Unmount]);
        let left = volume.boot(&steps, "", wrap(drive), start)?;
        volume.must_be_done(&steps, &left)?;
        let Left { mut outcome, said, .. } = left;
        // An orderly power-off leaves nothing in the cache.
        volume.start = outcome.drive.settle(outcome.at).map_err(RunError::Command)?;
        volume.prepared = said;
        let (first, before) = (outcome.drive.operations() + 1, outcome.drive.stats().gc);
        volume.drive = Mutex::new(outcome.drive);

        // The uncut run gives the flash operations among which cuts are chosen.
        let steps = volume.work_steps();
        let left = volume.boot(&steps, "", volume.copy(), volume.start)?;
        volume.must_be_done(&steps, &left)?;
        let after = left.outcome.drive;
        volume.operations = first..=after.operations();
        volume.collected_blocks = after.stats().gc.victims - before.victims;
        volume.worked = left.said;
        Ok(volume)
    }

    /// Flash operations from the mount before the writer's work to the unmount after it.
    pub fn operations(&self) -> RangeInclusive<u64> {
        self.operations.clone()
    }

    /// Number of blocks reclaimed by garbage collection during the work.
    pub fn collected_blocks(&self) -> u64 {
        self.collected_blocks
    }

    fn copy(&self) -> Box<dyn Simulated> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner).freeze()
    }

    fn work_steps(&self) -> Vec<Step> {
        let mut steps = vec![self.config.mount()];
        steps.extend(self.config.setup.iter().cloned());
        steps.extend([self.config.writer(self.seed, false), Step::Unmount]);
        steps
    }

    fn boot(
        &self,
        steps: &[Step],
        notes: &str,
        drive: Box<dyn Simulated>,
        start: SimTime,
    ) -> Result<Left, CrashError> {
        let mut root = Root::new(&self.parts.program)?;
        // The program of the guest is also its first process.
        root.link(&format!("usr/bin/{GUEST}"), "/init");
        for step in steps {
            if let Step::Run(run) = step
                && run.argv[0] != GUEST
            {
                root.program(&run.argv[0])?;
            }
        }
        root.text(NOTES_PATH, notes);
        let job = Job { steps: steps.into(), environment: environment(self.seed), ..Job::default() };
        let mut machine =
            Machine { memory_mib: 256, seed: self.seed, ..Machine::new(self.parts.kernel.clone()) };
        machine.disk.write_cache = self.config.write_cache;
        let (mut said, mut errors, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
        let drive = PoweredDrive::new(drive, start);
        let outcome =
            machine.run(&root, &job, drive, &StopFlag::default(), &mut |stream, bytes| match stream {
                Stream::Output => said.extend_from_slice(bytes),
                Stream::Error => errors.extend_from_slice(bytes),
                Stream::Kernel => kernel.extend_from_slice(bytes),
                Stream::Control | Stream::Files | Stream::Changes => {}
            })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut alarms: Vec<_> =
            text(&kernel).lines().filter(|line| is_alarm(line)).map(str::to_owned).collect();
        alarms.extend(outcome.drive_error.clone());
        Ok(Left { outcome, said: text(&said), errors: text(&errors), alarms })
    }

    fn must_be_done(&self, steps: &[Step], left: &Left) -> Result<(), CrashError> {
        match &left.outcome.failed {
            Some((step, reason)) if matches!(steps[*step], Step::Set { .. }) => {
                Err(CrashError::Lacking(reason.clone()))
            }
            Some((_, reason)) => {
                Err(CrashError::Step(format!("{}: {reason}\n{}", self.config.name, left.errors)))
            }
            None if !left.alarms.is_empty() => Err(CrashError::Step(left.alarms.join("\n"))),
            None => Ok(()),
        }
    }

    /// Lets the guest work until power fails during flash operation `operation`, then verifies the volume.
    ///
    /// With `again`, power fails once more, `again` operations after the drive was ready, if the guest gets that
    /// far.
    pub fn cut(&self, operation: u64, again: Option<u64>) -> Result<CutReport, CrashError> {
        let mut drive = self.copy();
        // The drive's own oracle also tracks durable data.
        drive.watch();
        drive.plan_cut(operation);
        let Left { mut outcome, said, errors, alarms } =
            self.boot(&self.work_steps(), "", drive, self.start)?;
        if let Some((_, reason)) = outcome.failed {
            return Err(CrashError::Step(format!("{reason}\n{errors}")));
        }
        if outcome.ended.end != End::PowerCut {
            // The operation may have been in progress when the guest finished. Let the drive reach it.
            while !outcome.drive.was_cut()
                && let Some(next) = outcome.drive.next_event()
            {
                outcome.drive.advance(next, &mut Vec::new());
            }
            if !outcome.drive.was_cut() {
                return Err(CrashError::NotCut(operation));
            }
        }
        let acknowledged = said.matches("\"synced\"").count() + said.matches("\"folder\"").count();
        let mut report = CutReport { operation, acknowledged, violations: alarms, ..CutReport::default() };
        if !self.worked.starts_with(&said) {
            report.violations.push("the guest's output differs from the uncut run".into());
        }
        let notes = self.prepared.clone() + &said;
        let mut again = again;
        loop {
            let (mut drive, recovery) = match outcome.drive.restart(outcome.at) {
                Ok(found) => found,
                Err(error) => {
                    report.violations.push(format!("the drive cannot be restarted: {error}"));
                    return Ok(report);
                }
            };
            if let Err(error) = drive.check() {
                report.violations.push(format!("the drive's state is wrong: {error}"));
            }
            if let Some(verdict) = drive.verify().filter(|verdict| !verdict.wrong.is_empty()) {
                report.violations.push(format!("the drive has lost or changed {:?}", verdict.wrong));
            }
            if let Some(after) = again.take() {
                let operation = drive.operations() + 1 + after;
                drive.plan_cut(operation);
            }
            let left = self.boot(&self.verify_steps(), &notes, drive, recovery.finished)?;
            if left.outcome.ended.end == End::PowerCut {
                report.was_cut_again = true;
                outcome = left.outcome;
                continue;
            }
            self.judge(&left, &mut report);
            return Ok(report);
        }
    }

    fn verify_steps(&self) -> Vec<Step> {
        let mut steps = self.config.file_system.repair();
        let argv = [
            GUEST.to_owned(),
            "verify".into(),
            format!("--promises={}", self.config.promises.name()),
            format!("--seed={}", self.seed),
            format!("--piece-bytes={}", self.config.piece_bytes),
            format!("--notes={NOTES_PATH}"),
        ];
        steps.extend([self.config.mount(), Run::program(argv), Step::Unmount]);
        steps.extend(self.config.file_system.fsck().map(Run::program));
        steps
    }

    fn judge(&self, left: &Left, report: &mut CutReport) {
        let found = left.said.lines().filter_map(|line| line.strip_prefix(VIOLATION));
        report.violations.extend(found.map(str::to_owned));
        report.violations.extend(left.alarms.iter().cloned());
        if let Some((_, reason)) = &left.outcome.failed {
            report.violations.push(format!("{reason}\n{}", left.said));
        }
        let steps = self.verify_steps();
        for exit in &left.outcome.exits {
            if let Step::Run(run) = &steps[exit.step]
                && run.allowed.is_empty()
                && exit.code != 0
                && (run.argv[0] != GUEST || !left.said.contains(VIOLATION))
            {
                let what = run.argv.join(" ");
                let said = format!("{}{}", left.said, left.errors);
                report.violations.push(format!("{what} ended with exit code {}:\n{said}", exit.code));
            }
        }
        // fsck.f2fs reports faults in its output, whatever its exit code is.
        let faults = left.said.lines().filter(|line| {
            self.config.file_system == FileSystem::F2fs
                && ["[ASSERT]", "[FIX]", "[Fail]"].iter().any(|word| line.contains(word))
        });
        report.violations.extend(faults.map(str::to_owned));
    }
}

fn one_die(drive: &mut DriveConfig, blocks: u32) {
    (drive.nand.channels, drive.nand.dies_per_channel, drive.nand.blocks_per_plane) = (1, 1, blocks);
}

/// Every unit is written, and a third twice: the drive collects garbage from now on.
fn used_drive(config: &Config, seed: u64) -> Result<(Box<dyn Simulated>, SimTime), CrashError> {
    let drive = config.drive().map_err(BuildError::from);
    let mut drive = drive.and_then(|drive| build(&drive, true, seed)).map_err(RunError::from)?;
    let mut rng = Prng::derive(seed, "used-drive");
    let per_unit = drive.geometry().sectors_per_unit();
    let units = drive.logical_units();
    let write = |unit: u32, units: u32| {
        Request::new(Op::Write, Lba::new(u64::from(unit) * u64::from(per_unit)), units * per_unit)
    };
    let mut writes: Vec<_> = (0..units / 16).map(|run| write(run * 16, 16)).collect();
    writes.extend((0..units / 3).map(|_| write(rng.below(units), 1)));
    let mut queue = HostQueue::new(Pacing::Closed { depth: 32, interval_ns: 0 }, SimTime::ZERO);
    drive.run(&writes, &[], &mut queue).map_err(|(_, error)| RunError::Command(error))?;
    let start = drive.settle(queue.finished()).map_err(RunError::Command)?;
    Ok((drive, start))
}
