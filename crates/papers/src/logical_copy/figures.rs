use strobe_nand::Cause;

use strobe_workload::lfs::Trims;

use super::claims::of_model;
use super::measure::{Measured, Window};
use super::premise::Premise;
use super::runs::Runs;
use super::{
    BATCHES_MIB, COMMANDS_US, ENTRIES, FEW_ENTRIES, FILE_SYSTEMS, INFERRED_US, JUDGED, LOGICAL, MODELS,
    MODES, ORG, PARTS, Phase, READ_WRITE, SPARES, Setup, VICTIMS,
};
use crate::{Figure, Row, View};

pub(super) fn all(runs: &Runs<'_>, premises: &[Premise], is_set: bool) -> Vec<Figure> {
    vec![
        models(runs, premises),
        stand_ins(runs),
        command_time(runs),
        partial_map(runs, is_set),
        cleaning(
            runs,
            Phase::Aged,
            "lfs-clean",
            "segment cleaning right after ageing, as in the paper",
            "v is the live share of the segments cleaned. Read and write should program 1/(1 − v) pages per page of \
             data, as it rewrites the share v of a victim",
        ),
        cleaning(
            runs,
            Phase::Sustained,
            "sustained",
            "sustained segment cleaning, with collection by the drive",
            "with logical copy the dead blocks around the live ones stay on flash, and the drive must collect what \
             the file system no longer cleans",
        ),
        over_time(runs),
        spare(runs),
        trims(runs),
        virtual_map(runs),
    ]
}

fn models(runs: &Runs<'_>, premises: &[Premise]) -> Figure {
    let mut rows = Vec::new();
    for model in MODELS {
        let judged = Setup { model, ..Setup::new(Phase::Aged, JUDGED, LOGICAL) };
        let inferred = runs.speed_over(Setup { command_us: INFERRED_US, ..judged }, ORG);
        let others = [
            // Claims that `of_model` does not compute.
            ("premise", premises.iter().find(|of| of.model == model).map(Premise::share)),
            ("alone-org-preset", runs.speed_over(judged, ORG)),
            ("alone-org-inferred", inferred),
        ];
        for (id, value) in of_model(runs, model).into_iter().chain(others) {
            let unit = if matches!(id, "alone-writes" | "alone-ext4") { "%" } else { "times" };
            rows.push(Row::new(&[("claim", id), ("model", model.name), ("unit", unit)], value));
        }
        for mode in FILE_SYSTEMS {
            let first = runs.first(Setup { mode, ..judged });
            for (quantity, unit, value) in [
                ("speed", "MB/s", first.map(|window| 4096.0 / window.us())),
                ("programs", "per page of data", first.map(Window::all_programs)),
                ("for map", "per page of data", first.map(|window| window.programs(Cause::Map))),
                ("for meta", "per page of data", first.map(|window| window.programs(Cause::Meta))),
                ("for P2L", "per page of data", first.map(|window| window.programs(Cause::P2l))),
            ] {
                let line = format!("{}: {quantity}", label(mode.name));
                rows.push(Row::new(
                    &[("claim", line.as_str()), ("model", model.name), ("unit", unit)],
                    value,
                ));
            }
        }
    }
    Figure::new(
        "models",
        format!("claims of the drive alone by model of the board; speeds and programs at v = {JUDGED}"),
        View::Table { down: &["claim", "unit"], across: "model" },
        rows,
    )
    .noted(
        "journal: any bank, any order, a write-back cache of 32 MB, a journal of map entries; map pages: the same with the map \
         in pages; shipped firmware: the address decides the bank, one waiting slot, 256 KB of staging, map pages, owners' lists",
    )
}

fn cleaning(runs: &Runs<'_>, phase: Phase, figure: &str, title: &str, note: &str) -> Figure {
    let mut rows = Vec::new();
    // Only causes that program a page in some run of this phase.
    let causes: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|&cause| runs.windows(phase).any(|window| window.programs(cause) > 0.0))
        .collect();
    for victims in VICTIMS {
        let name = format!("{victims}");
        let mut line = |quantity: &str, unit: &str, of: &dyn Fn(&Measured, &Window) -> Option<f64>| {
            for mode in MODES {
                let measured = runs.of(Setup::new(phase, victims, mode));
                let value = measured.and_then(|measured| of(measured, measured.windows.first()?));
                let at =
                    [("v", name.as_str()), ("quantity", quantity), ("cleaning", mode.name), ("unit", unit)];
                rows.push(Row::new(&at, value));
            }
        };
        let per_page = "per page of data";
        line("programs", per_page, &|_, window| Some(window.all_programs()));
        for &cause in &causes {
            line(&format!("for {}", cause.name()), per_page, &|_, window| Some(window.programs(cause)));
        }
        line("time", "µs per block", &|_, window| Some(window.us()));
        line("victims live", "%", &|_, window| window.victims_live().map(percent));
        line("file system full", "%", &|measured, _| Some(percent(measured.fill)));
    }
    for victims in VICTIMS {
        let (setup, name) = (Setup::new(phase, victims, LOGICAL), format!("{victims}"));
        let gains = [
            ("programs against read and write", "%", runs.programs(setup)),
            ("speed against read and write", "times", runs.speed(setup)),
        ];
        for (quantity, unit, value) in gains {
            let at =
                [("v", name.as_str()), ("quantity", quantity), ("cleaning", LOGICAL.name), ("unit", unit)];
            rows.push(Row::new(&at, value));
        }
    }
    Figure::new(figure, title, View::Bars { panel: &["quantity"], group: "v", bar: "cleaning" }, rows)
        .noted(note)
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

