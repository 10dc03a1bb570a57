//! Figures 3 and 4, what they would take, and what the text says of them.

use strobe_nand::Cause;

use super::kernel::{COMMAND_US, Case, Counted, FILLS, JUDGED, Mode, Program, Results, SOURCED_US};
use crate::figure::reduced;
use crate::{Band, Claim, Figure, Row, View};

/// Runs without any cleaning differ by so much, as requests come a little earlier or later: the least ratio that is
/// no loss.
const EQUAL: f64 = 0.98;

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    if !results.missing.is_empty() {
        return Vec::new();
    }
    vec![speed(results), writes(results), counted(results), command_time(results)]
}

fn unit(program: Program) -> &'static str {
    if program == Program::Dbench { "MiB/s" } else { "runs/s" }
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
    .noted("u: share of what an empty F2FS offers that the files of the ageing take; those of the benchmark come on top")
}

const CAUSES: [(&str, &[Cause]); 4] = [
    ("data", &[Cause::Host, Cause::Pad]),
    ("drive's own collection", &[Cause::Gc, Cause::Copy, Cause::Wear, Cause::Recovery]),
    ("map (L2P)", &[Cause::Map]),
    ("virtual map (P2L)", &[Cause::Meta]),
];

fn writes(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in Program::ALL {
        for (what, causes) in CAUSES {
            for fill in FILLS {
                let u = fill.to_string();
                for mode in Mode::ALL {
                    let of = results.find(Case::new(mode, program, fill));
                    let unit = if program == Program::Dbench { "MiB/MiB" } else { "MiB" };
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
            let of = results.find(Case::new(Mode::NlLc, program, fill));
            let at = [
                ("benchmark", program.name()),
                ("cause", "copied by the map"),
                ("u", u.as_str()),
                ("mode", Mode::NlLc.name()),
                ("unit", "MiB, not written"),
            ];
            rows.push(Row::new(&at, of.map(|of| of.copied as f64 / 256.0)));
        }
    }
    Figure::new(
        "4",
        "flash writes by cause",
        View::Bars { panel: &["benchmark", "cause"], group: "u", bar: "mode" },
        rows,
    )
    .noted("MiB programmed per run; of Dbench per MiB that it moves")
}

/// What would it take: the benchmark's files within u.
fn counted(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in [Program::CopyTar, Program::Dbench] {
        for (counted, name) in [(Counted::Ageing, "on top of u"), (Counted::All, "within u")] {
            let panel = format!("{}, its files {name}", program.name());
            for over in [Mode::NlRw, Mode::Org] {
                for fill in FILLS {
                    let case = |mode| Case { counted, ..Case::new(mode, program, fill) };
                    let ratio = over_other(results, case(Mode::NlLc), case(over));
                    let curve = format!("NL-LC over {}", over.name());
                    let at = [("run", panel.as_str()), ("ratio", curve.as_str()), ("unit", "times")];
                    rows.push(Row::new(&at, ratio).at("u", fill));
                }
            }
        }
    }
    Figure::new(
        "fill",
        "what would it take: speed of NL-LC by what is counted as u",
        View::Curves { panel: &["run"], of: "ratio", over: "u" },
        rows,
    )
    .noted(format!(
        "the paper: at most 2.8 and 1.2 for Copy&tar, 1.5 for Dbench; it does not say what it counts{}",
        where_met(results)
    ))
}

/// At which u NL-LC over NL-RW is what the paper has at most, by straight lines between those that were run.
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
                text += &format!("; {} has its {paper} at u = {u:.2} {name}", program.name());
            }
        }
    }
    text
}

/// Where a curve of straight lines between `points` first rises to `to`.
fn crossing(points: &[(f64, f64)], to: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let [(x, y), (x_after, y_after)] = *pair else { return None };
        (y <= to && to < y_after).then(|| x + (x_after - x) * (to - y) / (y_after - y))
    })
}

