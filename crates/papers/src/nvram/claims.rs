//! Values of the paper's claims.
//!
//! All claims use one setting: fitted partition offset and host time, and a log-block scheme that merges the
//! fullest log. The exception is FAST compared with log-block in Camera-MS500: its offset is 0, since the fit
//! of the offset uses FAST.

use strobe_ssd::LogVictim;

use super::fit::{self, GAINS, Joint};
use super::measure::Outcome;
use super::pattern::Pattern;
use super::results::{IN_PAPER, Results};
use super::{Absorbed, CLAIMS, Workload};
use crate::Claim;
use crate::figure::reduced;
use crate::table::Values;

struct AtFit<'a> {
    results: &'a Results<'a>,
    joint: Option<Joint>,
}

impl AtFit<'_> {
    fn outcome(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<&Outcome> {
        self.results.at(workload, mapping, absorbed, self.joint?.offset)
    }

    fn seconds(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<f64> {
        Some(self.outcome(workload, mapping, absorbed)?.seconds(self.joint?.host_ns))
    }

    fn all(&self, workload: Workload, absorbed: Absorbed) -> [Option<f64>; 3] {
        IN_PAPER.map(|mapping| self.seconds(workload, mapping, absorbed))
    }

    fn spread(&self, workload: Workload, absorbed: Absorbed) -> Option<f64> {
        let times = self.all(workload, absorbed);
        over(reduced(times, f64::max), reduced(times, f64::min))
    }
}

pub(super) fn all(patterns: &[Pattern], results: &Results<'_>) -> Vec<Claim> {
    let mut values = Values::default();
    let fitted = AtFit { results, joint: fit::joint(results) };
    if let Some(Joint { offset, host_ns, .. }) = fitted.joint {
        values.text("host_us", format!("{:.0}", host_ns / 1e3));
        values.text("offset", offset.to_string());
    }
    written(&mut values, patterns);
    camera(&mut values, &fitted);
    postmark(&mut values, &fitted);
    merges(&mut values, &fitted);
    values.judged(CLAIMS, "no time of the host gives replacement-block its gain")
}

fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b)
}

fn written(values: &mut Values, patterns: &[Pattern]) {
    for workload in Workload::ALL {
        let pattern = patterns.iter().find(|pattern| pattern.workload == workload);
        let mib = pattern.map(|pattern| pattern.bytes as f64 / f64::from(1 << 20));
        let saved = |of: &Pattern| 100.0 * of.metadata_writes() as f64 / of.writes().len() as f64;
        values.add(&format!("{} bytes", workload.name()), mib);
        values.add(&format!("{} requests", workload.name()), pattern.map(saved));
    }
    let sectors = patterns.iter().map(Pattern::metadata_sectors).max();
    values.add("feram", sectors.map(|sectors| sectors as f64 / 2.0));
}

fn camera(values: &mut Values, fitted: &AtFit<'_>) {
    let workload = Workload::Camera;
    for (at, (mapping, _)) in GAINS.into_iter().enumerate() {
        values.add(&format!("gain {mapping}"), fitted.joint.map(|joint| joint.gains[at]));
    }
    // Compare at offset 0: at the offset fitted to FAST this order would hold by construction.
    let first = |mapping| fitted.results.seconds(workload, mapping, Absorbed::No);
    values.add("before-fast", over(first("fast"), first("log-block")));
    let [replacement, log, fast] = fitted.all(workload, Absorbed::No);
    if let Some(ratio) = over(fast, log) {
        values.text("fast_fitted", format!("{ratio:.2}"));
    }
    values.add("before-replacement", over(replacement, reduced([log, fast], f64::max)));
    let switches = |mapping| {
        let merges = fitted.outcome(workload, mapping, Absorbed::No)?.merges;
        (merges[0] > 0).then_some(merges[0] as f64)
    };
    values.add("switches", over(switches("fast"), switches("log-block")));
    values.add("after-spread", fitted.spread(workload, Absorbed::FileSystem));
    // A value agrees in direction up to the spread before absorption.
    values.limit("after-spread", fitted.spread(workload, Absorbed::No));
    let [replacement, log, _] = fitted.all(workload, Absorbed::FileSystem);
    values.add("after-log-block", over(log, replacement));
    let erases = fitted.outcome(workload, "log-block", Absorbed::FileSystem).and_then(|of| {
        let merges: u64 = of.merges.iter().sum();
        (merges > 0).then(|| of.merge_erases as f64 / merges as f64)
    });
    values.add("merge-erases", erases);
}

/// Claims on PostMark, to which nothing is fitted.
fn postmark(values: &mut Values, fitted: &AtFit<'_>) {
    let workload = Workload::PostMark;
    let [before, after] = [Absorbed::No, Absorbed::FileSystem].map(|absorbed| fitted.all(workload, absorbed));
    values.add("postmark-gain", reduced([0, 1, 2].map(|at| over(before[at], after[at])), f64::min));
    let spread = |absorbed| fitted.spread(workload, absorbed);
    values.add("postmark-spread", over(spread(Absorbed::No), spread(Absorbed::FileSystem)));
    let lead = |[replacement, log, fast]: [Option<f64>; 3]| over(reduced([replacement, log], f64::min), fast);
    values.add("postmark-fast", reduced([before, after].map(lead), f64::min));
    let [replacement, log, fast] = before;
    values.add("log-slowest", over(log, reduced([replacement, fast], f64::max)));
    let lru = fitted.results.with_victim(workload, LogVictim::Lru, Absorbed::No);
    let replacement = fitted.results.seconds(workload, "replacement-block", Absorbed::No);
    if let Some(ratio) = over(lru, replacement) {
        values.text("lru", format!("{ratio:.2}"));
    }
}

fn merges(values: &mut Values, fitted: &AtFit<'_>) {
    let of = |workload, mapping| fitted.outcome(workload, mapping, Absorbed::No);
    for workload in Workload::ALL {
        let pages = of(workload, "log-block").and_then(Outcome::pages_at_merge);
        values.add(&format!("pages {}", workload.name()), pages);
    }
    let log = of(Workload::PostMark, "log-block");
    values.add("thrashed", log.and_then(Outcome::thrashed_percent));
    let both = log.zip(of(Workload::PostMark, "replacement-block"));
    values.add("erases", both.map(|(log, replacement)| log.erases as f64 / replacement.erases as f64));
    if let Some((log, replacement)) = both {
        values.text("programs", format!("{:.2}", log.programs as f64 / replacement.programs as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{assert_all_computed, paper};

    #[test]
    fn every_claim_is_computed() {
        assert_all_computed(CLAIMS, &all(&[], &Results::new(&[])));
    }

    #[test]
    fn fits_are_to_the_numbers_of_the_table() {
        for (mapping, gain) in GAINS {
            assert_eq!(paper(CLAIMS, &format!("gain-{mapping}")), Some(gain), "{mapping}");
        }
    }
}
