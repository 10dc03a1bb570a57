//! What ext4 gains: PostMark and file deletion on a real kernel.

use strobe_linux::DiskOptions;
use strobe_linux::job::{Run, Step};

use strobe_types::Op;

use super::RANGES;
use crate::linux::{BEGIN, END, FileSystem, UNMOUNTED};
use crate::paper::guest::{self, Kernel, NO_KERNEL, Task};
use crate::paper::{Figure, Options, PaperError, Row, Scale, View, Watch, pool};

/// What runs on the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// PostMark with 45,000 files.
    PmA,
    /// PostMark with 60,000 files.
    PmB,
    /// Deletion of 30,000 files.
    Delete,
}

impl Work {
    const ALL: [Work; 3] = [Work::PmA, Work::PmB, Work::Delete];

    fn name(self) -> &'static str {
        match self {
            Work::PmA => "PM-A",
            Work::PmB => "PM-B",
            Work::Delete => "filemicro_delete",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    work: Work,
    /// Ranges that a command may have.
    ranges: u32,
    /// Whether the kernel gathers them; otherwise as stock Linux 6.12 does.
    gathers: bool,
}

impl Case {
    fn all() -> Vec<Case> {
        let of = |work| {
            let stock = Case { work, ranges: 64, gathers: false };
            RANGES.map(|ranges| Case { work, ranges, gathers: true }).into_iter().chain([stock])
        };
        Work::ALL.into_iter().flat_map(of).collect()
    }

    fn kernel(self) -> &'static str {
        if self.gathers { "patched" } else { "stock" }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
struct Measured {
    case: Case,
    /// From the start of the program until the file system is unmounted, which waits for the discards.
    ns: u64,
    commands: u64,
    ranges: u64,
    /// Time that the drive took for them, in ns.
    trim_ns: f64,
}

/// Files and transactions are so many times fewer.
fn divisor(scale: Scale) -> u32 {
    match scale {
        Scale::Full => 1,
        Scale::Quick => 10,
        Scale::Tiny => 150,
    }
}

/// What the host's processor takes for a call of the program, in ns. It is free in the guest; without it all files
/// would come and go between two commits. Some 20,000 calls per second are usual for such a machine.
const CALL_NS: u32 = 50_000;

/// Commits and write-back come a fifth and a tenth of their usual time after the call, so that files reach the
/// drive before they are deleted, as they did in the paper, where everything took longer.
const MOUNT_OPTIONS: &str = "discard,commit=1";
const WRITE_BACK: [(&str, &str); 2] =
    [("/proc/sys/vm/dirty_expire_centisecs", "300"), ("/proc/sys/vm/dirty_writeback_centisecs", "50")];

fn task(case: Case, options: &Options) -> Task {
    let less = |number: u32| (number / divisor(options.scale)).to_string();
    let batch = if case.gathers { "64" } else { "1" };
    let switch = Step::Set { path: "/sys/fs/ext4/vda/mb_discard_batch".into(), value: batch.into() };
    let mut setup = vec![switch];
    setup.extend(WRITE_BACK.map(|(path, value)| Step::Set { path: path.into(), value: value.into() }));
    let mut command = match case.work {
        Work::PmA | Work::PmB => {
            let files = if case.work == Work::PmA { 45_000 } else { 60_000 };
            let settings =
                [("files", less(files)), ("transactions", less(100_000)), ("subdirectories", "10".into())];
            guest::workload("postmark", &settings, "pm", options.seed)
        }
        Work::Delete => {
            let files = ("files", less(30_000));
            let make = [files.clone(), ("deletes", "0".into()), ("spacer_bytes", "4096".into())];
            setup.push(Run::must_succeed(guest::workload("filemicro-delete", &make, "fd", options.seed)));
            setup.push(Step::DropCaches);
            let remove = [files.clone(), ("deletes", files.1), ("fill", "false".into())];
            guest::workload("filemicro-delete", &remove, "fd", options.seed)
        }
    };
    command.extend(["--call-ns".to_owned(), CALL_NS.to_string()]);
    Task {
        name: format!("{} with {} ranges, {} kernel", case.work.name(), case.ranges, case.kernel()),
        file_system: FileSystem::Ext4,
        mkfs_options: Vec::new(),
        mount_options: MOUNT_OPTIONS.into(),
        setup,
        command,
        disk: DiskOptions { discard_segments: case.ranges, ..DiskOptions::default() },
        memory_mib: 1024,
    }
}

fn measure(case: Case, kernel: &Kernel, options: &Options) -> Result<Measured, PaperError> {
    let experiment = guest::experiment("jasmine-4g", &[], options)?;
    let (outcome, _) = guest::run(kernel, &task(case, options), &experiment, None)?;
    let (Some(begin), Some(end)) = (outcome.mark(BEGIN), outcome.mark(UNMOUNTED)) else {
        return Err(PaperError::Interrupted);
    };
    let requests = end.requests.since(&begin.requests);
    let ns = end.at_ns - begin.at_ns;
    // The window has two parts: until the sync behind the command, and until it is unmounted.
    let latencies = outcome.mark(END).into_iter().chain([end]).map(|mark| &mark.latency);
    let trim_ns = latencies.map(|of| of.of(Op::Trim).len() as f64 * of.mean_ns(Op::Trim)).sum();
    Ok(Measured { case, ns, commands: requests.discard, ranges: requests.discard_ranges, trim_ns })
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
            "figures 6 and 7: ext4 of Linux {} in virtual time on the Jasmine preset, with this project's patch that \
             sends the discards of a commit together; stock sends one range per command whatever the drive takes. \
             Times run until the file system is unmounted, as the discards of 6.12 are sent in the background (in the \
             paper's kernel the commit waited for them). The guest's processor takes no time, so what is left is \
             what the drive takes",
            kernel.version()
        ),
        format!(
            "figures 6 and 7: every call of the programs takes {} µs of processor time, of which the paper says nothing; \
             the files to be deleted have others between them: side by side on a fresh file system, those of a \
             commit would be one range",
            CALL_NS / 1000
        ),
        "the sizes of PostMark's files and requests are not legible in the copy at hand: its defaults are taken (500 \
         to 10,000 bytes)"
            .to_owned(),
    ];
    if scale != Scale::Full {
        notes.push(format!("figures 6 and 7: a {}th of the files and transactions", divisor(scale)));
    }
    notes
}

