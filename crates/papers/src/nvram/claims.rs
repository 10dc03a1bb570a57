//! What the paper's text says, sentence by sentence.

use super::fit::{self, GAINS, Joint};
use super::measure::LOG_VICTIMS;
use super::pattern::Pattern;
use super::results::{IN_PAPER, Results};
use super::{Absorbed, SCHEMES, Workload};
use crate::{Band, Claim};

const DIRECTION: &str = "a direction";

/// `has_rules` unless somebody has set the rule for the log block that is merged.
pub(super) fn all(patterns: &[Pattern], results: &Results<'_>, has_rules: bool) -> Vec<Claim> {
    let mut claims = written(patterns);
    claims.extend(camera(results));
    claims.extend(postmark(results));
    claims.extend(if has_rules { orders(results) } else { Vec::new() });
    claims.extend(postmark_predicted(results));
    let why = "no time of the host gives replacement-block its gain";
    claims.into_iter().map(|claim| claim.unless_run(why)).collect()
}

fn label(mapping: &str) -> &str {
    SCHEMES.iter().find(|scheme| scheme.mapping == mapping).map_or(mapping, |scheme| scheme.label)
}

/// Bytes, in MiB, and what absorption saves of the requests.
fn written(patterns: &[Pattern]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for pattern in patterns {
        let (paper, name) = (pattern.workload.paper_mib(), pattern.workload.name());
        let mib = pattern.bytes as f64 / f64::from(1 << 20);
        let text = format!("{name}: bytes written to files");
        let band = match pattern.workload {
            // 200 photos between 300 and 500 KB have a standard deviation of 1.02 % of their sum.
            Workload::Camera => {
                let reason = "3.1 %: three deviations of a draw of 200 photos";
                Band::level(paper, 0.031 * paper, reason).was("3 % of 79.67 × 10⁶ bytes")
            }
            Workload::PostMark => Band::level(paper, 0.005, "what it is rounded to"),
        };
        let claim = Claim::new("4.2", text, "MiB", Some(paper), Some(mib), band);
        claims.push(match pattern.workload {
            Workload::Camera => claim,
            Workload::PostMark => {
                claim.by_construction("PostMark 1.5 with its own seed and the paper's settings")
            }
        });
    }
    for pattern in patterns {
        let share = 100.0 * pattern.metadata_writes() as f64 / pattern.writes().len() as f64;
        let text = format!("{}: requests that absorption saves", pattern.workload.name());
        let band = Band::at_least(50.0, "\"drastically\", read as half").was("55 to 65, without a reason");
        claims.push(Claim::new("1", text, "%", None, Some(share), band));
    }
    claims
}

