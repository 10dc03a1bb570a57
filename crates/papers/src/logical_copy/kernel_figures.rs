//! Figures 3 and 4, and their sensitivity to the definition of u, command time and memory of the host.

use strobe_nand::Cause;

use super::cases::{
    COMPARED, Case, Counted, FILLS, FILLS_INFERRED, FILLS_WITHIN, HOSTS_MIB, JUDGED, Mode, Program,
};
use super::kernel::{Measured, Results};
use super::{COMMAND_US, INFERRED_US};
use crate::{Figure, Row, View};

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    if !results.missing.is_empty() {
        return Vec::new();
    }
    let mut figures = vec![speed(results), writes(results), counted(results), hosts(results)];
    if results.has_inferred_time() {
        figures.push(command_time(results));
    }
    figures
}

fn unit(program: Program) -> &'static str {
    if program == Program::Dbench { "MB/s" } else { "runs/s" }
}

fn speed(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in Program::ALL {
        for fill in FILLS {
            let u = fill.to_string();
            for mode in Mode::ALL {
                let of = results.find(Case::new(mode, program, fill));
                let at = [
                    ("benchmark", program.name()),
                    ("u", u.as_str()),
                    ("mode", mode.name()),
                    ("unit", unit(program)),
                ];
                rows.push(Row::new(&at, of.map(|of| of.speed)));
            }
        }
    }
    Figure::new(
        "3",
        "performance after ageing",
        View::Bars { panel: &["benchmark"], group: "u", bar: "mode" },
        rows,
    )
    .noted("u: share of the capacity of an empty F2FS used by the files of the ageing; the benchmark's files are extra")
}

const CAUSES: [(&str, &[Cause]); 5] = [
    ("data", &[Cause::Host, Cause::Pad]),
    ("drive's own collection", &[Cause::Gc, Cause::Copy, Cause::Wear, Cause::Recovery]),
    ("map (L2P)", &[Cause::Map]),
    ("virtual map", &[Cause::Meta]),
    ("owners' lists (P2L)", &[Cause::P2l]),
];

fn writes(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in Program::ALL {
        for (what, causes) in CAUSES {
            for fill in FILLS {
                let u = fill.to_string();
                for mode in Mode::ALL {
                    let of = results.find(Case::new(mode, program, fill));
                    let unit = if program == Program::Dbench { "MiB/MB" } else { "MiB" };
                    let at = [
                        ("benchmark", program.name()),
                        ("cause", what),
                        ("u", u.as_str()),
                        ("mode", mode.name()),
                        ("unit", unit),
                    ];
                    rows.push(Row::new(&at, of.map(|of| of.written(causes))));
                }
            }
        }
        for fill in FILLS {
            let u = fill.to_string();
            // Data copied by map updates alone is not programmed, so it gets a separate panel.
            let of = results.find(Case::new(Mode::NlLc, program, fill));
            let at = [
                ("benchmark", program.name()),
                ("cause", "copied by the map"),
                ("u", u.as_str()),
                ("mode", Mode::NlLc.name()),
                ("unit", "MiB, not written"),
            ];
            rows.push(Row::new(&at, of.map(Measured::copied_mib)));
        }
    }
    Figure::new(
        "4",
        "flash writes by cause",
        View::Bars { panel: &["benchmark", "cause"], group: "u", bar: "mode" },
        rows,
    )
    .noted("MiB programmed per run; Dbench: per MB (10⁶ bytes) that it transfers")
}

fn counted(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in [Program::CopyTar, Program::Dbench] {
        let both = [(Counted::Ageing, "on top of u", &FILLS[..]), (Counted::All, "within u", &FILLS_WITHIN)];
        for (counted, name, fills) in both {
            let panel = format!("{}, its files {name}", program.name());
            for over in [Mode::NlRw, Mode::Org] {
                for &fill in fills {
                    let case = |mode| Case { counted, ..Case::new(mode, program, fill) };
                    let ratio = over_other(results, case(Mode::NlLc), case(over));
                    let curve = format!("NL-LC over {}", over.name());
                    let at = [("run", panel.as_str()), ("ratio", curve.as_str()), ("unit", "times")];
                    rows.push(Row::new(&at, ratio).at("u", fill));
                }
            }
            // At the inferred command time only Copy&tar runs at more than one u.
            if program == Program::CopyTar && results.has_inferred_time() {
                for fill in FILLS_INFERRED {
                    let case =
                        |mode| Case { counted, command_us: INFERRED_US, ..Case::new(mode, program, fill) };
                    let ratio = over_other(results, case(Mode::NlLc), case(Mode::Org));
                    let curve = format!("NL-LC over ORG, {INFERRED_US} µs a command");
                    let at = [("run", panel.as_str()), ("ratio", curve.as_str()), ("unit", "times")];
                    rows.push(Row::new(&at, ratio).at("u", fill));
                }
            }
        }
    }
    Figure::new(
        "fill",
        "speed of NL-LC by the definition of u",
        View::Curves { panel: &["run"], of: "ratio", over: "u" },
        rows,
    )
    .noted(format!(
        "the paper: at most 2.8 and 1.2 for Copy&tar, 1.5 for Dbench; it does not define u. \
         Runs of the host with {} MB{}",
        HOSTS_MIB[0],
        where_met(results)
    ))
}

