//! What ext4 gains: PostMark and file deletion on a real kernel.

use strobe_lab::linux::{FileSystem, window};
use strobe_linux::DiskOptions;
use strobe_linux::job::{Run, Step};

use strobe_ssd::DriveConfig;
use strobe_types::{Op, named};

use super::RANGES;
use crate::figure::reduced;
use crate::guest::{self, Kernel, NO_KERNEL, Task};
use crate::{Figure, Options, PaperError, Row, Scale, View, Watch, pool};

named! {
    /// What runs on the file system.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Work {
        /// PostMark with 45,000 files.
        PmA => "PM-A",
        /// PostMark with 60,000 files.
        PmB => "PM-B",
        /// Deletion of 30,000 files.
        Delete => "filemicro_delete",
    }
}

named! {
    /// How ext4 sends discards.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Sends {
        /// Gathered, and the commit of the journal waits for them, as in the paper.
        AtCommit => "patched, at commit",
        /// Gathered, in the background.
        Gathered => "patched, in the background",
        /// One by one, in the background: Linux 6.12 as it is.
        Stock => "stock 6.12, in the background",
    }
}

impl Sends {
    /// The switches of `/sys/fs/ext4/vda`.
    fn switches(self) -> [(&'static str, &'static str); 2] {
        let batch = if self == Sends::Stock { "1" } else { "64" };
        let wait = if self == Sends::AtCommit { "1" } else { "0" };
        [("mb_discard_batch", batch), ("mb_discard_wait", wait)]
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    work: Work,
    /// Ranges that a command may have.
    ranges: u32,
    sends: Sends,
}

impl Case {
    fn all() -> Vec<Case> {
        Work::ALL.into_iter().flat_map(Case::of).collect()
    }

    /// Those of a figure's part, in its order.
    fn of(work: Work) -> Vec<Case> {
        let at_commit = RANGES.map(|ranges| (ranges, Sends::AtCommit));
        let others = [(1, Sends::Gathered), (64, Sends::Gathered), (64, Sends::Stock)];
        at_commit.into_iter().chain(others).map(|(ranges, sends)| Case { work, ranges, sends }).collect()
    }
}

/// What a run came to, or several in the mean.
#[derive(Clone, Copy, Debug)]
struct Measured {
    case: Case,
    /// From the start of the program until all is on the drive: it ends with a sync.
    ns: f64,
    commands: f64,
    ranges: f64,
    /// Time that the drive took for them, in ns.
    trim_ns: f64,
}

impl Work {
    /// Files and transactions are so many times fewer.
    fn divisor(self, scale: Scale) -> u32 {
        match (scale, self) {
            (Scale::Full, _) => 1,
            // Deletions go on for the same number of commits then, of 1 s instead of 5.
            (_, Work::Delete) => 5,
            (_, Work::PmA | Work::PmB) => 10,
        }
    }

    fn mount_options(self, scale: Scale) -> &'static str {
        if self == Work::Delete && scale != Scale::Full { "discard,commit=1" } else { "discard" }
    }

    /// Runs with different seeds, of which the mean is taken: when PostMark's files are written back is chaotic.
    fn seeds(self) -> u64 {
        if self == Work::Delete { 1 } else { 3 }
    }
}

/// PostMark's largest file, in bytes. The paper's sizes are not legible in the copy at hand. With PostMark's own
/// (500 to 10,000 bytes) the drive is idle most of the time, and a commit that waits holds up nobody; at ten times
/// that, the drive's own collection decides.
const SIZE_MAX_BYTES: u32 = 50_000;
/// What the host's processor takes for a call of PostMark, in ns. It is free in the guest.
const CALL_NS: u32 = 10_000;
/// The same for a deletion of Filebench with 16 threads that contend for a directory: fitted, so that its rate
/// rises at 64 ranges by about what the paper says. The rest of the figures follows.
const DELETE_NS: u32 = 260_000;

/// Memory of the host: less for fewer files.
fn memory_mib(scale: Scale) -> u32 {
    if scale == Scale::Full { 2048 } else { 256 }
}