fn camera(results: &Results<'_>) -> Vec<Claim> {
    let workload = Workload::Camera;
    let before = |mapping: &str| results.seconds(workload, mapping, Absorbed::No);
    let after = |mapping: &str| results.seconds(workload, mapping, Absorbed::FileSystem);
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    let joint = fit::joint(results);
    let switches = |mapping: &str| {
        let merges = results.at(workload, mapping, Absorbed::No, joint?.offset)?.merges;
        (merges[0] > 0).then_some(merges[0] as f64)
    };
    let was = ["20 to 70", "3 to 4.5", "2.5 to 7"];
    let gain = |(at, (mapping, paper)): (usize, (&str, f64))| {
        let text = format!("Camera: {} with metadata absorbed, at offset 0", label(mapping));
        let reason = "15 %: the paper gives two digits and no spread";
        let band = Band::ratio(paper, 0.15, reason).was(was[at]);
        let claim =
            Claim::new("3a", text, "times faster", Some(paper), results.gain(workload, mapping), band);
        match at {
            0 => {
                let us = results.host_ns() / 1e3;
                claim.by_construction(&format!("the host's time for a request is fitted to it: {us:.0} µs"))
            }
            _ => claim.because("where the partition begins in an erase block: figure fit-offset"),
        }
    };
    let mut claims: Vec<Claim> = GAINS.into_iter().enumerate().map(gain).collect();
    let gains = joint.map(|Joint { gains, .. }| gains);
    let place = joint.map_or_else(String::new, |Joint { offset, host_ns, .. }| {
        format!("offset {offset} sectors, {:.0} µs: figure fit-offset", host_ns / 1e3)
    });
    for at in [2, 1] {
        let (mapping, paper) = GAINS[at];
        let text = format!("Camera: {}, time and offset fitted together", label(mapping));
        let band = Band::ratio(paper, 0.15, "15 %, as at offset 0");
        let claim = Claim::new("3a", text, "times faster", Some(paper), gains.map(|gains| gains[at]), band);
        claims.push(match at {
            2 => claim.by_construction(&format!("fitted: {place}")),
            _ => claim.by_construction(&format!("as at offset 0, on which it hardly depends; at {place}")),
        });
    }
    let negligible = "15 %: \"nearly negligible\", beside gains of 3 to 30 times";
    let at_fit = |mapping: &str| {
        let Joint { offset, host_ns, .. } = joint?;
        Some(results.at(workload, mapping, Absorbed::No, offset)?.seconds(host_ns))
    };
    claims.push(
        Claim::new(
            "3a",
            "Camera before: FAST over log-block at that time and offset",
            "times",
            None,
            over(at_fit("fast"), at_fit("log-block")),
            Band::at_least(1.0, DIRECTION),
        )
        .by_construction("their gains' ratio, as all take as long afterwards, and FAST's is fitted"),
    );
    claims.extend([
        Claim::new(
            "3a",
            "Camera before: FAST over log-block, which is faster, at offset 0",
            "times",
            None,
            over(before("fast"), before("log-block")),
            Band::at_least(1.0, DIRECTION),
        )
        .because("where the hot sectors lie in their erase block: figure offsets"),
        Claim::new(
            "2a",
            "Camera before, where FAST is slower: its switch merges over log-block's, which has more",
            "times",
            None,
            over(switches("fast"), switches("log-block")),
            Band::at_most(1.0, DIRECTION),
        )
        .because("open: the text's reason for FAST to be slower; at the fitted offset"),
        Claim::new(
            "3a",
            "Camera before: replacement-block over the slower of the others",
            "times",
            None,
            results.over_slowest_other(workload, "replacement-block", Absorbed::No),
            Band::at_least(1.0, DIRECTION),
        )
        .by_construction("their gains' ratio, as all take as long afterwards, and the first is fitted"),
        Claim::new(
            "3a",
            "Camera after: slowest of the three over fastest",
            "times",
            None,
            results.spread(workload, Absorbed::FileSystem),
            Band::range(1.0, 1.15, [Some(1.0), results.spread(workload, Absorbed::No)], negligible)
                .was("1 to 1.2"),
        ),
        Claim::new(
            "3a",
            "Camera after: log-block over replacement-block, which is faster",
            "times",
            None,
            over(after("log-block"), after("replacement-block")),
            Band::at_least(1.0, DIRECTION),
        )
        .because("open: a merge's cost does not do it, as many merges: figure merge-cost"),
        Claim::new(
            "2a",
            "Camera after: log-block's erases per merge, mostly 2",
            "erases",
            Some(2.0),
            results.find(workload, "log-block", Absorbed::FileSystem).and_then(|of| {
                let merges: u64 = of.merges.iter().sum();
                (merges > 0).then(|| of.merge_erases as f64 / merges as f64)
            }),
            Band::level(1.75, 0.25, "mostly 2: more than half of the merges, which have 1 or 2"),
        )
        .because("open: ours end in switches, which erase one block"),
    ]);
    claims
}

