//! What the text says of figures 3 and 4.

use strobe_nand::Cause;

use super::cases::{Case, Counted, FILLS, JUDGED, Mode, Program};
use super::kernel::{Measured, Results};
use super::kernel_figures::over_other;
use super::{COMMAND_US, INFERRED_US};
use crate::figure::reduced;
use crate::mean::Ratio;
use crate::{Band, Claim};

/// Runs without any cleaning differ by so much, as requests come a little earlier or later: the least ratio that is
/// no loss.
const EQUAL: f64 = 0.98;

/// What the text says of benchmarks.
pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let mut claims = speeds(results);
    claims.extend(against_others(results));
    claims.extend(cleaning(results));
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
        (Program::Dbench, 1.5, "1.1 to 1.8", "open: the u, or the number of clients: figure fill"),
    ] {
        let text = format!("{}: NL-LC over NL-RW at u = 0.8", program.name());
        let band = Band::ratio(paper, 0.25, "25 %: \"up to\", at a u that is not legible").was(was);
        let measured = over(program, Mode::NlRw, JUDGED);
        claims.push(Claim::new("3", text, "times", Some(paper), measured, band).because(why));
    }
    let within = Case { counted: Counted::All, ..Case::new(Mode::NlLc, Program::CopyTar, JUDGED) };
    let all = Program::ALL.into_iter().flat_map(|program| FILLS.map(|fill| over(program, Mode::NlRw, fill)));
    let read_write = |program, fill| Some(results.find(Case::new(Mode::NlRw, program, fill))?.speed);
    let slows = Program::ALL.into_iter().flat_map(|program| {
        FILLS.windows(2).map(move |pair| Some(read_write(program, pair[1])? / read_write(program, pair[0])?))
    });
    let grows = over(Program::Tiobench, Mode::NlRw, JUDGED)
        .zip(over(Program::Tiobench, Mode::NlRw, FILLS[0]))
        .map(|(high, low)| high / low);
    let speed_within = results.over(within, Case { mode: Mode::NlRw, ..within });
    claims.extend([
        Claim::new(
            "3",
            "Copy&tar: NL-LC over NL-RW, its files within u = 0.8",
            "times",
            Some(2.8),
            speed_within.map(|ratio| ratio.value),
            Band::ratio(2.8, 0.25, "25 %: \"up to\", at a u that is not legible").was("2 to 3.5"),
        )
        .give_or_take(speed_within.and_then(|ratio| ratio.error))
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
            "NL-RW's speed, from one u to a larger one: most of all benchmarks",
            "times",
            None,
            reduced(slows, f64::max),
            Band::at_most(1.0, DIRECTION),
        ),
    ]);
    claims
}

/// NL-LC beside what does not clean. Without cleaning a run depends on when dirty pages are written back, so means of
/// several hosts are judged, with their errors.
fn against_others(results: &Results) -> Vec<Claim> {
    let case = |mode, program, command_us| Case { command_us, ..Case::new(mode, program, JUDGED) };
    let preset = |text: &str| match results.has_inferred_time() {
        true => format!("{text}, {COMMAND_US} µs a command (preset)"),
        false => format!("{text}, at the time of a command that is set"),
    };
    let inferred = || format!("the same, {INFERRED_US} µs a command (inferred from a TRIM)");
    let mut claims = Vec::new();
    let mut judge =
        |text: &str, paper, band: fn() -> Band, whys: [&str; 2], of: &dyn Fn(u32) -> Option<Ratio>| {
            for (&us, why) in results.commands_us.iter().zip(whys) {
                let ratio = of(us);
                let text = if us == COMMAND_US { preset(text) } else { inferred() };
                let claim = Claim::new("3", text, "times", paper, ratio.map(|ratio| ratio.value), band());
                claims.push(claim.because(why).give_or_take(ratio.and_then(|ratio| ratio.error)));
            }
        };
    let direction = || Band::at_least(1.0, DIRECTION);
    judge(
        "Tiobench: NL-LC over the faster of EXT4 and ORG at u = 0.8",
        None,
        direction,
        [
            "the preset's time of a command has no source: the next line",
            "figures kernel-command-time and hosts",
        ],
        &|us| {
            let over = |other| {
                let [ours, theirs] = [Mode::NlLc, other].map(|mode| case(mode, Program::Tiobench, us));
                results.over(ours, theirs)
            };
            least([over(Mode::Ext4), over(Mode::Org)])
        },
    );
    judge(
        "Copy&tar: NL-LC over ORG at u = 0.8",
        Some(1.2),
        || Band::ratio(1.2, 0.25, "25 %: \"up to\"").was("1 to 2"),
        ["\"up to\" may be of another u: figures fill and kernel-command-time"; 2],
        &|us| {
            let [ours, theirs] = [Mode::NlLc, Mode::Org].map(|mode| case(mode, Program::CopyTar, us));
            results.over(ours, theirs)
        },
    );
    judge("Copy&tar: EXT4 over the fastest F2FS at u = 0.8", None, direction, ["figure hosts"; 2], &|us| {
        // NL-RW is the slowest by far: figure 3.
        let over = |other| {
            let [ours, theirs] = [Mode::Ext4, other].map(|mode| case(mode, Program::CopyTar, us));
            results.over(ours, theirs)
        };
        least([over(Mode::Org), over(Mode::NlLc)])
    });
    // By the text Copy&tar is the exception: elsewhere EXT4 and ORG write too little at a time.
    for program in [Program::Varmail, Program::Dbench] {
        let over = |other| {
            over_other(results, Case::new(Mode::NlLc, program, JUDGED), Case::new(other, program, JUDGED))
        };
        let text = format!("{}: NL-LC over the faster of EXT4 and ORG at u = 0.8", program.name());
        let ratio = reduced([over(Mode::Ext4), over(Mode::Org)], f64::min);
        claims.push(
            Claim::new("3", text, "times", None, ratio, direction()).because("open: ORG is the fastest"),
        );
    }
    claims
}