fn command_time(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for program in [Program::Tiobench, Program::CopyTar] {
        for us in [COMMAND_US, SOURCED_US] {
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
        format!("what would it take: performance by the time for a command, at u = {JUDGED}"),
        View::Bars { panel: &["benchmark"], group: "command", bar: "mode" },
        rows,
    )
}

/// How many times as fast the first is.
fn over_other(results: &Results, ours: Case, theirs: Case) -> Option<f64> {
    Some(results.find(ours)?.speed / results.find(theirs)?.speed)
}

/// What the text says of benchmarks.
pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let mut claims = speeds(results);
    claims.extend(amounts(results));
    claims.into_iter().map(|claim| claim.unless_run(results.missing)).collect()
}

const DIRECTION: &str = "a direction";

fn speeds(results: &Results) -> Vec<Claim> {
    let over = |program, other, fill| {
        over_other(results, Case::new(Mode::NlLc, program, fill), Case::new(other, program, fill))
    };
    let on_top = "its files come on top of u: figure fill";
    let mut claims = Vec::new();
    for (program, paper, was, why) in [
        (Program::Tiobench, 3.0, "2 to 5", "guess: a kernel ten years younger, a host that takes no time"),
        (Program::CopyTar, 2.8, "2 to 3.5", on_top),
        (Program::Varmail, 1.3, "1.1 to 1.8", "guess: a kernel ten years younger, a host that takes no time"),
        (
            Program::Dbench,
            1.5,
            "1.1 to 1.8",
            "open: it is the u; ours has 1.5 at 0.6, on top or within: figure fill",
        ),
    ] {
        let text = format!("{}: NL-LC over NL-RW at u = 0.8", program.name());
        let band = Band::ratio(paper, 0.25, "25 %: \"up to\", at a u that is not legible").was(was);
        let measured = over(program, Mode::NlRw, JUDGED);
        claims.push(Claim::new("3", text, "times", Some(paper), measured, band).because(why));
    }
    let within = Case { counted: Counted::All, ..Case::new(Mode::NlLc, Program::CopyTar, JUDGED) };
    let all = Program::ALL.into_iter().flat_map(|program| FILLS.map(|fill| over(program, Mode::NlRw, fill)));
    let grows = over(Program::Tiobench, Mode::NlRw, JUDGED)
        .zip(over(Program::Tiobench, Mode::NlRw, FILLS[0]))
        .map(|(high, low)| high / low);
    let small = [Mode::Ext4, Mode::Org].map(|other| over(Program::Tiobench, other, JUDGED));
    let ext4 = [Mode::Org, Mode::NlRw, Mode::NlLc].map(|mode| {
        over_other(
            results,
            Case::new(Mode::Ext4, Program::CopyTar, JUDGED),
            Case::new(mode, Program::CopyTar, JUDGED),
        )
    });
    let slow_for = |program, mode| Case { command_us: SOURCED_US, ..Case::new(mode, program, JUDGED) };
    let slow = |mode| slow_for(Program::CopyTar, mode);
    let small_and_slow = [Mode::Ext4, Mode::Org].map(|other| {
        over_other(results, slow_for(Program::Tiobench, Mode::NlLc), slow_for(Program::Tiobench, other))
    });
    claims.extend([
        Claim::new(
            "3",
            "Copy&tar: NL-LC over NL-RW, its files within u = 0.8",
            "times",
            Some(2.8),
            over_other(results, within, Case { mode: Mode::NlRw, ..within }),
            Band::range(2.0, 3.5, [Some(1.0), None], "2 to 3.5: \"up to\", at a u that is not legible"),
        )
        .because("the u at which it is 2.8: figure fill"),
        Claim::new(
            "3",
            "NL-LC over NL-RW, the least of all benchmarks and u",
            "times",
            None,
            reduced(all, f64::min),
            Band::at_least(EQUAL, "a direction; 2 % count as equal"),
        ),
        Claim::new(
            "3",
            "Tiobench: that ratio at u = 0.8 over that at 0.5",
            "times",
            None,
            grows,
            Band::at_least(1.0, DIRECTION),
        ),
        Claim::new(
            "3",
            "Tiobench: NL-LC over EXT4 and ORG, the less, at u = 0.8",
            "times",
            None,
            reduced(small, f64::min),
            Band::at_least(1.0, DIRECTION),
        )
        .because("the preset's 20 µs a command have no source: the next line"),
        Claim::new(
            "3",
            "the same, 176 µs a command (TRIM paper)",
            "times",
            None,
            reduced(small_and_slow, f64::min),
            Band::at_least(1.0, DIRECTION),
        )
        .because("about equal to ORG, and slower than EXT4: figure kernel-command-time"),
        Claim::new(
            "3",
            "Copy&tar: NL-LC over ORG at u = 0.8, 20 µs a command (preset)",
            "times",
            Some(1.2),
            over(Program::CopyTar, Mode::Org, JUDGED),
            Band::ratio(1.2, 0.25, "25 %: \"up to\"").was("1 to 2"),
        )
        .because("figures kernel-command-time and fill"),
        Claim::new(
            "3",
            "the same, 176 µs a command (TRIM paper)",
            "times",
            Some(1.2),
            over_other(results, slow(Mode::NlLc), slow(Mode::Org)),
            Band::ratio(1.2, 0.25, "25 %: \"up to\""),
        )
        .because("figure kernel-command-time"),
        Claim::new(
            "3",
            "Copy&tar: EXT4 over the fastest F2FS at u = 0.8",
            "times",
            None,
            reduced(ext4, f64::min),
            Band::at_least(1.0, DIRECTION),
        )
        .because("guess: chance. On a quarter of the drive EXT4's time differs by half with 480 to 544 MiB of guest memory"),
    ]);
    claims
}