fn postmark(results: &Results<'_>) -> Vec<Claim> {
    let workload = Workload::PostMark;
    let [before, after] =
        [Absorbed::No, Absorbed::FileSystem].map(|absorbed| results.spread(workload, absorbed));
    let shrinks = before.zip(after).map(|(before, after)| before / after);
    let gains: Option<Vec<f64>> = IN_PAPER.iter().map(|mapping| results.gain(workload, mapping)).collect();
    let mut claims = vec![
        Claim::new(
            "3b",
            "PostMark: the least that absorption gains of the three",
            "times faster",
            None,
            gains.and_then(|gains| gains.into_iter().reduce(f64::min)),
            Band::at_least(2.0, "\"drastically\", read as half the time"),
        )
        .because("guess: data, not metadata, makes FAST merge"),
        Claim::new(
            "3b",
            "PostMark: slowest over fastest, before against after",
            "times",
            None,
            shrinks,
            Band::at_least(1.0, DIRECTION),
        ),
    ];
    for (name, absorbed) in [("before", Absorbed::No), ("after", Absorbed::FileSystem)] {
        let text = format!("PostMark {name}: FAST, which is fastest, against the best of the others");
        claims.push(
            Claim::new(
                "3b",
                text,
                "times",
                None,
                results.best_other_over(workload, "fast", absorbed),
                Band::at_least(1.0, DIRECTION),
            )
            .because("where the hot sectors lie in their erase block (guess)"),
        );
    }
    claims
}

/// Which of replacement-block and log-block is slower in PostMark, by the rule for the log block that is merged.
fn orders(results: &Results<'_>) -> Vec<Claim> {
    let (workload, mut claims) = (Workload::PostMark, Vec::new());
    let order = |victim| {
        let log = results.with_victim(workload, victim, Absorbed::No)?;
        Some(log / results.seconds(workload, "replacement-block", Absorbed::No)?)
    };
    let [lru, _, fullest, newest, ..] = LOG_VICTIMS;
    claims.push(
        Claim::new(
            "3b",
            "PostMark before: log-block (lru) over replacement-block, faster",
            "times",
            None,
            order(lru.1),
            Band::at_least(1.0, DIRECTION),
        )
        .because("which log is merged decides: the next line, figure log-victim"),
    );
    claims.push(
        Claim::new(
            "3b",
            "the same, where the fullest log block is merged",
            "times",
            None,
            order(fullest.1),
            Band::at_least(1.0, DIRECTION),
        )
        .because("which of equally full ones decides: the next line"),
    );
    claims.push(
        Claim::new(
            "3b",
            "the same, of equally full ones the one written last",
            "times",
            None,
            order(newest.1),
            Band::at_least(1.0, DIRECTION),
        )
        .by_construction("this rule was made for it; the paper does not say which its log-block has"),
    );
    claims
}

/// PostMark with the two numbers that were fitted to Camera-MS500.
fn postmark_predicted(results: &Results<'_>) -> Vec<Claim> {
    let joint = fit::joint(results);
    let seconds = |mapping: &str, absorbed| {
        let Joint { offset, host_ns, .. } = joint?;
        Some(results.at(Workload::PostMark, mapping, absorbed, offset)?.seconds(host_ns))
    };
    let mut claims = Vec::new();
    for (name, absorbed) in [("before", Absorbed::No), ("after", Absorbed::FileSystem)] {
        let [replacement, log, fast] = IN_PAPER.map(|mapping| seconds(mapping, absorbed));
        let best = replacement.zip(log).map(|(a, b)| a.min(b));
        let text = format!("PostMark {name}, where Camera is fitted: FAST against the best of the others");
        claims.push(
            Claim::new(
                "3b",
                text,
                "times",
                None,
                best.zip(fast).map(|(best, fast)| best / fast),
                Band::at_least(1.0, DIRECTION),
            )
            .because(
                "guess: as in Camera, FAST merges more where hot sectors come first in their erase block",
            ),
        );
    }
    claims
}
