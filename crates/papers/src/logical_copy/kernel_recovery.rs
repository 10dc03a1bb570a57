//! The paper's figure 2 with its file system: F2FS on a kernel, with power cuts at the moments C1 to C4.
//!
//! 1. Write files interleaved with others, remove the others: segments are half full. Write a checkpoint.
//! 2. Clean F2FS by logical copy (C1 before, C2 after), write a file that opens new blocks on all banks (C3),
//!    and sync, which writes a checkpoint (C4). Freeze the drive at each moment.
//! 3. Restart each frozen drive as after a power cut. A guest mounts it, reads every file, and reports the
//!    places of their blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use strobe_lab::Experiment;
use strobe_linux::command::LinuxRunError;
use strobe_linux::job::{Run, Sample, Step};
use strobe_linux::{DiskOptions, Watch};
use strobe_ssd::{Command, CopyMode, DriveConfig, Simulated};
use strobe_types::SimTime;

use super::cases::Mode;
use super::{CLAIMS, SHIPPED};
use crate::guest::{self, Aged, Kernel, Task};
use crate::pool::Bench;
use crate::table::Values;
use crate::{Claim, Figure, Options, PaperError, Row, Scale, View};

/// Number of files, each of 64 KiB.
const FILES: u32 = 160;
const MOMENTS: [&str; 4] = ["C1", "C2", "C3", "C4"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    moment: String,
    /// Files missing or with wrong contents.
    lost: f64,
    moved: f64,
    /// Share of the moved files found at their copies after the restart, in percent.
    at_copies: f64,
}

/// Sets `all` to the numbers of the files and `content` to a function that prints a file's contents.
const NAMES: &str = "all=$(seq 1 $FILES); content() { yes \"file $1\" | head -c 65536; }\n";
const PLACES: &str = "for i in $all; do \
                      echo place $i $(filefrag -v f$i 2>/dev/null | awk '$1 == \"0:\" { print $4; exit }'); done\n";
const MAKE: &str = "for i in $all; do content $i > f$i; content x > x$i; done; sync; rm x*; sync\n";
/// Cleans eight segments, one per call, by F2FS_IOC_GARBAGE_COLLECT; the `f2fs_io` of some distributions lacks
/// it.
const CLEAN: &str = "for i in 1 2 3 4 5 6 7 8; do perl -e \
                     'open(F, \"<f1\") or die; $sync = pack(\"I\", 1); ioctl(F, 0x4004f506, $sync) or die $!' || exit 1; \
                     done\n";
/// Writes past the page cache, enough to open a block on every bank.
const WRITE: &str = "dd if=/dev/zero of=w3 bs=1M count=32 oflag=direct 2> /dev/null\n";
const CHECK: &str = "for i in $all; do content $i | cmp -s - f$i || echo lost $i; done\n";

fn script(parts: &[&str]) -> Vec<String> {
    let text = format!("FILES={FILES}\n{NAMES}{}", parts.concat());
    ["sh", "-c", &text].map(str::to_owned).into()
}

type Frozen = Arc<Mutex<BTreeMap<String, (SimTime, Box<dyn Simulated>)>>>;

struct Freezer(Frozen);

impl Watch for Freezer {
    fn due(&self) -> SimTime {
        SimTime::from_ns(u64::MAX)
    }

    fn observe(&mut self, _: &dyn Simulated) {}

