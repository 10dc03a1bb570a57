//! Values of the paper's claims.

use super::fit::{self, GAINS, Joint};
use super::measure::LOG_VICTIMS;
use super::pattern::Pattern;
use super::results::{IN_PAPER, Results};
use super::{Absorbed, CLAIMS, Workload};
use crate::Claim;
use crate::table::Values;

/// `has_rules` unless somebody has set the rule for the log block that is merged.
pub(super) fn all(patterns: &[Pattern], results: &Results<'_>, has_rules: bool) -> Vec<Claim> {
    let mut values = Values::default();
    written(&mut values, patterns);
    camera(&mut values, results);
    postmark(&mut values, results);
    if has_rules {
        orders(&mut values, results);
    }
    postmark_predicted(&mut values, results);
    values.judged(CLAIMS, "no time of the host gives replacement-block its gain")
}

fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b)
}

/// Bytes, in MiB, and the share of the requests that absorption saves.
fn written(values: &mut Values, patterns: &[Pattern]) {
    for workload in Workload::ALL {
        let pattern = patterns.iter().find(|pattern| pattern.workload == workload);
        let mib = pattern.map(|pattern| pattern.bytes as f64 / f64::from(1 << 20));
        let saved = |of: &Pattern| 100.0 * of.metadata_writes() as f64 / of.writes().len() as f64;
        values.add(&format!("{} bytes", workload.name()), mib);
        values.add(&format!("{} requests", workload.name()), pattern.map(saved));
    }
}

fn camera(values: &mut Values, results: &Results<'_>) {
    let workload = Workload::Camera;
    let before = |mapping: &str| results.seconds(workload, mapping, Absorbed::No);
    let after = |mapping: &str| results.seconds(workload, mapping, Absorbed::FileSystem);
    let joint = fit::joint(results);
    values.text("host_us", format!("{:.0}", results.host_ns() / 1e3));
    if let Some(Joint { offset, host_ns, .. }) = joint {
        let us = host_ns / 1e3;
        values.text("fit", format!("offset {offset} sectors, {us:.0} µs: figure fit-offset"));
    }
    for (mapping, _) in GAINS {
        values.add(&format!("gain {mapping}"), results.gain(workload, mapping));
    }
    for at in [1, 2] {
        let gain = joint.map(|Joint { gains, .. }| gains[at]);
        values.add(&format!("fitted-gain {}", GAINS[at].0), gain);
    }
    let at_fit = |mapping: &str| {
        let Joint { offset, host_ns, .. } = joint?;
        Some(results.at(workload, mapping, Absorbed::No, offset)?.seconds(host_ns))
    };
    let switches = |mapping: &str| {
        let merges = results.at(workload, mapping, Absorbed::No, joint?.offset)?.merges;
        (merges[0] > 0).then_some(merges[0] as f64)
    };
    values.add("before-fast-fitted", over(at_fit("fast"), at_fit("log-block")));
    values.add("before-fast", over(before("fast"), before("log-block")));
    values.add("switches", over(switches("fast"), switches("log-block")));
    let slowest = results.over_slowest_other(workload, "replacement-block", Absorbed::No);
    values.add("before-replacement", slowest);
    values.add("after-spread", results.spread(workload, Absorbed::FileSystem));
    values.limit("after-spread", results.spread(workload, Absorbed::No));
    values.add("after-log-block", over(after("log-block"), after("replacement-block")));
    let log_after = results.find(workload, "log-block", Absorbed::FileSystem);
    let erases = log_after.and_then(|of| {
        let merges: u64 = of.merges.iter().sum();
        (merges > 0).then(|| of.merge_erases as f64 / merges as f64)
    });
    values.add("merge-erases", erases);
}

fn postmark(values: &mut Values, results: &Results<'_>) {
    let workload = Workload::PostMark;
    let [before, after] =
        [Absorbed::No, Absorbed::FileSystem].map(|absorbed| results.spread(workload, absorbed));
    let gains: Option<Vec<f64>> = IN_PAPER.iter().map(|mapping| results.gain(workload, mapping)).collect();
    values.add("postmark-gain", gains.and_then(|gains| gains.into_iter().reduce(f64::min)));
    values.add("postmark-spread", over(before, after));
    for (name, absorbed) in [("before", Absorbed::No), ("after", Absorbed::FileSystem)] {
        let best = results.best_other_over(workload, "fast", absorbed);
        values.add(&format!("postmark {name}"), best);
    }
}

/// The slower of replacement-block and log-block in PostMark, by the rule for the log block that is merged.
fn orders(values: &mut Values, results: &Results<'_>) {
    let workload = Workload::PostMark;
    let replacement = results.seconds(workload, "replacement-block", Absorbed::No);
    let [lru, _, fullest, newest, ..] = LOG_VICTIMS;
    for (name, victim) in [("log-lru", lru.1), ("log-fullest", fullest.1), ("log-newest", newest.1)] {
        values.add(name, over(results.with_victim(workload, victim, Absorbed::No), replacement));
    }
}

/// PostMark with the two numbers that were fitted to Camera-MS500.
fn postmark_predicted(values: &mut Values, results: &Results<'_>) {
    let joint = fit::joint(results);
    let seconds = |mapping: &str, absorbed| {
        let Joint { offset, host_ns, .. } = joint?;
        Some(results.at(Workload::PostMark, mapping, absorbed, offset)?.seconds(host_ns))
    };
    for (name, absorbed) in [("before", Absorbed::No), ("after", Absorbed::FileSystem)] {
        let [replacement, log, fast] = IN_PAPER.map(|mapping| seconds(mapping, absorbed));
        let best = replacement.zip(log).map(|(a, b)| a.min(b));
        values.add(&format!("predicted {name}"), over(best, fast));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{assert_all_computed, paper};

    #[test]
    fn every_claim_is_computed() {
        assert_all_computed(CLAIMS, &all(&[], &Results::new(&[]), true));
    }

    #[test]
    fn fits_are_to_the_numbers_of_the_table() {
        for (mapping, gain) in GAINS {
            assert_eq!(paper(CLAIMS, &format!("gain-{mapping}")), Some(gain), "{mapping}");
        }
    }
}
