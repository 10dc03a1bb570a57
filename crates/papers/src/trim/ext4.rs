//! Gain of ext4: PostMark and file deletion on a real kernel.
//!
//! 1. Measure deletions at several removal times of the host, and fit that time to the paper (`removal`).
//! 2. Run all cases with the fitted time, each several times if its result varies.

use serde::{Deserialize, Serialize};
use strobe_lab::Experiment;
use strobe_linux::DiskOptions;
use strobe_linux::command::{FileSystem, window};
use strobe_linux::job::{Run, Step};
use strobe_ssd::{Ageing, DriveConfig};
use strobe_types::{Op, named};

use super::RANGES;
use super::removal::{Removal, TRIED_NS};
use crate::guest::{self, Kernel, Task};
use crate::mean::Ratio;
use crate::pool::Bench;
use crate::{Options, PaperError, Scale};

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub(super) enum Work {
        /// PostMark with 45,000 files.
        PmA => "PM-A",
        /// PostMark with 60,000 files.
        PmB => "PM-B",
        /// Deletion of 30,000 files.
        Delete => "filemicro_delete",
        /// Deletion by 16 concurrent programs, in place of the paper's 16 threads.
        DeleteBy16 => "filemicro_delete by 16",
    }
}

named! {
    /// Discard policy of ext4.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub(super) enum Sends {
        /// Batched, and the journal commit waits for the discards, as in the paper.
        AtCommit => "patched, at commit",
        /// Batched, in the background.
        Gathered => "patched, in the background",
        /// One by one, in the background: stock Linux 6.12.
        Stock => "stock 6.12, in the background",
        Never => "no TRIM",
    }
}

