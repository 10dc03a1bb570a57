//! What the runs say, and what the paper says beside it.

use strobe_nand::Cause;

use super::lfs::Told;
use super::measure::{Measured, Window};
use super::{
    BATCHES_MIB, ENTRIES, FEW_ENTRIES, JUDGED, LOGICAL, MODES, PRESET, Phase, READ_WRITE, SPARES, Setup,
    VICTIMS,
};
use crate::{Figure, Row, View};

/// Change of flash programs in percent, and times as fast, that count as what the paper found.
const PROGRAMS_BAND: [Option<f64>; 2] = [Some(-85.0), Some(-60.0)];
const SPEED_BAND: [Option<f64>; 2] = [Some(2.0), None];
/// What its text says at most.
const PAPER_PROGRAMS: f64 = -80.0;
const PAPER_SPEED: f64 = 3.0;

pub(super) fn all(measured: &[Measured]) -> Vec<Figure> {
    let runs = Runs(measured);
    vec![
        cleaning(
            &runs,
            Phase::Aged,
            "lfs-clean",
            "segment cleaning right after ageing, as in the paper",
            "u is the live share of the segments cleaned; what is programmed for read and write should be \
             1/(1 − u) per page of data, as every block of a victim but the share 1 − u is written again",
        ),
        cleaning(
            &runs,
            Phase::Sustained,
            "sustained",
            "segment cleaning that goes on until the drive collects too",
            "with logical copy the dead blocks around the live ones stay on flash, and the drive has to clean \
             up what the file system no longer does",
        ),
        over_time(&runs),
        spare(&runs),
        told(&runs),
        virtual_map(&runs),
        paper(&runs),
    ]
}

struct Runs<'a>(&'a [Measured]);

impl Runs<'_> {
    fn of(&self, setup: Setup) -> Option<&Measured> {
        self.0.iter().find(|measured| measured.setup == setup)
    }

    fn first(&self, setup: Setup) -> Option<&Window> {
        self.of(setup)?.windows.first()
    }

    /// How many more programs logical copy takes than read and write, in percent, all else being
    /// that of `setup`.
    fn programs(&self, setup: Setup) -> Option<f64> {
        let [copied, written] = self.both(setup)?;
        Some(100.0 * (copied.all_programs() / written.all_programs() - 1.0))
    }

    /// How many times as fast as read and write it is.
    fn speed(&self, setup: Setup) -> Option<f64> {
        let [copied, written] = self.both(setup)?;
        Some(written.us() / copied.us())
    }

    fn both(&self, setup: Setup) -> Option<[&Window; 2]> {
        // Read and write leave whole blocks dead: the drive moves nothing, and with more spare space no less.
        // That holds if it hears of all that is dead.
        let spare = if setup.told == Told::EveryBlock { PRESET } else { setup.spare };
        Some([self.first(setup)?, self.first(Setup { mode: READ_WRITE, spare, ..setup })?])
    }
}

/// Everything about one phase on the preset's drive.
fn cleaning(runs: &Runs, phase: Phase, figure: &str, title: &str, note: &str) -> Figure {
    let mut rows = Vec::new();
    let causes: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|&cause| {
            let of_phase = runs.0.iter().filter(|measured| measured.setup.phase == phase);
            of_phase.flat_map(|measured| &measured.windows).any(|window| window.programs(cause) > 0.0)
        })
        .collect();
    for victims in VICTIMS {
        let name = format!("{victims}");
        let mut line = |quantity: &str, unit: &str, of: &dyn Fn(&Measured, &Window) -> Option<f64>| {
            for mode in MODES {
                let measured = runs.of(Setup::new(phase, victims, mode));
                let value = measured.and_then(|measured| of(measured, measured.windows.first()?));
                let at =
                    [("u", name.as_str()), ("quantity", quantity), ("cleaning", mode.name), ("unit", unit)];
                rows.push(Row::shown(&at, value));
            }
        };
        let per_page = "per page of data";
        line("programs", per_page, &|_, window| Some(window.all_programs()));
        for &cause in &causes {
            line(&format!("for {}", cause.name()), per_page, &|_, window| Some(window.programs(cause)));
        }
        line("time", "µs per block", &|_, window| Some(window.us()));
        line("victims live", "%", &|_, window| window.victims_live().map(percent));
        line("file system full", "%", &|measured, _| Some(percent(measured.utilisation)));
    }
    for victims in VICTIMS {
        let setup = Setup::new(phase, victims, LOGICAL);
        rows.extend(gains(runs, setup));
    }
    Figure::new(figure, title, View::Table { down: &["u", "quantity"], across: "cleaning" }, rows).noted(note)
}