    fn sent(&mut self, _: SimTime, _: u64, _: &[Command<'_>]) {}

    fn complete(&mut self, _: SimTime, _: u64, _: bool) {}

    fn mark(&mut self, now: SimTime, name: &str, drive: &dyn Simulated) {
        if MOMENTS.contains(&name) {
            let mut frozen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            frozen.insert(name.to_owned(), (now, drive.freeze()));
        }
    }

    fn sample(&mut self, _: SimTime, _: &Sample) {}
}

/// Parses the output of [`PLACES`]: the first block of each file.
fn places(said: &str) -> BTreeMap<u32, String> {
    let place = |line: &str| {
        let (number, block) = line.strip_prefix("place ")?.split_once(' ')?;
        Some((number.parse().ok()?, block.to_owned()))
    };
    said.lines().filter_map(place).collect()
}

fn task(name: &str, setup: Vec<Step>, command: Vec<String>) -> Task {
    Task {
        name: name.to_owned(),
        file_system: Mode::NlLc.file_system(),
        mkfs_options: Vec::new(),
        mount_options: format!("{},background_gc=off", Mode::NlLc.mount_options()),
        setup: Mode::NlLc.switch().into_iter().chain(setup).collect(),
        command,
        disk: DiskOptions::default(),
        memory_mib: 512,
        ageing: None,
    }
}

fn measure(kernel: &Kernel, experiment: &Experiment) -> Result<Vec<Found>, PaperError> {
    let frozen = Frozen::default();
    let mark = |name: &str| Step::Mark(name.to_owned());
    let setup = vec![
        Run::must_succeed(script(&[MAKE, "echo before\n", PLACES])),
        mark("C1"),
        Run::must_succeed(script(&[CLEAN])),
        mark("C2"),
        Run::must_succeed(script(&[WRITE])),
        mark("C3"),
        Step::Sync,
        mark("C4"),
    ];
    let work = task("F2FS that cleans by logical copy", setup, script(&["echo behind\n", PLACES]));
    let watch = Box::new(Freezer(Arc::clone(&frozen)));
    let (_, said) = guest::run(kernel, &work, experiment, None, |drive| drive.watch = Some(watch))?;
    // Files whose first block changed between both lists were moved by cleaning.
    let (before, behind) = said.split_once("behind\n").unwrap_or((&said, ""));
    let (before, behind) = (places(before), places(behind));
    let moved: Vec<u32> =
        before.iter().filter(|(i, at)| behind.get(i) != Some(at)).map(|(&i, _)| i).collect();
    let frozen = std::mem::take(&mut *frozen.lock().unwrap_or_else(PoisonError::into_inner));
    frozen
        .into_iter()
        .map(|(moment, (now, drive))| {
            let name = format!("F2FS after a cut at {moment}");
            let (drive, recovery) = drive.restart(now).map_err(|error| PaperError::Guest {
                run: name.clone(),
                error: Box::new(LinuxRunError::Step(error.to_string())),
            })?;
            let look = task(&name, Vec::new(), script(&[CHECK, PLACES]));
            let drive = Aged { drive, at: recovery.finished };
            let (_, said) = guest::run(kernel, &look, experiment, Some(drive), |_| ())?;
            let found = places(&said);
            let at_copies = moved.iter().filter(|i| found.get(i) == behind.get(i)).count();
            Ok(Found {
                moment,
                lost: said.lines().filter(|line| line.starts_with("lost ")).count() as f64,
                moved: moved.len() as f64,
                at_copies: 100.0 * at_copies as f64 / moved.len() as f64,
            })
        })
        .collect()
}

/// Findings at each moment; empty without a kernel.
pub(super) fn measured(options: &Options, bench: &Bench<'_>) -> Result<Vec<Found>, PaperError> {
    if options.scale == Scale::Tiny {
        return Ok(Vec::new());
    }
    let Ok(kernel) = Kernel::find(options, bench.watch) else { return Ok(Vec::new()) };
    let small = |drive: &mut DriveConfig| {
        drive.ftl.copy_mode = CopyMode::Logical;
        (drive.ftl.logical_pages, drive.nand.blocks_per_plane) = (Some(131_072), 75);
    };
    let experiment = guest::experiment(SHIPPED.preset, small, options)?;
    let point = (experiment.config_hash(), kernel.version(), options.seed);
    let found = bench.points("logical-copy-kernel-recovery", &[point], |_| measure(&kernel, &experiment))?;
    Ok(found.into_iter().flatten().collect())
}

pub(super) fn figure(found: &[Found]) -> Option<Figure> {
    let mut rows = Vec::new();
    for of in found {
        for (quantity, unit, value) in [
            ("files lost", "files", of.lost),
            ("files moved by cleaning", "files", of.moved),
            ("moved files found at their copies", "%", of.at_copies),
        ] {
            rows.push(Row::new(
                &[("quantity", quantity), ("power cut", &of.moment), ("unit", unit)],
                Some(value),
            ));
        }
    }
    let figure = Figure::new(
        "2-f2fs",
        format!("{FILES} files on F2FS with cleaning by logical copy, after a power cut"),
        View::Table { down: &["power cut"], across: "quantity" },
        rows,
    );
    (!found.is_empty()).then_some(figure)
}

pub(super) fn claims(found: &[Found]) -> Vec<Claim> {
    let of = |moment: &str| found.iter().find(|found| found.moment == moment);
    let before = MOMENTS[..3].iter().filter_map(|moment| of(moment));
    let mut values = Values::default();
    values.add("power-cut-f2fs", found.iter().map(|of| of.lost).reduce(f64::max));
    values.add("power-cut-f2fs-before", before.map(|of| of.at_copies).reduce(f64::max));
    values.add("power-cut-f2fs-c4", of("C4").map(|of| of.at_copies));
    values.judged(CLAIMS, "needs a kernel")
}