impl Sends {
    /// Settings under `/sys/fs/ext4/vda`.
    fn switches(self) -> [(&'static str, &'static str); 2] {
        let batch = if self == Sends::Stock { "1" } else { "64" };
        let wait = if self == Sends::AtCommit { "1" } else { "0" };
        [("mb_discard_batch", batch), ("mb_discard_wait", wait)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    pub(super) work: Work,
    /// Largest number of ranges per command.
    pub(super) ranges: u32,
    pub(super) sends: Sends,
    /// Host time to remove a file, in ns.
    pub(super) unlink_ns: u32,
    pub(super) trim_us: u32,
    pub(super) size_max_bytes: u32,
    /// Blocks of the drive in thousandths of the preset's; more blocks are more spare space.
    pub(super) blocks_permille: u32,
    /// True if the whole drive was written before and mkfs does not discard it: only TRIMs provide free space.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_full: bool,
    /// Number of runs to average, see [`Case::of_run`].
    runs: u32,
}

impl Case {
    pub(super) fn new(work: Work, ranges: u32, sends: Sends, unlink_ns: u32) -> Self {
        let runs = match (work, ranges, sends) {
            (Work::Delete | Work::DeleteBy16, _, Sends::AtCommit) => HOSTS_PERCENT.len() as u32,
            // The text compares these two, so they get the most runs.
            (_, 1 | 64, Sends::AtCommit) => 30,
            // Policies of current kernels, which no claim concerns.
            (_, _, Sends::Gathered | Sends::Stock) => 1,
            _ => 3,
        };
        Self {
            work,
            ranges,
            sends,
            unlink_ns,
            trim_us: TRIM_US,
            size_max_bytes: SIZE_MAX_BYTES,
            blocks_permille: BLOCKS_PERMILLE[1],
            is_full: false,
            runs,
        }
    }

    /// Case of run number `run`.
    fn of_run(self, run: u32) -> Self {
        // PostMark's runs differ by seed: the time of write-back is chaotic. Deletion runs differ by host
        // speed: the progress of the last commit at the end depends on every µs.
        match self.work {
            Work::PmA | Work::PmB => self,
            Work::Delete | Work::DeleteBy16 => {
                Self { unlink_ns: self.unlink_ns / 100 * HOSTS_PERCENT[run as usize], ..self }
            }
        }
    }

    pub(super) fn of(work: Work, unlink_ns: u32) -> Vec<Case> {
        let at_commit = RANGES.map(|ranges| (ranges, Sends::AtCommit));
        let others = [(1, Sends::Gathered), (64, Sends::Gathered), (64, Sends::Stock)];
        let all = at_commit.into_iter().chain(others);
        all.map(|(ranges, sends)| Case::new(work, ranges, sends, unlink_ns)).collect()
    }

    pub(super) fn at_once(unlink_ns: u32) -> [Case; 2] {
        [1, 64].map(|ranges| Case::new(Work::DeleteBy16, ranges, Sends::AtCommit, unlink_ns))
    }

    pub(super) fn deletions(trim_us: u32, unlink_ns: u32) -> [Case; 2] {
        [1, 64].map(|ranges| Case {
            trim_us,
            runs: 1,
            ..Case::new(Work::Delete, ranges, Sends::AtCommit, unlink_ns)
        })
    }

    pub(super) fn postmarks(trim_us: u32, size_max_bytes: u32, unlink_ns: u32) -> [Case; 2] {
        let of_preset = trim_us == TRIM_US && size_max_bytes == SIZE_MAX_BYTES;
        [1, 64].map(|ranges| {
            let case = Case::new(Work::PmA, ranges, Sends::AtCommit, unlink_ns);
            Case { trim_us, size_max_bytes, runs: if of_preset { case.runs } else { 1 }, ..case }
        })
    }

    /// On a full drive, with 1 and 64 ranges per command.
    pub(super) fn spares(blocks_permille: u32, unlink_ns: u32) -> [Case; 2] {
        [1, 64].map(|ranges| {
            let case = Case::new(Work::PmA, ranges, Sends::AtCommit, unlink_ns);
            Case { blocks_permille, is_full: true, runs: 3, ..case }
        })
    }

    pub(super) fn without(blocks_permille: u32, unlink_ns: u32) -> Case {
        let case = Case::new(Work::PmA, 1, Sends::Never, unlink_ns);
        Case { blocks_permille, is_full: true, ..case }
    }

    fn all(unlink_ns: u32) -> Vec<Case> {
        let works = [Work::PmA, Work::PmB, Work::Delete];
        let mut cases: Vec<Case> = works.into_iter().flat_map(|work| Case::of(work, unlink_ns)).collect();
        cases.extend(Case::at_once(unlink_ns));
        for blocks in BLOCKS_PERMILLE {
            cases.extend(Case::spares(blocks, unlink_ns));
            cases.push(Case::without(blocks, unlink_ns));
        }
        for trim_us in TRIMS_US {
            cases.extend(UNLINKS_NS.into_iter().flat_map(|unlink_ns| Case::deletions(trim_us, unlink_ns)));
            let postmarks = |size| Case::postmarks(trim_us, size, unlink_ns);
            cases.extend(SIZES_MAX_BYTES.into_iter().flat_map(postmarks));
        }
        let mut once: Vec<Case> = Vec::new();
        cases.into_iter().for_each(|case| {
            if !once.contains(&case) {
                once.push(case);
            }
        });
        once
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Time from the start of the program to the end of its final sync.
    pub(super) ns: f64,
    pub(super) commands: f64,
    pub(super) ranges: f64,
    pub(super) trim_ns: f64,
    /// Mapping units copied by collection.
    pub(super) copied: f64,
}

impl Work {
    fn divisor(self, scale: Scale) -> u32 {
        match (scale, self) {
            (Scale::Full, _) => 1,
            // The number of commits stays equal: their interval is 1 s instead of 5.
            (_, Work::Delete | Work::DeleteBy16) => 5,
            (_, Work::PmA | Work::PmB) => 10,
        }
    }

    fn mount_options(self, sends: Sends, scale: Scale) -> &'static str {
        match (self, sends) {
            (_, Sends::Never) => "nodiscard",
            (Work::Delete | Work::DeleteBy16, _) if scale != Scale::Full => "discard,commit=1",
            _ => "discard",
        }
    }
}

/// PostMark's largest file, in bytes. The paper's sizes are not legible.
///
/// With PostMark's default (500 to 10,000 bytes) the drive is mostly idle, and waiting at a commit costs no
/// time. At ten times that, the drive's own collection dominates.
pub(super) const SIZE_MAX_BYTES: u32 = 50_000;
pub(super) const SIZES_MAX_BYTES: [u32; 3] = [10_000, 50_000, 100_000];
/// Host processor time per PostMark call in ns (assumed); the guest's processor takes none.
const CALL_NS: u32 = 10_000;
/// Host speeds averaged for deletions, in percent of the removal time.
const HOSTS_PERCENT: [u32; 5] = [100, 96, 104, 92, 108];
/// Host times for a removal in the sensitivity map, in ns; elsewhere the time is fitted.
pub(super) const UNLINKS_NS: [u32; 3] = [120_000, 240_000, 480_000];
/// TRIM command time without its ranges in µs: the preset's, and others.
pub(super) const TRIM_US: u32 = 176;
pub(super) const TRIMS_US: [u32; 3] = [88, 176, 352];
/// Blocks of the drive in thousandths of the preset's 550 per plane, which have 7.4 % spare space; the others
/// have 4 and 15 %.
pub(super) const BLOCKS_PERMILLE: [u32; 3] = [969, 1000, 1071];

/// Blocks per plane for fewer files; enough for the logical size even at the least of [`BLOCKS_PERMILLE`].
const QUICK_BLOCKS: u32 = 61;

fn memory_mib(scale: Scale) -> u32 {
    if scale == Scale::Full { 2048 } else { 256 }
}

/// Command that runs all `commands` concurrently, and fails if one does.
fn at_once(mut commands: Vec<Vec<String>>) -> Vec<String> {
    if commands.len() == 1 {
        return commands.remove(0);
    }
    let started: Vec<String> =
        commands.iter().map(|command| format!("{} & all=\"$all $!\"", command.join(" "))).collect();
    let script = format!("{}\nfor one in $all; do wait $one || exit 1; done", started.join("\n"));
    ["sh", "-c", &script].map(str::to_owned).into()
}

fn task(case: Case, options: &Options, seed: u64) -> Task {
    let less = |number: u32| (number / case.work.divisor(options.scale)).to_string();
    let set = |(name, value): (&str, &str)| Step::Set {
        path: format!("/sys/fs/ext4/vda/{name}"),
        value: value.into(),
    };
    let mut setup: Vec<_> = case.sends.switches().map(set).into();
    // Host time for each call and each removal. Filebench only removes files.
    let time = |unlink_ns: u32| {
        let (call, unlink) = (CALL_NS.to_string(), unlink_ns.to_string());
        ["--call-ns".to_owned(), call, "--unlink-ns".to_owned(), unlink]
    };
    let command = match case.work {
        Work::PmA | Work::PmB => {
            let files = if case.work == Work::PmA { 45_000 } else { 60_000 };
            let settings = [
                ("files", less(files)),
                ("transactions", less(100_000)),
                ("subdirectories", "10".into()),
                ("size_max_bytes", case.size_max_bytes.to_string()),
                ("read_bytes", "4096".into()),
                ("write_bytes", "4096".into()),
            ];
            [guest::workload("postmark", &settings, "pm", seed), time(case.unlink_ns).into()].concat()
        }
        Work::Delete | Work::DeleteBy16 => {
            let programs = if case.work == Work::Delete { 1 } else { 16 };
            let files = ("files", (30_000 / case.work.divisor(options.scale) / programs).to_string());
            let make = [files.clone(), ("deletes", "0".into()), ("spacer_bytes", "4096".into())];
            let remove = [files.clone(), ("deletes", files.1), ("fill", "false".into())];
            let folders: Vec<String> = (0..programs).map(|program| format!("fd{program}")).collect();
            for folder in &folders {
                setup.push(Run::must_succeed(guest::workload("filemicro-delete", &make, folder, seed)));
            }
            setup.push(Step::DropCaches);
            // Scaled so that all programs together remove files at the rate of one.
            let paced = time(case.unlink_ns * programs);
            let removal = |folder: &String| {
                [guest::workload("filemicro-delete", &remove, folder, seed), paced.to_vec()].concat()
            };
            at_once(folders.iter().map(removal).collect())
        }
    };
    // mkfs would choose smaller blocks on a small drive.
    let mut mkfs_options = vec!["-b", "4096"];
    if case.is_full {
        mkfs_options.extend(["-E", "nodiscard"]);
    }
    Task {
        name: format!("{} with {} ranges, {}", case.work.name(), case.ranges, case.sends.name()),
        file_system: FileSystem::Ext4,
        mkfs_options: mkfs_options.into_iter().map(str::to_owned).collect(),
        mount_options: case.work.mount_options(case.sends, options.scale).into(),
        setup,
        command,
        disk: DiskOptions { discard_segments: case.ranges, ..DiskOptions::default() },
        memory_mib: memory_mib(options.scale),
        ageing: case.is_full.then_some(Ageing { overwrites: 1.0 }),
    }
}

fn experiment(case: Case, options: &Options) -> Result<Experiment, PaperError> {
    let board = |drive: &mut DriveConfig| {
        drive.controller.trim.command_ns =
            (u64::from(case.trim_us) * 1000).saturating_sub(drive.controller.command_ns);
        // Fewer files need a smaller drive, which reserves a larger share.
        if options.scale != Scale::Full {
            (drive.ftl.logical_pages, drive.nand.blocks_per_plane) = (Some(104_857), QUICK_BLOCKS);
        }
        drive.nand.blocks_per_plane = drive.nand.blocks_per_plane * case.blocks_permille / 1000;
    };
    guest::experiment("jasmine-shipped", board, options)
}

fn measure(case: Case, seed: u64, kernel: &Kernel, options: &Options) -> Result<Measured, PaperError> {
    let experiment = experiment(case, options)?;
    let (outcome, _) = guest::run(kernel, &task(case, options, seed), &experiment, None, |_| ())?;
    let (begin, end) = window(&outcome).ok_or(PaperError::Interrupted)?;
    let (requests, trim) = (end.requests.since(&begin.requests), end.latency.of(Op::Trim));
    let gc = end.stats.since(&begin.stats).gc;
    Ok(Measured {
        ns: (end.at_ns - begin.at_ns) as f64,
        commands: requests.discard as f64,
        ranges: requests.discard_ranges as f64,
        trim_ns: trim.count() as f64 * trim.mean(),
        copied: gc.units_moved as f64,
    })
}

#[derive(Debug, Default)]
pub(super) struct Results {
    measured: Vec<(Case, Vec<Measured>)>,
    pub(super) removal: Option<Removal>,
    pub(super) missing: &'static str,
}

impl Results {
    fn runs(&self, case: Case) -> Option<&[Measured]> {
        self.measured.iter().find(|(of, _)| *of == case).map(|(_, runs)| &runs[..])
    }

    /// Mean of a case's runs.
    pub(super) fn find(&self, case: Case) -> Option<Measured> {
        let runs = self.runs(case).filter(|runs| !runs.is_empty())?;
        let mean = |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Some(Measured {
            ns: mean(|of| of.ns),
            commands: mean(|of| of.commands),
            ranges: mean(|of| of.ranges),
            trim_ns: mean(|of| of.trim_ns),
            copied: mean(|of| of.copied),
        })
    }

    /// Time of the second case over the first.
    fn ratio(&self, [one, most]: [Case; 2]) -> Option<Ratio> {
        let times = |case| Some(self.runs(case)?.iter().map(|of| of.ns).collect::<Vec<f64>>());
        Some(Ratio::of(&times(most)?, &times(one)?))
    }

    /// Standard error of [`Results::saved`], in points.
    pub(super) fn saved_error(&self, pair: [Case; 2]) -> Option<f64> {
        Some(100.0 * self.ratio(pair)?.error?)
    }

    /// Time saved by the second case, in percent of the first.
    pub(super) fn saved(&self, pair: [Case; 2]) -> Option<f64> {
        Some(100.0 * (1.0 - self.ratio(pair)?.value))
    }

    /// Excess throughput of the second case over the first in percent, with its standard error.
    pub(super) fn gain(&self, [first, second]: [Case; 2]) -> Option<Ratio> {
        let Ratio { value, error } = self.ratio([second, first])?;
        Some(Ratio { value: 100.0 * (value - 1.0), error: error.map(|error| 100.0 * error) })
    }

    pub(super) fn trim_saved(&self, [first, second]: [Case; 2]) -> Option<f64> {
        Some(100.0 * (1.0 - self.find(second)?.trim_ns / self.find(first)?.trim_ns))
    }

    pub(super) fn faster(&self, pair: [Case; 2]) -> Option<f64> {
        self.gain(pair).map(|of| of.value)
    }
}

pub(super) fn measured(options: &Options, bench: &Bench<'_>) -> Result<(Results, Vec<String>), PaperError> {
    let nothing = |missing| {
        let note = format!("figures 6 and 7: {missing}");
        (Results { measured: Vec::new(), removal: None, missing }, vec![note])
    };
    if options.scale == Scale::Tiny {
        return Ok(nothing("needs a kernel, and is not part of TINY"));
    }
    let kernel = match Kernel::find(options, bench.watch) {
        Ok(kernel) => kernel,
        Err(missing) => return Ok(nothing(missing)),
    };
    let about = (kernel.version(), options.scale, &options.sets);
    // Run each case under its run number, which changes the seed and, for deletions, the host speed.
    let taken = |runs: &mut dyn Iterator<Item = (Case, u32)>| {
        let runs: Vec<_> = runs
            .map(|(case, run)| (case.of_run(run), options.seed.wrapping_add(run.into()), about))
            .collect();
        bench.points("trim-ext4", &runs, |&(case, seed, _)| measure(case, seed, &kernel, options))
    };
    // Fit the removal time first: all cases below depend on it.
    let tried =
        taken(&mut TRIED_NS.iter().flat_map(|&ns| Case::deletions(TRIM_US, ns)).map(|case| (case, 0)))?;
    let faster = tried.chunks(2).map(|pair| 100.0 * (pair[0].ns / pair[1].ns - 1.0));
    let removal = Removal::fitted(TRIED_NS.into_iter().zip(faster).collect());
    let cases = Case::all(removal.ns);
    let runs = cases.iter().flat_map(|&case| (0..case.runs).map(move |run| (case, run)));
    let mut taken = taken(&mut { runs })?.into_iter();
    let mut of_case = |case: Case| (case, taken.by_ref().take(case.runs as usize).collect());
    let measured = cases.iter().map(|&case| of_case(case)).collect();
    let notes = notes(&kernel, options.scale, &removal);
    Ok((Results { measured, removal: Some(removal), missing: "" }, notes))
}

fn notes(kernel: &Kernel, scale: Scale, removal: &Removal) -> Vec<String> {
    let mut notes = vec![
        format!(
            "figures 6 and 7: ext4 of Linux {} in virtual time on the Jasmine preset. \"At commit\" is the paper's: the \
             journal commit sends the discards of the blocks that it freed and waits for them, as kernels before 5.15 did \
             (this project's patches: mb_discard_wait; mb_discard_batch batches them). The other rows show a current \
             kernel, which sends discards in the background at almost no cost in time; discards that are pending at a \
             sync complete later. Times end with the sync after the program",
            kernel.version()
        ),
        format!(
            "figures 6 and 7: the guest's processor itself takes no time. A call of PostMark takes {} µs (assumed), the \
             removal of a file {} µs in both, which is fitted{}: at the preset's TRIM command time it gives the paper's gain \
             in deletions at 64 ranges (figure fit-removal: {} removal times, each averaged with its two neighbours). \
             PostMark's gains are predicted with it",
            CALL_NS / 1000,
            removal.ns / 1000,
            if removal.is_within { "" } else { " (no tried time gives the gain; this is the nearest)" },
            TRIED_NS.len(),
        ),
        format!(
            "figure 7: means of {} hosts whose removals take {} to {} % of that time, because the progress of the last \
             commit at the end depends on every µs",
            HOSTS_PERCENT.len(),
            HOSTS_PERCENT.iter().min().unwrap_or(&0),
            HOSTS_PERCENT.iter().max().unwrap_or(&0)
        ),
        "figure 7: other files lie between the deleted ones; adjacent on a fresh file system, the files of a commit \
         would be one range"
            .to_owned(),
        format!(
            "figure 6: the sizes of PostMark's files are not legible in our copy. 500 to {SIZE_MAX_BYTES} bytes are \
             assumed, in calls of 4 KB: with PostMark's default of 500 to 10,000 the drive is idle most of the time and \
             single runs save 1 to 14 %, with 500 to 100,000 the drive's own collection dominates. Means of 30 \
             seeds at 1 and 64 ranges at commit, of 3 elsewhere, and single runs in the background"
        ),
    ];
    if scale != Scale::Full {
        notes.push(
            "figures 6 and 7: a tenth of PostMark's files and transactions, a fifth of the deletions, on a tenth of \
             the drive"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests;