/// The least of both; nothing if one is missing.
fn least([a, b]: [Option<Ratio>; 2]) -> Option<Ratio> {
    let (a, b) = (a?, b?);
    Some(if a.value < b.value { a } else { b })
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
    let virtual_map = |program| {
        let (ours, theirs) = (judged(Mode::NlLc, program)?, judged(Mode::Ext4, program)?);
        let more = ours.all_written() - theirs.all_written();
        Some(100.0 * (ours.written(&[Cause::Meta]) - theirs.written(&[Cause::Meta])) / more)
    };
    claims.push(
        Claim::new(
            "4",
            "flash writes beyond EXT4's: part of P2L updates, the more of Tiobench, Copy&tar",
            "%",
            None,
            reduced(two.map(virtual_map), f64::max),
            Band::range(50.0, 100.0, [Some(0.0), None], "the cause that the text names: half at least"),
        )
        .because("most is data that F2FS writes: figure 4 by cause"),
    );
    for program in [Program::Varmail, Program::Dbench] {
        let share = |mode| judged(mode, program).map(Measured::map_share);
        let random = reduced([share(Mode::Ext4), share(Mode::Org)], f64::min);
        let log = reduced([share(Mode::NlRw), share(Mode::NlLc)], f64::max);
        claims.push(
            Claim::new(
                "4",
                format!("{}: map over data, EXT4 and ORG (less) over NL (more)", program.name()),
                "times",
                None,
                random.zip(log).map(|(random, log)| random / log),
                Band::at_least(1.0, DIRECTION),
            )
            .because("figure 4 by cause"),
        );
    }
    let logs = [Program::Varmail, Program::Dbench].map(|program| {
        let log = |mode| Some(judged(mode, program)?.written(&[Cause::Map]));
        let least = reduced([log(Mode::Ext4), log(Mode::Org)], f64::min);
        least.zip(log(Mode::NlLc)).map(|(least, ours)| least / ours)
    });
    claims.push(
        Claim::new(
            "4",
            "Varmail, Dbench: L2P written by EXT4 and ORG over NL-LC's, least",
            "times",
            None,
            reduced(logs, f64::min),
            Band::at_least(1.0, DIRECTION),
        )
        .because("figure 4 by cause"),
    );
    claims
}

