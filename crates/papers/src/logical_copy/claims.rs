//! What the text says, as far as the drive alone can tell.

use super::runs::Runs;
use super::{COMMAND_US, EXT4, INFERRED_US, JUDGED, LOGICAL, ORG, Phase, READ_WRITE, Setup, VICTIMS};
use crate::figure::reduced;
use crate::{Band, Claim};

const DIRECTION: &str = "a direction";

/// `is_set` if somebody has set the time of a command, which is that in all runs then.
pub(super) fn all(runs: &Runs<'_>, is_set: bool) -> Vec<Claim> {
    let aged = |victims| Setup::new(Phase::Aged, victims, LOGICAL);
    let judged = aged(JUDGED);
    let steps = VICTIMS.windows(2).map(|pair| Some(runs.speed(aged(pair[1]))? - runs.speed(aged(pair[0]))?));
    let least = VICTIMS.map(|victims| runs.speed(aged(victims)));
    let synced = Setup { sync: true, ..judged };
    let map_share = |mode| runs.map_share(Setup { mode, ..synced });
    let random = reduced([map_share(EXT4), map_share(ORG)], f64::min);
    let log = map_share(READ_WRITE);
    let mut claims = vec![
        Claim::new(
            "4",
            "drive alone: flash writes, NL-LC against NL-RW, at v = 0.8",
            "%",
            Some(-80.0),
            runs.programs(judged),
            Band::around(-80.0, 5.0, "5 points: \"about 80 %\"").was("-85 to -60"),
        )
        .by_construction("v = 0.8 was chosen because -80 % implies it"),
        Claim::new(
            "3",
            "drive alone: speed, NL-LC over NL-RW, at v = 0.8",
            "times",
            Some(3.0),
            runs.speed(judged),
            Band::ratio(3.0, 0.2, "20 %: \"up to 3 times\" of a benchmark, here nothing but updates")
                .was("from 2"),
        )
        .because("guess: here updates are all, the paper's runs also have its host's time"),
        Claim::new(
            "3",
            "drive alone: NL-LC over NL-RW, least of all v",
            "times",
            None,
            reduced(least, f64::min),
            Band::at_least(1.0, DIRECTION),
        ),
        Claim::new(
            "3",
            "drive alone: that ratio, least step to a larger v",
            "times",
            None,
            reduced(steps, f64::min),
            Band::at_least(0.0, DIRECTION),
        )
        .because("guess: at v = 0.9 the drive collects, too"),
        Claim::new(
            "4",
            "drive alone: flash writes, NL-LC against EXT4, at v = 0.8",
            "% more",
            None,
            runs.programs_over(judged, EXT4),
            Band::range(10.0, 30.0, [Some(0.0), None], "what the text says: 10 to 30 %"),
        )
        .because("what both write beyond their data is the map: figure lfs-clean"),
        Claim::new(
            "4",
            "drive alone, fsync: map over data, EXT4 and ORG (less) over NL-RW",
            "times",
            None,
            random.zip(log).map(|(random, log)| random / log),
            Band::at_least(1.0, DIRECTION),
        )
        .because("guess: the drive's journal takes a page for every flush, wherever the write went"),
    ];
    claims.extend(over_org(runs, judged, is_set));
    claims
}

/// NL-LC beside ORG, for the times of a command that there are.
fn over_org(runs: &Runs<'_>, judged: Setup, is_set: bool) -> Vec<Claim> {
    let claim = |text: &str, command_us, why| {
        let measured = runs.speed_over(Setup { command_us, ..judged }, ORG);
        let text = format!("drive alone: NL-LC over ORG, {text}");
        Claim::new("3", text, "times", None, measured, Band::at_least(1.0, DIRECTION)).because(why)
    };
    if is_set {
        return vec![claim(
            "at the time of a command that is set",
            COMMAND_US,
            "the time of a command is set",
        )];
    }
    let preset = "the preset's 20 µs have no source: figure command-time";
    vec![
        claim(&format!("{COMMAND_US} µs a command (preset)"), COMMAND_US, preset),
        claim(
            &format!("{INFERRED_US} µs a command (inferred from a TRIM)"),
            INFERRED_US,
            "figure command-time has other times",
        ),
    ]
}
