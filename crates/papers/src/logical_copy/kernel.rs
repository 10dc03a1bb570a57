//! Figures 3 and 4: ext4 and F2FS of a real kernel, after ageing, under four benchmarks.

use strobe_lab::Experiment;
use strobe_lab::linux::{FileSystem, LinuxRunError, window};
use strobe_linux::DiskOptions;
use strobe_linux::job::{Run, Step};
use strobe_nand::{Cause, NandOp, OpCounts};
use strobe_ssd::{CopyMode, DriveConfig};
use strobe_types::named;

use crate::figure::reduced;
use crate::guest::{self, Aged, Kernel, NO_KERNEL, Task};
use crate::{Figure, Options, PaperError, Row, Scale, View, Watch, pool};

named! {
    /// A file system, and how it makes room.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Mode {
        Ext4 => "EXT4",
        /// F2FS as it comes: it fills holes in old segments rather than clean them.
        Org => "ORG",
        /// F2FS that only writes to clean segments, and cleans by reading and writing.
        NlRw => "NL-RW",
        /// The same, cleaning by logical copy.
        NlLc => "NL-LC",
    }
}

impl Mode {
    fn file_system(self) -> FileSystem {
        if self == Mode::Ext4 { FileSystem::Ext4 } else { FileSystem::F2fs }
    }

    fn mount_options(self) -> &'static str {
        match self {
            Mode::Ext4 => "discard",
            Mode::Org => "mode=adaptive",
            Mode::NlRw | Mode::NlLc => "mode=lfs",
        }
    }

    /// Switches cleaning over.
    fn switch(self) -> Option<Step> {
        let value = match self {
            Mode::Ext4 => return None,
            Mode::Org | Mode::NlRw => "0",
            Mode::NlLc => "1",
        };
        Some(Step::Set { path: "/sys/fs/f2fs/vda/gc_logical_copy".into(), value: value.into() })
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Bench {
        Tiobench => "Tiobench",
        CopyTar => "Copy&tar",
        Varmail => "Varmail",
        Dbench => "Dbench",
    }
}

/// Share of the file system that the ageing files take: of what an empty F2FS offers, as `df` has it. ext4 gets the
/// same files. F2FS keeps a part of the drive to itself, a larger one the smaller the drive is.
const UTILISATIONS: [f64; 4] = [0.5, 0.6, 0.7, 0.8];
/// The one at which the bands hold.
const JUDGED: f64 = 0.8;
/// Runs without any cleaning differ by so much, as requests come a little earlier or later: the least ratio that is
/// no loss.
const EQUAL: f64 = 0.98;
/// Files of the ageing.
const AGEING_FILES: u64 = 1000;
/// Where Debian's dbench has its load.
const DBENCH_LOAD: &str = "/usr/share/dbench/client.txt";

/// How much of everything.
struct Size {
    /// The benchmarks do so many times less.
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

/// What a benchmark came to.
#[derive(Clone, Debug)]
struct Measured {
    mode: Mode,
    utilisation: f64,
    bench: Bench,
    /// Performance: megabytes per second for Dbench, runs per second for the others.
    speed: f64,
    /// What was done, in units of `speed` times seconds.
    work: f64,
    nand: OpCounts,
    /// Blocks that the drive copied by its map alone.
    copied: u64,
    page_mb: f64,
}

impl Measured {
    /// Megabytes programmed for these causes, per unit of work.
    fn written(&self, causes: &[Cause]) -> f64 {
        let pages: u64 = causes.iter().map(|&cause| self.nand.get(NandOp::Program, cause)).sum();
        pages as f64 * self.page_mb / self.work
    }

    fn all_written(&self) -> f64 {
        self.nand.total(NandOp::Program) as f64 * self.page_mb / self.work
    }
}

struct Runs<'a> {
    kernel: &'a Kernel,
    options: &'a Options,
    experiment: Experiment,
    size: Size,
    room: Room,
}

/// What an empty F2FS has room for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// What it offers to users.
    offered: u64,
    /// What it writes to before it has to clean: all but the segments that it keeps for cleaning.
    until_cleaning: u64,
}

const SEGMENT_BYTES: u64 = 2 << 20;

impl Room {
    /// Asks it.
    fn of(kernel: &Kernel, experiment: &Experiment) -> Result<Self, PaperError> {
        let script = "stat -f -c '%a %S' . && cat /sys/kernel/debug/f2fs/status";
        let task = Task {
            name: "the room of F2FS".into(),
            file_system: FileSystem::F2fs,
            mkfs_options: Vec::new(),
            mount_options: Mode::NlRw.mount_options().into(),
            setup: Vec::new(),
            command: ["sh", "-c", script].map(str::to_owned).into(),
            disk: DiskOptions::default(),
            memory_mib: 256,
        };
        let (_, said) = guest::run(kernel, &task, experiment, None, None)?;
        Self::parse(&said).ok_or_else(|| PaperError::Guest {
            run: task.name,
            error: Box::new(LinuxRunError::Step(format!("F2FS says {}", said.trim_end()))),
        })
    }

