//! Figures 3 and 4: ext4 and F2FS of a real kernel after ageing, under four benchmarks.
//!
//! 1. Read the capacity of an empty F2FS.
//! 2. Age a file system: write files up to the share u of that capacity, then update them until F2FS is about
//!    to clean.
//! 3. Run each benchmark on a frozen copy of the aged drive.

use serde::{Deserialize, Serialize};
use strobe_lab::Experiment;
use strobe_linux::DiskOptions;
use strobe_linux::command::{FileSystem, LinuxRunError, window};
use strobe_linux::job::{Run, Step};
use strobe_nand::{Cause, NandOp};
use strobe_ssd::{CopyMode, DriveConfig};

use super::cases::{Case, Counted, Mode, Program};
use super::{COMMAND_US, INFERRED_US, SHIPPED, command_is_set};
use crate::guest::{self, Aged, Kernel, Task};
use crate::mean::Ratio;
use crate::pool::Bench;
use crate::{Options, PaperError, Scale};

const AGEING_FILES: u64 = 1000;
const DBENCH_LOAD: &str = "/usr/share/dbench/client.txt";

struct Size {
    divisor: u64,
    dbench_seconds: u32,
    dbench_clients: u32,
}

impl Size {
    fn of(scale: Scale) -> Self {
        let divisor = if scale == Scale::Full { 1 } else { 4 };
        let (dbench_seconds, dbench_clients) = match scale {
            Scale::Full => (20, 8),
            Scale::Quick | Scale::Tiny => (6, 1),
        };
        Self { divisor, dbench_seconds, dbench_clients }
    }

    fn bytes(&self, mib: u64) -> String {
        ((mib << 20) / self.divisor).to_string()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Performance: MB (10⁶ bytes) per second printed by Dbench, runs per second of the others.
    pub(super) speed: f64,
    /// Work done: `speed` times seconds.
    work: f64,
    /// In the order of [`Cause::ALL`].
    programs: Vec<u64>,
    /// Blocks copied through the map alone.
    copied: u64,
    page_bytes: u32,
}

impl Measured {
    /// MiB per unit of work.
    pub(super) fn written(&self, causes: &[Cause]) -> f64 {
        let of = |(cause, pages): (&Cause, &u64)| if causes.contains(cause) { *pages } else { 0 };
        let pages: u64 = Cause::ALL.iter().zip(&self.programs).map(of).sum();
        pages as f64 * f64::from(self.page_bytes) / f64::from(1 << 20) / self.work
    }

    pub(super) fn all_written(&self) -> f64 {
        self.written(&Cause::ALL)
    }

    pub(super) fn copied_mib(&self) -> f64 {
        self.copied as f64 / 256.0 / self.work
    }

    /// Host data and padding in MiB per unit of work.
    pub(super) fn data(&self) -> f64 {
        self.written(&[Cause::Host, Cause::Pad])
    }

    /// The drive's metadata, map and journal in percent of the host's writes, as in the paper.
    pub(super) fn map_share(&self) -> f64 {
        100.0 * self.written(&[Cause::Map, Cause::Meta, Cause::P2l]) / self.data()
    }
}

struct Runs<'a> {
    kernel: &'a Kernel,
    options: &'a Options,
    size: Size,
    capacity: Capacity,
}

/// Capacity of an empty F2FS in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Capacity {
    offered: u64,
    /// Bytes writable before cleaning: all segments except those reserved for it.
    until_cleaning: u64,
}

const SEGMENT_BYTES: u64 = 2 << 20;

impl Capacity {
    fn of(kernel: &Kernel, experiment: &Experiment) -> Result<Self, PaperError> {
        let script = "stat -f -c '%a %S' . && cat /sys/kernel/debug/f2fs/status";
        let task = Task {
            name: "capacity of F2FS".into(),
            file_system: FileSystem::F2fs,
            mkfs_options: Vec::new(),
            mount_options: Mode::NlRw.mount_options().into(),
            setup: Vec::new(),
            command: ["sh", "-c", script].map(str::to_owned).into(),
            disk: DiskOptions::default(),
            memory_mib: 256,
            ageing: None,
        };
        let (_, said) = guest::run(kernel, &task, experiment, None, |_| ())?;
        Self::parse(&said).ok_or_else(|| PaperError::Guest {
            run: task.name,
            error: Box::new(LinuxRunError::Step(format!("F2FS says {}", said.trim_end()))),
        })
    }