/// What the text says of how much is cleaned.
fn cleaning(results: &Results) -> Vec<Claim> {
    let judged = |mode, program| results.find(Case::new(mode, program, JUDGED));
    let copied = |program| judged(Mode::NlLc, program).map(|of| of.copied_mib() / of.data());
    // What NL-RW writes more than NL-LC, which writes no copies.
    let moved = |program| {
        let (moves, copies) = (judged(Mode::NlRw, program)?.data(), judged(Mode::NlLc, program)?.data());
        Some((moves - copies) / copies)
    };
    let over = |amount: &dyn Fn(Program) -> Option<f64>| {
        let more = reduced([Program::Tiobench, Program::CopyTar].map(amount), f64::min);
        let less = reduced([Program::Varmail, Program::Dbench].map(amount), f64::max);
        more.zip(less).map(|(more, less)| more / less)
    };
    let written = |fill| {
        [Program::Tiobench, Program::CopyTar]
            .map(|program| Some(results.find(Case::new(Mode::NlRw, program, fill))?.all_written()))
    };
    let steps = FILLS.windows(2).flat_map(|pair| {
        let [low, high] = [written(pair[0]), written(pair[1])];
        low.into_iter().zip(high).map(|(low, high)| Some(high? / low?))
    });
    vec![
        Claim::new(
            "4",
            "NL-LC's blocks copied per block written: Tiobench, Copy&tar (less) over Varmail, Dbench (more)",
            "times",
            None,
            over(&copied),
            Band::at_least(1.0, DIRECTION),
        )
        .because("figure 4 by cause"),
        Claim::new(
            "4",
            "the same of NL-RW's, by what it writes beyond NL-LC's data",
            "times",
            None,
            over(&moved),
            Band::at_least(1.0, DIRECTION),
        )
        .because("Dbench: with its files on top of u, segments are nearly full (guess)"),
        Claim::new(
            "4",
            "Tiobench, Copy&tar: NL-RW's flash writes, least step to a larger u",
            "times",
            None,
            reduced(steps, f64::min),
            Band::at_least(1.0, DIRECTION),
        )
        .because("figure 4 by cause"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::Verdict;
    use crate::logical_copy::{cases::HOSTS_MIB, kernel_figures::figures};

    /// Nothing that is shown or judged is left out of what is run, and nothing is run twice.
    #[test]
    fn everything_that_is_asked_for_is_run_once() {
        for commands_us in [&[COMMAND_US, INFERRED_US][..], &[COMMAND_US]] {
            let results = Results::made_up(commands_us, |_| 1.0);
            for figure in figures(&results) {
                let gaps = figure.rows.iter().filter(|row| row.measured.is_none());
                assert_eq!(gaps.count(), 0, "{}", figure.figure);
            }
            let claims = claims(&results);
            let gaps: Vec<&Claim> = claims.iter().filter(|claim| claim.verdict == Verdict::NotRun).collect();
            assert!(gaps.is_empty(), "{gaps:?}");
            let is_inferred = |claim: &&Claim| claim.claim.contains("176");
            let inferred = if commands_us.len() > 1 { 3 } else { 0 };
            assert_eq!(claims.iter().filter(is_inferred).count(), inferred);
            let cases: Vec<Case> = Case::all(commands_us).into_iter().flatten().collect();
            for (at, case) in cases.iter().enumerate() {
                assert!(!cases[..at].contains(case), "{case:?}");
            }
        }
    }

    #[test]
    fn what_does_not_clean_is_judged_by_the_mean_of_all_hosts_with_its_error() {
        // ORG takes 1, 2 and 3 s, in the mean 2 ± √(1 / 3); NL-LC 2 s on all.
        let host =
            |case: Case| HOSTS_MIB.iter().position(|&mib| mib == case.memory_mib).expect("one of them");
        let speed = |case: Case| match case.mode {
            Mode::Org => 1.0 / (host(case) + 1) as f64,
            Mode::NlLc => 0.5,
            _ => 10.0,
        };
        let claims = claims(&Results::made_up(&[COMMAND_US, INFERRED_US], speed));
        let of = |text: &str| claims.iter().find(|claim| claim.claim.contains(text)).expect("a claim");
        let over_org = of("Copy&tar: NL-LC over ORG");
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert!(
            near(over_org.measured, 1.0) && near(over_org.error, (1.0 / 3.0f64).sqrt() / 2.0),
            "{over_org:?}"
        );
        // The least of both: EXT4 takes 0.1 s on every host.
        let tiobench = of("Tiobench: NL-LC over the faster");
        assert!(near(tiobench.measured, 0.05) && near(tiobench.error, 0.0), "{tiobench:?}");
        assert_eq!(tiobench.verdict, Verdict::Missed);
        let within = of("its files within u");
        assert!(near(within.measured, 0.05) && near(within.error, 0.0), "{within:?}");
    }
}