fn task(case: Case, options: &Options, seed: u64) -> Task {
    let less = |number: u32| (number / case.work.divisor(options.scale)).to_string();
    let set = |(name, value): (&str, &str)| Step::Set {
        path: format!("/sys/fs/ext4/vda/{name}"),
        value: value.into(),
    };
    let mut setup: Vec<_> = case.sends.switches().map(set).into();
    let (mut command, call_ns) = match case.work {
        Work::PmA | Work::PmB => {
            let files = if case.work == Work::PmA { 45_000 } else { 60_000 };
            let settings = [
                ("files", less(files)),
                ("transactions", less(100_000)),
                ("subdirectories", "10".into()),
                ("size_max_bytes", SIZE_MAX_BYTES.to_string()),
                ("read_bytes", "4096".into()),
                ("write_bytes", "4096".into()),
            ];
            (guest::workload("postmark", &settings, "pm", seed), CALL_NS)
        }
        Work::Delete => {
            let files = ("files", less(30_000));
            let make = [files.clone(), ("deletes", "0".into()), ("spacer_bytes", "4096".into())];
            setup.push(Run::must_succeed(guest::workload("filemicro-delete", &make, "fd", seed)));
            setup.push(Step::DropCaches);
            let remove = [files.clone(), ("deletes", files.1), ("fill", "false".into())];
            (guest::workload("filemicro-delete", &remove, "fd", seed), DELETE_NS)
        }
    };
    command.extend(["--call-ns".to_owned(), call_ns.to_string()]);
    Task {
        name: format!("{} with {} ranges, {}", case.work.name(), case.ranges, case.sends.name()),
        file_system: FileSystem::Ext4,
        // mkfs would make smaller ones on a small drive.
        mkfs_options: ["-b", "4096"].map(str::to_owned).into(),
        mount_options: case.work.mount_options(options.scale).into(),
        setup,
        command,
        disk: DiskOptions { discard_segments: case.ranges, ..DiskOptions::default() },
        memory_mib: memory_mib(options.scale),
    }
}

fn measure(case: Case, kernel: &Kernel, options: &Options) -> Result<Measured, PaperError> {
    let board = |drive: &mut DriveConfig| {
        // For fewer files it is smaller, with a part more that it keeps to itself.
        if options.scale != Scale::Full {
            (drive.ftl.logical_pages, drive.nand.blocks_per_plane) = (Some(104_857), 58);
        }
    };
    let experiment = guest::experiment("jasmine-4g", board, options)?;
    let mut sum = Measured { case, ns: 0.0, commands: 0.0, ranges: 0.0, trim_ns: 0.0 };
    let runs = case.work.seeds() as f64;
    for more in 0..case.work.seeds() {
        let task = task(case, options, options.seed.wrapping_add(more));
        let (outcome, _) = guest::run(kernel, &task, &experiment, None, None)?;
        let (begin, end) = window(&outcome).ok_or(PaperError::Interrupted)?;
        let requests = end.requests.since(&begin.requests);
        sum.ns += (end.at_ns - begin.at_ns) as f64 / runs;
        sum.commands += requests.discard as f64 / runs;
        sum.ranges += requests.discard_ranges as f64 / runs;
        sum.trim_ns += end.latency.of(Op::Trim).count() as f64 * end.latency.of(Op::Trim).mean() / runs;
    }
    Ok(sum)
}

/// Figures 6 and 7, and what holds for them.
pub(super) fn figures(
    options: &Options,
    watch: &dyn Watch,
) -> Result<(Vec<Figure>, Vec<String>), PaperError> {
    if options.scale == Scale::Tiny {
        return Ok((Vec::new(), vec!["figures 6 and 7 need a kernel, and are not part of TINY".to_owned()]));
    }
    let Some(kernel) = Kernel::find() else {
        return Ok((
            draw(&[], options.scale),
            vec![format!("figures 6 and 7 are not measured: {NO_KERNEL}")],
        ));
    };
    let measured = pool::in_parallel(&Case::all(), watch, |&case| measure(case, &kernel, options))?;
    Ok((draw(&measured, options.scale), notes(&kernel, options.scale)))
}