/// Values of u where NL-LC over NL-RW equals the paper's maximum, by linear interpolation.
fn where_met(results: &Results) -> String {
    let mut text = String::new();
    for (program, paper) in [(Program::CopyTar, 2.8), (Program::Dbench, 1.5)] {
        for (counted, name) in [(Counted::Ageing, "on top"), (Counted::All, "within")] {
            let ratio = |fill| {
                let case = |mode| Case { counted, ..Case::new(mode, program, fill) };
                Some((fill, over_other(results, case(Mode::NlLc), case(Mode::NlRw))?))
            };
            let known: Vec<(f64, f64)> = FILLS.into_iter().filter_map(ratio).collect();
            if let Some(u) = crossing(&known, paper) {
                text += &format!("; {} reaches {paper} at u = {u:.2} (files {name})", program.name());
            }
        }
    }
    text
}

/// First x where the linear interpolation of `points` rises to `to`.
fn crossing(points: &[(f64, f64)], to: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let [(x, y), (x_after, y_after)] = *pair else { return None };
        (y <= to && to < y_after).then(|| x + (x_after - x) * (to - y) / (y_after - y))
    })
}

fn command_time(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in [Program::Tiobench, Program::CopyTar] {
        for us in [COMMAND_US, INFERRED_US] {
            let name = format!("{us} µs a command");
            for mode in Mode::ALL {
                let of = results.find(Case { command_us: us, ..Case::new(mode, program, JUDGED) });
                let at = [
                    ("benchmark", program.name()),
                    ("command", name.as_str()),
                    ("mode", mode.name()),
                    ("unit", unit(program)),
                ];
                rows.push(Row::new(&at, of.map(|of| of.speed)));
            }
        }
    }
    Figure::new(
        "kernel-command-time",
        format!("performance by command time, at u = {JUDGED}"),
        View::Bars { panel: &["benchmark"], group: "command", bar: "mode" },
        rows,
    )
}

/// Spread of single runs: the same case on hosts with slightly different memory.
fn hosts(results: &Results) -> Figure {
    let mut runs = Vec::new();
    for program in COMPARED {
        for &us in &results.commands_us {
            let of = |mode| Case { command_us: us, ..Case::new(mode, program, JUDGED) };
            runs.push((
                format!("{}, {us} µs a command", program.name()),
                [Mode::Ext4, Mode::Org, Mode::NlLc].map(of).to_vec(),
            ));
        }
    }
    let within = |mode| Case { counted: Counted::All, ..Case::new(mode, Program::CopyTar, JUDGED) };
    runs.push(("Copy&tar, its files within u".into(), [Mode::NlRw, Mode::NlLc].map(within).to_vec()));
    let mut rows = Vec::new();
    for (panel, cases) in &runs {
        for case in cases {
            let mut hosts = case.hosts();
            // The default host comes first in `HOSTS_MIB`; a curve needs ascending coordinates.
            hosts.sort_by_key(|case| case.memory_mib);
            for case in hosts {
                let unit = unit(case.program);
                let at = [("run", panel.as_str()), ("mode", case.mode.name()), ("unit", unit)];
                let speed = results.find(case).map(|of| of.speed);
                rows.push(Row::new(&at, speed).at("memory_mib", case.memory_mib.into()));
            }
        }
    }
    Figure::new(
        "hosts",
        format!("single runs at u = {JUDGED} over the memory of the host"),
        View::Curves { panel: &["run"], of: "mode", over: "memory_mib" },
        rows,
    )
    .noted(
        "each host has its own aged file system. Dirty pages are written back at a share of the memory, so a few MiB decide \
         which pages are written together. Claims on NL-LC against EXT4 and ORG, and on Copy&tar within u, use the means of \
         these runs with a standard error",
    )
}

pub(super) fn over_other(results: &Results, ours: Case, theirs: Case) -> Option<f64> {
    Some(results.find(ours)?.speed / results.find(theirs)?.speed)
}

#[cfg(test)]
mod tests {
    use super::crossing;

    #[test]
    fn a_curve_is_read_between_its_points() {
        let points = [(0.5, 1.0), (0.6, 2.0), (0.7, 4.0)];
        assert!((crossing(&points, 3.0).expect("there") - 0.65).abs() < 1e-12);
        assert_eq!(crossing(&points, 1.0), Some(0.5));
        assert_eq!(crossing(&points, 4.0), None, "what it ends with is not passed");
        assert_eq!(crossing(&points[..1], 1.0), None);
    }
}