    /// Parses "93952 4096" and a line with "[MAIN: 469(OverProv:71 Resv:50)]".
    fn parse(said: &str) -> Option<Self> {
        let (blocks, bytes) = said.lines().next()?.split_once(' ')?;
        let number = |from: &str| {
            let (_, rest) = said.split_once(from)?;
            let digits = rest.trim_start();
            digits[..digits.find(|c: char| !c.is_ascii_digit())?].parse::<u64>().ok()
        };
        Some(Self {
            offered: blocks.parse::<u64>().ok()? * bytes.parse::<u64>().ok()?,
            until_cleaning: number("MAIN:")?.checked_sub(number("Resv:")?)? * SEGMENT_BYTES,
        })
    }
}

impl Runs<'_> {
    fn task(&self, case: &Case, name: &str, setup: Vec<Step>, command: Vec<String>) -> Task {
        let mode = case.mode;
        Task {
            name: format!("{} on {}", name, mode.name()),
            file_system: mode.file_system(),
            mkfs_options: Vec::new(),
            mount_options: mode.mount_options().into(),
            setup: mode.switch().into_iter().chain(setup).collect(),
            command,
            disk: DiskOptions::default(),
            memory_mib: case.memory_mib,
            ageing: None,
        }
    }

    fn workload(&self, program: &str, settings: &[(&str, String)], folder: &str) -> Vec<String> {
        guest::workload(program, settings, folder, self.options.seed)
    }

    /// Bytes of the benchmark's files.
    fn footprint(&self, program: Program) -> u64 {
        let mib = match program {
            // Four files of 25 MiB.
            Program::Tiobench => 100,
            // The archive and its unpacked contents.
            Program::CopyTar => 2 * 150,
            Program::Varmail => 2000 * 16 / 1024,
            // Debian's load: about 25 MiB per client.
            Program::Dbench => return 25 * (u64::from(self.size.dbench_clients) << 20),
        };
        (mib << 20) / self.size.divisor
    }

    /// Bytes of u reserved for the benchmark's files.
    fn bytes_outside(&self, case: &Case) -> u64 {
        if case.counted == Counted::All { self.footprint(case.program) } else { 0 }
    }

    fn age(&self, case: &Case, experiment: &Experiment) -> Result<Aged, PaperError> {
        let fill = case.fill;
        let block = 16_384;
        let bytes_outside = self.bytes_outside(case);
        let full = (self.capacity.offered as f64 * fill) as u64;
        let file = full.saturating_sub(bytes_outside) / AGEING_FILES / block * block;
        // Every update takes a new place in the log. After the last one, cleaning is about to start.
        let updates = self.capacity.until_cleaning.saturating_sub(file * AGEING_FILES);
        let settings = [
            ("files", AGEING_FILES.to_string()),
            ("file_bytes", file.to_string()),
            ("update_bytes", updates.to_string()),
        ];
        let name = format!("ageing to {fill}");
        let task = self.task(case, &name, Vec::new(), self.workload("ageing", &settings, "age"));
        Ok(Aged::of(guest::run(self.kernel, &task, experiment, None, |_| ())?.0))
    }

    fn bench(&self, case: &Case, experiment: &Experiment, drive: Aged) -> Result<Measured, PaperError> {
        let (size, Case { fill, program, .. }) = (&self.size, *case);
        let mut setup = Vec::new();
        let command = match program {
            Program::Tiobench => {
                let file = ("file_bytes", size.bytes(100));
                let make = [file.clone(), ("random_write_bytes", "0".into())];
                setup.push(Run::must_succeed(self.workload("tiobench", &make, "tio")));
                let update = [file, ("random_write_bytes", size.bytes(25)), ("fill", "false".into())];
                self.workload("tiobench", &update, "tio")
            }
            Program::CopyTar => self.workload("copy-tar", &[("archive_bytes", size.bytes(150))], "tar"),
            Program::Varmail => {
                let files = (2000 / size.divisor).to_string();
                let steps = (16_000 / size.divisor).to_string();
                self.workload(
                    "varmail",
                    &[("files", files), ("flows", "16".into()), ("steps", steps)],
                    "mail",
                )
            }
            Program::Dbench => {
                let (time, clients) = (size.dbench_seconds.to_string(), size.dbench_clients.to_string());
                ["dbench", "-D", ".", "-c", DBENCH_LOAD, "-t", &time, &clients].map(str::to_owned).into()
            }
        };
        setup.push(Step::DropCaches);
        let name = format!("{} at {fill}", program.name());
        let task = self.task(case, &name, setup, command);
        let (outcome, said) = guest::run(self.kernel, &task, experiment, Some(drive), |_| ())?;
        let (begin, end) = window(&outcome).ok_or(PaperError::Interrupted)?;
        let stats = end.stats.since(&begin.stats);
        let seconds = (end.at_ns - begin.at_ns) as f64 / 1e9;
        // dbench runs for a fixed time, the others to completion.
        let (speed, work) = match program {
            Program::Dbench => {
                let rate = throughput(&said).unwrap_or(0.0);
                (rate, rate * f64::from(size.dbench_seconds))
            }
            _ => (1.0 / seconds, 1.0),
        };
        Ok(Measured {
            speed,
            work,
            programs: Cause::ALL.iter().map(|&cause| stats.nand.get(NandOp::Program, cause)).collect(),
            copied: stats.copies.logical_units,
            page_bytes: outcome.drive.geometry().page_bytes(),
        })
    }
}