fn over_time(runs: &Runs<'_>) -> Figure {
    // The drive can defer the work that the file system saves only while it has spare space.
    let mut rows = Vec::new();
    for mode in MODES {
        let windows = runs.of(Setup::new(Phase::Aged, JUDGED, mode)).map(|measured| &measured.windows);
        for (window, at) in windows.into_iter().flatten().zip(1..) {
            let coordinates = [("cleaning", mode.name), ("unit", "programs per page of data")];
            let mut row = Row::new(&coordinates, Some(window.all_programs()));
            row.at.insert("windows_since_ageing".to_owned(), at.into());
            rows.push(row);
        }
    }
    Figure::new(
        "over-time",
        format!("flash programs from the end of ageing on; first victims {JUDGED} live"),
        View::Curves { panel: &[], of: "cleaning", over: "windows_since_ageing" },
        rows,
    )
    .noted(
        "a window has the updates of the paper's Tiobench, 1/40 of the drive. Victims become emptier with time, \
             so read and write needs fewer programs; logical copy needs more as soon as the spare space \
             is used up",
    )
}

/// Name, unit and value of a quantity.
type Quantity = (&'static str, &'static str, fn(&Runs<'_>, Setup) -> Option<f64>);

const PROGRAMS: Quantity = ("programs", "%", |runs, setup| runs.programs(setup));
const SPEED: Quantity = ("speed", "times", |runs, setup| runs.speed(setup));

fn spare(runs: &Runs<'_>) -> Figure {
    const QUANTITIES: [Quantity; 3] = [
        PROGRAMS,
        SPEED,
        ("moved by the drive", "per page of data", |runs, setup| {
            Some(runs.first(setup)?.programs(Cause::Gc))
        }),
    ];
    // Part of the gain is lost to collection by the drive.
    let mut rows = Vec::new();
    for victims in VICTIMS {
        let name = format!("{victims}");
        for (quantity, unit, of) in QUANTITIES {
            for spare in SPARES {
                let setup = Setup { spare, ..Setup::new(Phase::Sustained, victims, LOGICAL) };
                let at =
                    [("v", name.as_str()), ("quantity", quantity), ("spare", spare.name), ("unit", unit)];
                rows.push(Row::new(&at, of(runs, setup)));
            }
        }
    }
    Figure::new(
        "spare",
        "logical copy against read and write by the drive's spare space, sustained",
        View::Bars { panel: &["quantity"], group: "v", bar: "spare" },
        rows,
    )
    .noted(
        "spare space is flash beyond the logical 4 GiB; 100 %: half of the flash is used. Read and write \
         does not depend on it, as the drive moves nothing",
    )
}

/// Gain from trims of every dead block.
fn trims(runs: &Runs<'_>) -> Figure {
    const QUANTITIES: [Quantity; 2] = [PROGRAMS, SPEED];
    let habits = [("every dead block", Trims::EveryBlock), ("cleaned segments only", Trims::CleanedSegments)];
    let mut rows = Vec::new();
    for (name, trims) in habits {
        for (quantity, unit, of) in QUANTITIES {
            for spare in SPARES {
                let setup = Setup { spare, trims, ..Setup::new(Phase::Sustained, JUDGED, LOGICAL) };
                let at = [("trimmed", name), ("quantity", quantity), ("spare", spare.name), ("unit", unit)];
                rows.push(Row::new(&at, of(runs, setup)));
            }
        }
    }
    Figure::new(
        "trims",
        format!("logical copy against read and write by what is trimmed, sustained, v = {JUDGED}"),
        View::Bars { panel: &["quantity"], group: "trimmed", bar: "spare" },
        rows,
    )
    .noted(
        "the paper trims the invalid blocks at each checkpoint; if the file system trims only cleaned segments, the \
         drive keeps the dead blocks of all others",
    )
}

/// Number of copies that the virtual map must hold between two checkpoints.
fn virtual_map(runs: &Runs<'_>) -> Figure {
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
        // Read and write makes no copies.
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
                rows.push(Row::new(&at, value));
            }
        }
    }
    Figure::new(
        "virtual-map",
        format!("segments cleaned per checkpoint and entries of the virtual map, sustained, v = {JUDGED}"),
        View::Bars { panel: &["quantity"], group: "per checkpoint", bar: "cleaning" },
        rows,
    )
    .noted(
        "an entry is in use from the copy to the trim after the next checkpoint; copies without a free entry are \
         read and programmed",
    )
}