    /// "93952 4096", and a line with "[MAIN: 469(OverProv:71 Resv:50)]".
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
    fn task(&self, mode: Mode, name: &str, setup: Vec<Step>, command: Vec<String>) -> Task {
        Task {
            name: format!("{} on {}", name, mode.name()),
            file_system: mode.file_system(),
            mkfs_options: Vec::new(),
            mount_options: mode.mount_options().into(),
            setup: mode.switch().into_iter().chain(setup).collect(),
            command,
            disk: DiskOptions::default(),
            memory_mib: 512,
        }
    }

    fn workload(&self, program: &str, settings: &[(&str, String)], folder: &str) -> Vec<String> {
        guest::workload(program, settings, folder, self.options.seed)
    }

    fn age(&self, mode: Mode, utilisation: f64) -> Result<Aged, PaperError> {
        let block = 16_384;
        let file = (self.room.offered as f64 * utilisation) as u64 / AGEING_FILES / block * block;
        // Every update goes to a new place: with the last of these, cleaning is about to begin.
        let updates = self.room.until_cleaning.saturating_sub(file * AGEING_FILES);
        let settings = [
            ("files", AGEING_FILES.to_string()),
            ("file_bytes", file.to_string()),
            ("update_bytes", updates.to_string()),
        ];
        let name = format!("ageing to {utilisation}");
        let task = self.task(mode, &name, Vec::new(), self.workload("ageing", &settings, "age"));
        Ok(Aged::of(guest::run(self.kernel, &task, &self.experiment, None, None)?.0))
    }

    fn bench(&self, mode: Mode, utilisation: f64, bench: Bench, drive: Aged) -> Result<Measured, PaperError> {
        let size = &self.size;
        let mut setup = Vec::new();
        let command = match bench {
            Bench::Tiobench => {
                let file = ("file_bytes", size.bytes(100));
                let make = [file.clone(), ("random_write_bytes", "0".into())];
                setup.push(Run::must_succeed(self.workload("tiobench", &make, "tio")));
                let update = [file, ("random_write_bytes", size.bytes(25)), ("fill", "false".into())];
                self.workload("tiobench", &update, "tio")
            }
            Bench::CopyTar => self.workload("copy-tar", &[("archive_bytes", size.bytes(150))], "tar"),
            Bench::Varmail => {
                let files = (2000 / size.divisor).to_string();
                let steps = (16_000 / size.divisor).to_string();
                self.workload(
                    "varmail",
                    &[("files", files), ("flows", "16".into()), ("steps", steps)],
                    "mail",
                )
            }
            Bench::Dbench => {
                let (time, clients) = (size.dbench_seconds.to_string(), size.dbench_clients.to_string());
                ["dbench", "-D", ".", "-c", DBENCH_LOAD, "-t", &time, &clients].map(str::to_owned).into()
            }
        };
        setup.push(Step::DropCaches);
        let name = format!("{} at {utilisation}", bench.name());
        let task = self.task(mode, &name, setup, command);
        let (outcome, said) = guest::run(self.kernel, &task, &self.experiment, Some(drive), None)?;
        let (begin, end) = window(&outcome).ok_or(PaperError::Interrupted)?;
        let stats = end.stats.since(&begin.stats);
        let seconds = (end.at_ns - begin.at_ns) as f64 / 1e9;
        // dbench runs for a time, the others until they are done.
        let (speed, work) = match bench {
            Bench::Dbench => {
                let rate = throughput(&said).unwrap_or(0.0);
                (rate, rate * f64::from(size.dbench_seconds))
            }
            _ => (1.0 / seconds, 1.0),
        };
        Ok(Measured {
            mode,
            utilisation,
            bench,
            speed,
            work,
            nand: stats.nand,
            copied: stats.copies.logical_units,
            page_mb: f64::from(outcome.drive.geometry().page_bytes()) / 1e6,
        })
    }
}