fn notes(kernel: &Kernel, scale: Scale) -> Vec<String> {
    let mut notes = vec![
        format!(
            "figures 6 and 7: ext4 of Linux {} in virtual time on the Jasmine preset. \"At commit\" is the paper's: the \
             commit of the journal sends the discards of what it freed and waits for them, as kernels before 5.15 did \
             (this project's patches: mb_discard_wait; mb_discard_batch gathers them). The other rows show the kernel \
             of today, which sends them in the background, where they cost next to no time; what is left at a sync \
             comes later. Times run until the sync behind the program",
            kernel.version()
        ),
        format!(
            "figures 6 and 7: the guest's processor takes no time by itself. Every call of PostMark takes {} µs, a \
             deletion of figure 7 {} µs, which is fitted: at the time that a TRIM command of the preset takes, it \
             gives about the gain that the paper found at 64 ranges. So that one row of figure 7 is true by construction; \
             16 and 32 ranges, the commands and all of figure 6 are not",
            CALL_NS / 1000,
            DELETE_NS / 1000
        ),
        "figure 7: the files to be deleted have others between them: side by side on a fresh file system, those of a \
         commit would be one range"
            .to_owned(),
        format!(
            "figure 6: the sizes of PostMark's files are not legible in the copy at hand. 500 to {SIZE_MAX_BYTES} bytes \
             are taken, in calls of 4 KB: with PostMark's own 500 to 10,000 the drive is idle most of the time and \
             next to nothing is saved (2 %), with 500 to 100,000 the drive's own collection decides. Means of 3 seeds"
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

const WHY_TIME: &str = "the share of TRIM in the time decides, and with it the time of a command, which the paper does not give for \
     Jasmine (\"like the Intel 320\", for which it says 200 µs), and what the host takes for a file";

fn draw(measured: &[Measured], scale: Scale) -> Vec<Figure> {
    let find =
        |work, ranges, sends| measured.iter().find(|of| of.case == Case { work, ranges, sends }).copied();
    let seconds = |of: Option<Measured>| of.map(|of| of.ns / 1e9);
    let none = if measured.is_empty() { NO_KERNEL } else { WHY_TIME };
    let mut figures = Vec::new();
    for (figure, title, works) in [
        ("6", "PostMark on ext4: time by ranges per TRIM command", &[Work::PmA, Work::PmB][..]),
        ("7", "Deleting files on ext4: time by ranges per TRIM command", &[Work::Delete][..]),
    ] {
        let mut rows = Vec::new();
        for &work in works {
            for Case { ranges, sends, .. } in Case::of(work) {
                let of = find(work, ranges, sends);
                let shown = ranges.to_string();
                let at = |unit| {
                    [
                        ("workload", work.name()),
                        ("ext4", sends.name()),
                        ("ranges", shown.as_str()),
                        ("unit", unit),
                    ]
                };
                rows.push(Row::shown(&at("s"), seconds(of)));
                rows.push(Row::shown(&at("TRIM commands"), of.map(|of| of.commands)));
                rows.push(Row::shown(&at("TRIM ranges"), of.map(|of| of.ranges)));
                rows.push(Row::shown(&at("s of TRIM"), of.map(|of| of.trim_ns / 1e9)));
            }
            let (one, most) = (find(work, 1, Sends::AtCommit), find(work, 64, Sends::AtCommit));
            let (behind, stock) = (find(work, 64, Sends::Gathered), find(work, 64, Sends::Stock));
            let gain = |of: Option<Measured>| Some(100.0 * (1.0 - seconds(of)? / seconds(one)?));
            let claim = |claim, unit| [("workload", work.name()), ("claim", claim), ("unit", unit)];
            match work {
                Work::PmA => {
                    let at = claim("time saved at 64 ranges", "%");
                    let band = [Some(7.0), Some(13.0)];
                    rows.push(Row::judged(&at, Some(10.0), gain(most), band).because(none));
                }
                Work::PmB => rows.push(Row::shown(&claim("time saved at 64 ranges", "%"), gain(most))),
                Work::Delete => {
                    let faster =
                        seconds(one).zip(seconds(most)).map(|(one, most)| 100.0 * (one / most - 1.0));
                    let at = claim("more deletions per second at 64 ranges", "%");
                    let band = [Some(25.0), Some(45.0)];
                    rows.push(Row::judged(&at, Some(35.0), faster, band).because(none));
                    let share = one.zip(most).map(|(one, most)| 100.0 * most.commands / one.commands);
                    let at = claim("TRIM commands left at 64 ranges", "%");
                    let high = if scale == Scale::Full { 2.0 } else { 4.0 };
                    rows.push(Row::judged(&at, Some(1.5), share, [Some(1.5), Some(high)]).because(none));
                }
            }
            let grows = RANGES.map(|ranges| seconds(find(work, ranges, Sends::AtCommit)));
            let monotone = grows.windows(2).map(|pair| Some(100.0 * (pair[0]? / pair[1]? - 1.0)));
            let least = reduced(monotone, f64::min);
            let at = claim("least gain from one number of ranges to the next", "%");
            // PostMark writes more than it deletes; when the drive collects is not the same in each run.
            let low = if work == Work::Delete { -0.5 } else { -3.0 };
            rows.push(Row::judged(&at, None, least, [Some(low), None]).because(none));
            let ratio = stock.zip(behind).map(|(stock, behind)| stock.commands / behind.commands);
            let at = claim("commands of stock 6.12 over those of gathered ones, in the background", "times");
            rows.push(Row::shown(&at, ratio));
        }
        figures.push(Figure::new(
            figure,
            title,
            View::Table { down: &["workload", "ext4", "unit"], across: "ranges" },
            rows,
        ));
    }
    figures
}