fn stand_ins(runs: &Runs<'_>) -> Figure {
    let mut rows = Vec::new();
    for (quantity, unit) in [
        ("speed", "MB/s"),
        ("programs", "per page of data"),
        ("of these, map and journal", "%"),
        ("the same, every update flushed", "%"),
    ] {
        for victims in VICTIMS {
            let v = format!("{victims}");
            for mode in FILE_SYSTEMS {
                let setup = Setup::new(Phase::Aged, victims, mode);
                let value = match quantity {
                    "speed" => runs.first(setup).map(|window| 4096.0 / window.us()),
                    "programs" => runs.first(setup).map(Window::all_programs),
                    "of these, map and journal" => runs.map_share(setup),
                    // Flushed runs exist at the judged v only.
                    _ if victims == JUDGED => runs.map_share(Setup { sync: true, ..setup }),
                    _ => continue,
                };
                let at = [
                    ("quantity", quantity),
                    ("v", v.as_str()),
                    ("file system", label(mode.name)),
                    ("unit", unit),
                ];
                rows.push(Row::new(&at, value));
            }
        }
    }
    Figure::new(
        "stand-ins",
        "figures 3 and 4 on the drive alone: updates of 16 KB by file system",
        View::Bars { panel: &["quantity"], group: "v", bar: "file system" },
        rows,
    )
    .noted("right after ageing; v is the live share of the segments that NL-RW and NL-LC clean; the files have the same size in all modes")
}

fn label(mode: &'static str) -> &'static str {
    match mode {
        name if name == READ_WRITE.name => "NL-RW",
        name if name == LOGICAL.name => "NL-LC",
        name => name,
    }
}

fn command_time(runs: &Runs<'_>) -> Figure {
    let mut rows = Vec::new();
    for us in COMMANDS_US {
        for mode in FILE_SYSTEMS {
            let setup = Setup { command_us: us, ..Setup::new(Phase::Aged, JUDGED, mode) };
            let speed = runs.first(setup).map(|window| 4096.0 / window.us());
            let at = [("quantity", "speed"), ("file system", label(mode.name)), ("unit", "MB/s")];
            rows.push(Row::new(&at, speed).at("command_us", f64::from(us)));
        }
        let setup = Setup { command_us: us, ..Setup::new(Phase::Aged, JUDGED, LOGICAL) };
        for over in [ORG, READ_WRITE] {
            let name = format!("NL-LC over {}", label(over.name));
            let at = [("quantity", "ratio"), ("file system", name.as_str()), ("unit", "times")];
            rows.push(Row::new(&at, runs.speed_over(setup, over)).at("command_us", f64::from(us)));
        }
    }
    Figure::new(
        "command-time",
        format!("speed of the stand-ins by command time in µs, v = {JUDGED}"),
        View::Curves { panel: &["quantity"], of: "file system", over: "command_us" },
        rows,
    )
    .noted(
        "the preset's 20 µs have no source; 176 µs are inferred from the TRIM paper's time of a TRIM command of one range on the \
             same board",
    )
}

fn partial_map(runs: &Runs<'_>, is_set: bool) -> Figure {
    let time = if is_set {
        "command time set by the user".to_owned()
    } else {
        format!("{INFERRED_US} µs a command")
    };
    // Loading of map pages on demand is the paper's fourth reason for slow random writes.
    let mut rows = Vec::new();
    for in_memory in PARTS {
        let setup = Setup { in_memory, command_us: INFERRED_US, ..Setup::new(Phase::Aged, JUDGED, LOGICAL) };
        for over in [ORG, READ_WRITE] {
            let name = format!("NL-LC over {}", label(over.name));
            let ratios = [
                ("speed", "times", runs.speed_over(setup, over)),
                ("programs", "%", runs.programs_over(setup, over)),
            ];
            for (quantity, unit, value) in ratios {
                let at = [
                    ("quantity", quantity),
                    ("in memory", in_memory.name),
                    ("against", name.as_str()),
                    ("unit", unit),
                ];
                rows.push(Row::new(&at, value));
            }
        }
    }
    Figure::new(
        "dftl",
        format!("a partly loaded map, by the share in memory; {time}, v = {JUDGED}"),
        View::Bars { panel: &["quantity"], group: "in memory", bar: "against" },
        rows,
    )
    .noted(
        "all: the page map; others: DFTL, with its map on flash. A logical copy looks up two entries per block. The virtual map \
             is always in memory",
    )
}