/// What logical copy saves, judged where the bands hold.
fn gains(runs: &Runs, setup: Setup) -> Vec<Row> {
    let why = runs.first(setup).map(|window| {
        let moved = window.programs(Cause::Gc);
        format!(
            "the drive itself programs {moved:.2} pages per page of data to collect the dead blocks; see the \
             figure on spare space"
        )
    });
    let row = |what: &str, unit: &str, paper, value, band| {
        let claim = format!("{what}, u = {}", setup.victims);
        let at = [("claim", claim.as_str()), ("unit", unit)];
        match setup.victims == JUDGED {
            true => Row::judged(&at, Some(paper), value, band).because(why.as_deref().unwrap_or_default()),
            false => Row::shown(&at, value),
        }
    };
    let programs = "flash programs, logical copy against read and write";
    let speed = "speed, logical copy against read and write";
    vec![
        row(programs, "%", PAPER_PROGRAMS, runs.programs(setup), PROGRAMS_BAND),
        row(speed, "times", PAPER_SPEED, runs.speed(setup), SPEED_BAND),
    ]
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

/// How long the drive can put off what the file system saves.
fn over_time(runs: &Runs) -> Figure {
    let mut rows = Vec::new();
    for mode in MODES {
        let windows = runs.of(Setup::new(Phase::Aged, JUDGED, mode)).map(|measured| &measured.windows);
        for (window, at) in windows.into_iter().flatten().zip(1..) {
            let coordinates = [("cleaning", mode.name), ("unit", "programs per page of data")];
            let mut row = Row::shown(&coordinates, Some(window.all_programs()));
            row.at.insert("windows_since_ageing".to_owned(), at.into());
            rows.push(row);
        }
    }
    Figure::new(
        "over-time",
        format!("flash programs from the end of ageing on; first victims {JUDGED} live"),
        View::Curves { of: "cleaning", over: "windows_since_ageing" },
        rows,
    )
    .noted(
        "a window is what the paper's Tiobench updates, 1/40 of the drive. Victims become emptier with time, \
             so that read and write needs fewer programs; logical copy needs more as soon as the spare space \
             is used up",
    )
}

/// Name, unit and value of what a table shows of one setup.
type Quantity = (&'static str, &'static str, fn(&Runs, Setup) -> Option<f64>);

const PROGRAMS: Quantity = ("programs", "%", |runs, setup| runs.programs(setup));
const SPEED: Quantity = ("speed", "times", |runs, setup| runs.speed(setup));

/// How much of the gain the drive takes back.
fn spare(runs: &Runs) -> Figure {
    const QUANTITIES: [Quantity; 3] = [
        PROGRAMS,
        SPEED,
        ("moved by the drive", "per page of data", |runs, setup| {
            Some(runs.first(setup)?.programs(Cause::Gc))
        }),
    ];
    let mut rows = Vec::new();
    for victims in VICTIMS {
        let name = format!("{victims}");
        for (quantity, unit, of) in QUANTITIES {
            for spare in SPARES {
                let setup = Setup { spare, ..Setup::new(Phase::Sustained, victims, LOGICAL) };
                let at =
                    [("u", name.as_str()), ("quantity", quantity), ("spare", spare.name), ("unit", unit)];
                rows.push(Row::shown(&at, of(runs, setup)));
            }
        }
    }
    Figure::new(
        "spare",
        "logical copy against read and write by the drive's spare space, sustained",
        View::Table { down: &["u", "quantity"], across: "spare" },
        rows,
    )
    .noted(
        "spare space is flash beyond the 4 GiB offered; 100 %: half of the flash is used. Read and write \
         does not depend on it, as the drive has nothing to move",
    )
}

/// What it is worth that the drive hears of every dead block.
fn told(runs: &Runs) -> Figure {
    const QUANTITIES: [Quantity; 2] = [PROGRAMS, SPEED];
    let habits = [("every dead block", Told::EveryBlock), ("cleaned segments only", Told::CleanedSegments)];
    let mut rows = Vec::new();
    for (name, told) in habits {
        for (quantity, unit, of) in QUANTITIES {
            for spare in SPARES {
                let setup = Setup { spare, told, ..Setup::new(Phase::Sustained, JUDGED, LOGICAL) };
                let at = [("trimmed", name), ("quantity", quantity), ("spare", spare.name), ("unit", unit)];
                rows.push(Row::shown(&at, of(runs, setup)));
            }
        }
    }
    Figure::new(
        "trims",
        format!("logical copy against read and write by what is trimmed, sustained, u = {JUDGED}"),
        View::Table { down: &["trimmed", "quantity"], across: "spare" },
        rows,
    )
    .noted(
        "the paper trims the blocks that have become invalid at each checkpoint; a file system that trims \
         whole segments only leaves the drive with what is dead in all others",
    )
}

/// How many copies the virtual map has to hold between two checkpoints.
fn virtual_map(runs: &Runs) -> Figure {
    const QUANTITIES: [Quantity; 3] = [
        ("programs", "per page of data", |runs, setup| Some(runs.first(setup)?.all_programs())),
        ("time", "µs per block", |runs, setup| Some(runs.first(setup)?.us())),
        ("copies without an entry", "%", |runs, setup| runs.first(setup)?.map_full().map(percent)),
    ];
    let judged = Setup::new(Phase::Sustained, JUDGED, LOGICAL);
    let setups = [
        (READ_WRITE.name.to_owned(), Setup { mode: READ_WRITE, ..judged }),
        (format!("{}, {ENTRIES} entries", LOGICAL.name), judged),
        (format!("{}, {FEW_ENTRIES} entries", LOGICAL.name), Setup { entries: FEW_ENTRIES, ..judged }),
    ];
    let mut rows = Vec::new();
    for (name, setup) in setups {
        let quantities = if setup.mode == LOGICAL { &QUANTITIES[..] } else { &QUANTITIES[..2] };
        for &(quantity, unit, of) in quantities {
            for batch_mib in BATCHES_MIB {
                let value = of(runs, Setup { batch_mib, ..setup });
                let batch = format!("{batch_mib} MiB");
                let at = [
                    ("cleaning", name.as_str()),
                    ("quantity", quantity),
                    ("per checkpoint", batch.as_str()),
                    ("unit", unit),
                ];
                rows.push(Row::shown(&at, value));
            }
        }
    }
    Figure::new(
        "virtual-map",
        format!("segments cleaned per checkpoint and entries of the virtual map, sustained, u = {JUDGED}"),
        View::Table { down: &["cleaning", "quantity"], across: "per checkpoint" },
        rows,
    )
    .noted(
        "an entry is in use from the copy to the trim after the next checkpoint; copies that find none are \
         read and programmed",
    )
}

/// What the paper's text says, and the nearest that was measured.
fn paper(runs: &Runs) -> Figure {
    let aged = |victims| Setup::new(Phase::Aged, victims, LOGICAL);
    let most = |of: &dyn Fn(Setup) -> Option<f64>, better: fn(f64, f64) -> f64| {
        VICTIMS.iter().filter_map(|&victims| of(aged(victims))).reduce(better)
    };
    let programs = most(&|setup| runs.programs(setup), f64::min);
    let speed = most(&|setup| runs.speed(setup), f64::max);
    let overhead = runs.first(aged(JUDGED)).map(|window| percent(window.all_programs() - 1.0));
    let rows = [
        ("flash programs against read and write, at best", "%", Some(PAPER_PROGRAMS), programs),
        ("speed against read and write, at best (Tiobench)", "times", Some(PAPER_SPEED), speed),
        ("speed against read and write, Copy&tar", "times", Some(2.8), None),
        ("speed against read and write, Dbench", "times", Some(1.5), None),
        ("speed against read and write, Varmail", "times", Some(1.3), None),
        ("programs beyond the data; in the paper 10 to 30 more than ext4", "%", None, overhead),
    ];
    let row =
        |(claim, unit, paper, value)| Row { paper, ..Row::shown(&[("claim", claim), ("unit", unit)], value) };
    Figure::new(
        "paper",
        "what the text says of figures 3 and 4, F2FS under benchmarks, and the microworkload",
        View::List,
        rows.map(row).into(),
    )
    .noted(
        "ours is nothing but cleaning, down to victims 0.9 live; the paper's also has the time of the \
             processor and the file system, whose writes no copy saves. Its utilisations are not legible in \
             the copy at hand",
    )
}