/// "Throughput 60.79 MB/sec  2 clients ..."
fn throughput(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Throughput "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Figures 3 and 4, and what holds for them.
pub(super) fn figures(
    options: &Options,
    watch: &dyn Watch,
) -> Result<(Vec<Figure>, Vec<String>), PaperError> {
    if options.scale == Scale::Tiny {
        return Ok((Vec::new(), vec!["figures 3 and 4 need a kernel, and are not part of TINY".to_owned()]));
    }
    let Some(kernel) = Kernel::find() else {
        return Ok((draw(&[]), vec![format!("figures 3 and 4 are not measured: {NO_KERNEL}")]));
    };
    let size = Size::of(options.scale);
    let board = |drive: &mut DriveConfig| {
        // All modes have the same drive.
        drive.ftl.copy_mode = CopyMode::Logical;
        if options.scale != Scale::Full {
            (drive.ftl.logical_pages, drive.nand.blocks_per_plane) = (Some(262_144), 140);
        }
    };
    let experiment = guest::experiment("jasmine-4g", board, options)?;
    let room = Room::of(&kernel, &experiment)?;
    let runs = Runs { kernel: &kernel, options, experiment, size, room };
    let mut drives = Vec::new();
    for utilisation in UTILISATIONS.into_iter().rev() {
        drives.extend(Mode::ALL.map(|mode| (mode, utilisation)));
    }
    let measured = pool::in_parallel(&drives, watch, |&(mode, utilisation)| {
        let aged = runs.age(mode, utilisation)?;
        Bench::ALL.iter().map(|&bench| runs.bench(mode, utilisation, bench, aged.freeze())).collect()
    })?;
    let measured: Vec<Measured> = measured.into_iter().flat_map(|of: Vec<_>| of).collect();
    Ok((draw(&measured), notes(&kernel, options.scale)))
}

fn notes(kernel: &Kernel, scale: Scale) -> Vec<String> {
    let mut notes = vec![format!(
        "figures 3 and 4: ext4 and F2FS of Linux {} in virtual time, with this project's patches for logical copy; aged \
         with 1000 files and updates of 16 KB, as many as F2FS takes before it has to clean (ext4 gets as many). \
         ORG is mode=adaptive, NL-RW mode=lfs, NL-LC mode=lfs with gc_logical_copy. The guest's processor takes no \
         time, so what is left is what the drive takes. EXT4 and F2FS send discards. Tiobench: 25 MB of random \
         updates in 100 MB; Copy&tar: 150 MB; Varmail: 2000 files, 16 flows; Dbench: Debian's load, 8 clients",
        kernel.version()
    )];
    match scale {
        Scale::Full => {}
        Scale::Quick => {
            notes.push("figures 3 and 4: a quarter of the drive and of the work, one client".into())
        }
        Scale::Tiny => notes.push("figures 3 and 4: TINY, too little to mean anything".into()),
    }
    notes
}

const WHY: &str = "a kernel ten years younger, and a host whose processor is free; a benchmark's own files come on top of u \
     (Copy&tar: three times 150 MB, Dbench: those of 8 clients), and there segments that are cleaned by reads and writes \
     are nearly full. ORG is at no loss with small writes here: they fill the dies as well as large ones";

fn draw(measured: &[Measured]) -> Vec<Figure> {
    let why = if measured.is_empty() { NO_KERNEL } else { WHY };
    let find = |bench, mode, utilisation| {
        measured.iter().find(|of| (of.bench, of.mode, of.utilisation) == (bench, mode, utilisation))
    };
    let (mut speed, mut writes) = (Vec::new(), Vec::new());
    for bench in Bench::ALL {
        for mode in Mode::ALL {
            for utilisation in UTILISATIONS {
                let of = find(bench, mode, utilisation);
                let u = utilisation.to_string();
                let unit = if bench == Bench::Dbench { "MB/s" } else { "runs/s" };
                let at = |unit| {
                    [("benchmark", bench.name()), ("mode", mode.name()), ("unit", unit), ("u", u.as_str())]
                };
                speed.push(Row::shown(&at(unit), of.map(|of| of.speed)));
                let unit = if bench == Bench::Dbench { "MB/MB" } else { "MB" };
                for (what, causes) in [
                    ("data", &[Cause::Host, Cause::Pad][..]),
                    ("drive's own collection", &[Cause::Gc, Cause::Copy, Cause::Wear, Cause::Recovery][..]),
                    ("map and journal", &[Cause::Map, Cause::Meta][..]),
                ] {
                    let mut row = Row::shown(&at(unit), of.map(|of| of.written(causes)));
                    row.at.insert("cause".into(), what.into());
                    writes.push(row);
                }
                if mode == Mode::NlLc {
                    let mut row =
                        Row::shown(&at("MB copied by the map"), of.map(|of| of.copied as f64 * 4096e-6));
                    row.at.insert("cause".into(), "logical copy".into());
                    writes.push(row);
                }
            }
        }
    }
    let faster = |bench, over, utilisation| {
        Some(find(bench, Mode::NlLc, utilisation)?.speed / find(bench, over, utilisation)?.speed)
    };
    let claim = |bench: Bench, claim, unit| [("benchmark", bench.name()), ("claim", claim), ("unit", unit)];
    for (bench, paper, band) in [
        (Bench::Tiobench, 3.0, [Some(2.0), Some(5.0)]),
        (Bench::CopyTar, 2.8, [Some(2.0), Some(3.5)]),
        (Bench::Varmail, 1.3, [Some(1.1), Some(1.8)]),
        (Bench::Dbench, 1.5, [Some(1.1), Some(1.8)]),
    ] {
        let all = UTILISATIONS.map(|u| faster(bench, Mode::NlRw, u));
        let at = claim(bench, "NL-LC over NL-RW at u = 0.8", "times");
        speed.push(Row::judged(&at, Some(paper), faster(bench, Mode::NlRw, JUDGED), band).because(why));
        let at = claim(bench, "NL-LC over NL-RW, the least of all u", "times");
        speed.push(Row::judged(&at, None, reduced(all, f64::min), [Some(EQUAL), None]).because(why));
    }
    let grows = faster(Bench::Tiobench, Mode::NlRw, JUDGED)
        .zip(faster(Bench::Tiobench, Mode::NlRw, UTILISATIONS[0]))
        .map(|(high, low)| high / low);
    let at = claim(Bench::Tiobench, "that ratio at u = 0.8 over that at 0.5", "times");
    speed.push(Row::judged(&at, None, grows, [Some(1.0), None]).because(why));
    let at = claim(Bench::CopyTar, "NL-LC over ORG at u = 0.8", "times");
    let over_org = faster(Bench::CopyTar, Mode::Org, JUDGED);
    speed.push(Row::judged(&at, Some(1.2), over_org, [Some(1.0), Some(2.0)]).because(why));
    let at = claim(Bench::CopyTar, "EXT4 over the fastest F2FS at u = 0.8", "times");
    let f2fs =
        [Mode::Org, Mode::NlRw, Mode::NlLc].map(|mode| Some(find(Bench::CopyTar, mode, JUDGED)?.speed));
    let fastest = reduced(f2fs, f64::max);
    let ext4 = find(Bench::CopyTar, Mode::Ext4, JUDGED).zip(fastest).map(|(ext4, f2fs)| ext4.speed / f2fs);
    speed.push(Row::judged(&at, None, ext4, [Some(1.0), None]).because(why));
    let change = |bench| {
        let (copied, written) = (find(bench, Mode::NlLc, JUDGED)?, find(bench, Mode::NlRw, JUDGED)?);
        Some(100.0 * (copied.all_written() / written.all_written() - 1.0))
    };
    for bench in Bench::ALL {
        let at = claim(bench, "flash writes, NL-LC against NL-RW, at u = 0.8", "%");
        writes.push(Row::shown(&at, change(bench)));
    }
    // The paper's "up to 80 %" is about these two.
    let most = [Bench::Tiobench, Bench::CopyTar].into_iter().filter_map(change).reduce(f64::min);
    let at =
        [("claim", "flash writes, NL-LC against NL-RW, the most of Tiobench and Copy&tar"), ("unit", "%")];
    writes.push(Row::judged(&at, Some(-80.0), most, [Some(-85.0), Some(-60.0)]).because(why));
    vec![
        Figure::new(
            "3",
            "performance after ageing",
            View::Table { down: &["benchmark", "mode", "unit"], across: "u" },
            speed,
        )
        .noted("u: share of what an empty F2FS offers that the ageing files take"),
        Figure::new(
            "4",
            "flash writes by cause",
            View::Table { down: &["benchmark", "mode", "cause", "unit"], across: "u" },
            writes,
        )
        .noted("MB programmed per run; of Dbench per MB that it moves"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_f2fs_says_of_itself_is_understood() {
        let said = "93952 4096\n=====[ partition info(vda). #0, RW]=====\n[SB: 1] [CP: 2] [SIT: 2] [NAT: 4] [SSA: 1] \
                    [MAIN: 469(OverProv:71 Resv:50)]\n";
        let room = Room { offered: 93_952 * 4096, until_cleaning: 419 * SEGMENT_BYTES };
        assert_eq!(Room::parse(said), Some(room));
        assert_eq!(Room::parse("no such file"), None);
        assert_eq!(Room::parse("1 4096\n[MAIN: 2(OverProv:1 Resv:3)]"), None);
    }

    #[test]
    fn the_last_line_of_dbench_is_understood() {
        let said = "  2  running\n\nThroughput 60.7926 MB/sec  2 clients  2 procs  max_latency=1302.319 ms\n";
        assert_eq!(throughput(said), Some(60.7926));
        assert_eq!(throughput("failed"), None);
    }
}