/// Parses "Throughput 60.79 MB/sec  2 clients ...".
fn throughput(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Throughput "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[derive(Debug)]
pub(super) struct Results {
    measured: Vec<(Case, Measured)>,
    /// Command times that were run: the preset's and the inferred one, or only the user's.
    pub(super) commands_us: Vec<u32>,
    pub(super) missing: &'static str,
}

impl Results {
    pub(super) fn find(&self, case: Case) -> Option<&Measured> {
        self.measured.iter().find(|(of, _)| *of == case).map(|(_, measured)| measured)
    }

    pub(super) fn has_inferred_time(&self) -> bool {
        self.commands_us.contains(&INFERRED_US)
    }

    /// Mean time of `theirs` over `ours` on all hosts.
    pub(super) fn over(&self, ours: Case, theirs: Case) -> Option<Ratio> {
        let times = |case: Case| {
            let times = case.hosts().map(|case| Some(1.0 / self.find(case)?.speed));
            times.into_iter().collect::<Option<Vec<f64>>>()
        };
        Some(Ratio::of(&times(theirs)?, &times(ours)?))
    }
}

pub(super) fn measured(options: &Options, bench: &Bench<'_>) -> Result<(Results, Vec<String>), PaperError> {
    let inferred = (!command_is_set(options)).then_some(INFERRED_US);
    let commands_us: Vec<u32> = [COMMAND_US].into_iter().chain(inferred).collect();
    let nothing = |missing| Results { measured: Vec::new(), commands_us: commands_us.clone(), missing };
    if options.scale == Scale::Tiny {
        let missing = "needs a kernel, and is not part of TINY";
        return Ok((nothing(missing), vec![format!("figures 3 and 4: {missing}")]));
    }
    let kernel = match Kernel::find(options, bench.watch) {
        Ok(kernel) => kernel,
        Err(missing) => return Ok((nothing(missing), vec![format!("figures 3 and 4: {missing}")])),
    };
    let experiment = |command_us: u32| {
        let board = |drive: &mut DriveConfig| {
            // All modes use the same drive.
            drive.ftl.copy_mode = CopyMode::Logical;
            drive.controller.command_ns = u64::from(command_us) * 1000;
            if options.scale != Scale::Full {
                (drive.ftl.logical_pages, drive.nand.blocks_per_plane) = (Some(262_144), 140);
            }
        };
        guest::experiment(SHIPPED.preset, board, options)
    };
    let capacity = Capacity::of(&kernel, &experiment(COMMAND_US)?)?;
    let runs = Runs { kernel: &kernel, options, size: Size::of(options.scale), capacity };
    let groups = Case::all(&commands_us);
    let points: Vec<_> = groups
        .iter()
        .map(|group| {
            Ok((
                group,
                runs.bytes_outside(&group[0]),
                experiment(group[0].command_us)?.config_hash(),
                kernel.version(),
                options.seed,
                options.scale,
            ))
        })
        .collect::<Result<_, PaperError>>()?;
    // A point ages a file system once; all cases of its group run on frozen copies of that drive.
    let taken = bench.points("logical-copy-kernel", &points, |(group, ..)| {
        let experiment = experiment(group[0].command_us)?;
        let aged = runs.age(&group[0], &experiment)?;
        group.iter().map(|case| runs.bench(case, &experiment, aged.freeze())).collect::<Result<Vec<_>, _>>()
    })?;
    let measured = groups.iter().flatten().copied().zip(taken.into_iter().flatten()).collect();
    Ok((Results { measured, commands_us, missing: "" }, notes(&kernel, options.scale)))
}

fn notes(kernel: &Kernel, scale: Scale) -> Vec<String> {
    let mut notes = vec![format!(
        "figures 3 and 4: ext4 and F2FS of Linux {} in virtual time, with this project's patches for logical copy. They are \
         aged with 1000 files and updates of 16 KB, up to the point where F2FS must clean (ext4 gets the same number). \
         ORG is mode=adaptive, NL-RW mode=lfs, NL-LC mode=lfs with gc_logical_copy. The guest's processor takes no \
         time, so the drive's time remains. EXT4 and F2FS send discards. Tiobench: 25 MB of random \
         updates in 100 MB; Copy&tar: 150 MB; Varmail: 2000 files, 16 flows; Dbench: Debian's load, 8 clients",
        kernel.version()
    )];
    match scale {
        Scale::Full => {}
        Scale::Quick => {
            notes.push("figures 3 and 4: a quarter of the drive and of the work, one client".into())
        }
        Scale::Tiny => notes.push("figures 3 and 4: TINY, these numbers are meaningless".into()),
    }
    notes
}

#[cfg(test)]
impl Results {
    pub(super) fn made_up(commands_us: &[u32], speed: impl Fn(Case) -> f64) -> Self {
        let of = |case| Measured {
            speed: speed(case),
            work: 1.0,
            programs: vec![1; Cause::ALL.len()],
            copied: 1,
            page_bytes: 8192,
        };
        let measured = Case::all(commands_us).into_iter().flatten().map(|case| (case, of(case))).collect();
        Self { measured, commands_us: commands_us.to_vec(), missing: "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_f2fs_says_of_itself_is_understood() {
        let said = "93952 4096\n=====[ partition info(vda). #0, RW]=====\n[SB: 1] [CP: 2] [SIT: 2] [NAT: 4] [SSA: 1] \
                    [MAIN: 469(OverProv:71 Resv:50)]\n";
        let capacity = Capacity { offered: 93_952 * 4096, until_cleaning: 419 * SEGMENT_BYTES };
        assert_eq!(Capacity::parse(said), Some(capacity));
        assert_eq!(Capacity::parse("no such file"), None);
        assert_eq!(Capacity::parse("1 4096\n[MAIN: 2(OverProv:1 Resv:3)]"), None);
    }

    #[test]
    fn the_last_line_of_dbench_is_understood() {
        let said = "  2  running\n\nThroughput 60.7926 MB/sec  2 clients  2 procs  max_latency=1302.319 ms\n";
        assert_eq!(throughput(said), Some(60.7926));
        assert_eq!(throughput("failed"), None);
    }
}