fn amounts(results: &Results) -> Vec<Claim> {
    let judged = |mode, program| results.find(Case::new(mode, program, JUDGED));
    let change = |program, other| {
        let (ours, theirs) = (judged(Mode::NlLc, program)?, judged(other, program)?);
        Some(100.0 * (ours.all_written() / theirs.all_written() - 1.0))
    };
    // The paper's "up to 80 %" and its 10 to 30 % are about these two.
    let two = [Program::Tiobench, Program::CopyTar];
    let most = two.into_iter().filter_map(|program| change(program, Mode::NlRw)).reduce(f64::min);
    let mut claims = vec![
        Claim::new(
            "4",
            "flash writes, NL-LC against NL-RW: most of Tiobench, Copy&tar",
            "%",
            Some(-80.0),
            most,
            Band::around(-80.0, 8.0, "8 points: \"up to 80 %\"").was("-85 to -60"),
        )
        .because("where u is counted: figure fill"),
    ];
    for program in two {
        claims.push(
            Claim::new(
                "4",
                format!("{}: flash writes, NL-LC against EXT4", program.name()),
                "% more",
                None,
                change(program, Mode::Ext4),
                Band::range(10.0, 30.0, [Some(0.0), None], "what the text says: 10 to 30 %"),
            )
            .because("figure 4 by cause"),
        );
    }
    for program in [Program::Varmail, Program::Dbench] {
        let share = |mode| judged(mode, program).map(super::kernel::Measured::map_share);
        let random = reduced([share(Mode::Ext4), share(Mode::Org)], f64::min);
        let log = reduced([share(Mode::NlRw), share(Mode::NlLc)], f64::max);
        claims.push(
            Claim::new(
                "4",
                format!("{}: map share of EXT4, ORG (less) over NL (more)", program.name()),
                "times",
                None,
                random.zip(log).map(|(random, log)| random / log),
                Band::at_least(1.0, DIRECTION),
            )
            .because("figure 4 by cause"),
        );
    }
    claims
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