const WHY_TIME: &str = "the share of TRIM in the time decides, and with it the time of one command, which the paper does not give for \
     Jasmine (20 µs and 1.08 µs per range in the preset); the kernel of today sends discards in the background";

fn draw(measured: &[Measured], scale: Scale) -> Vec<Figure> {
    let find =
        |work, ranges, gathers| measured.iter().find(|of| of.case == Case { work, ranges, gathers }).copied();
    let base = |work| find(work, 1, true);
    let seconds = |of: Option<Measured>| of.map(|of| of.ns as f64 / 1e9);
    let none = if measured.is_empty() { NO_KERNEL } else { WHY_TIME };
    let mut figures = Vec::new();
    for (figure, title, works) in [
        ("6", "PostMark on ext4: time by ranges per TRIM command", &[Work::PmA, Work::PmB][..]),
        ("7", "Deleting files on ext4: time by ranges per TRIM command", &[Work::Delete][..]),
    ] {
        let mut rows = Vec::new();
        for &work in works {
            for (ranges, gathers) in RANGES.map(|ranges| (ranges, true)).into_iter().chain([(64, false)]) {
                let of = find(work, ranges, gathers);
                let shown = ranges.to_string();
                let kernel = Case { work, ranges, gathers }.kernel();
                let at = |unit| {
                    [
                        ("workload", work.name()),
                        ("kernel", kernel),
                        ("ranges", shown.as_str()),
                        ("unit", unit),
                    ]
                };
                rows.push(Row::shown(&at("s"), seconds(of)));
                rows.push(Row::shown(&at("TRIM commands"), of.map(|of| of.commands as f64)));
                rows.push(Row::shown(&at("TRIM ranges"), of.map(|of| of.ranges as f64)));
                rows.push(Row::shown(&at("s of TRIM"), of.map(|of| of.trim_ns / 1e9)));
            }
            let (one, most) = (base(work), find(work, 64, true));
            let stock = find(work, 64, false);
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
                    let share =
                        one.zip(most).map(|(one, most)| 100.0 * most.commands as f64 / one.commands as f64);
                    let at = claim("TRIM commands left at 64 ranges", "%");
                    let high = if scale == Scale::Full { 2.0 } else { 4.0 };
                    rows.push(Row::judged(&at, Some(1.5), share, [Some(1.5), Some(high)]).because(none));
                }
            }
            let grows = RANGES.map(|ranges| seconds(find(work, ranges, true)));
            let monotone = grows.windows(2).map(|pair| Some(100.0 * (pair[0]? / pair[1]? - 1.0)));
            let least = monotone.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(f64::min));
            let at = claim("least gain from one number of ranges to the next", "%");
            rows.push(Row::judged(&at, None, least, [Some(-0.5), None]).because(none));
            let ratio = stock.zip(one).map(|(stock, one)| stock.commands as f64 / one.commands as f64);
            let at = claim("commands of a stock kernel at 64 ranges over those at one range", "ratio");
            rows.push(Row::shown(&at, ratio));
        }
        figures.push(Figure {
            figure: figure.into(),
            title: title.into(),
            note: None,
            rows,
            view: View::Table { down: &["workload", "kernel", "unit"], across: "ranges" },
        });
    }
    figures
}
