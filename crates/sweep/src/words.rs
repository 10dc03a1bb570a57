//! Findings as text and formatted numbers.

use std::collections::BTreeMap;

use crate::measures::is_percentile;
use crate::plan::{short, shown};
use crate::{ConfigurationSummary, Difference, Estimate, Plan, Summary};

/// A line that explains the signs next to the means.
pub fn about_intervals(plan: &Plan, summary: &Summary) -> String {
    let is_unknown = |at: usize| {
        is_percentile(&summary.measures[at])
            && summary.configurations.iter().any(|found| found.runs.0 > 0 && found.measures[at].is_none())
    };
    let unknown = if (0..summary.measures.len()).any(is_unknown) {
        " A percentile without a number has too few requests: the 99th needs 100, the 99.9th 1000."
    } else {
        ""
    };
    format!("{}{unknown}", about_signs(plan, summary))
}

fn about_signs(plan: &Plan, summary: &Summary) -> String {
    let found = || summary.configurations.iter().filter(|found| found.runs.0 > 0);
    let has_interval =
        |found: &ConfigurationSummary| found.measures.iter().flatten().any(|of| of.half_width.is_some());
    let is_trace = |found: &ConfigurationSummary| plan.configurations[found.configuration].is_trace;
    if found().any(has_interval) {
        let same =
            if found().any(|found| found.is_same) { " Without ±: the same for every seed." } else { "" };
        let trace = if found().any(|found| has_interval(found) && is_trace(found)) {
            " Each seed replays the same trace: ± covers randomness of the drive (warm-up, policies) only."
        } else {
            ""
        };
        return format!(
            "± is half of the {} % interval over seeds.{same}{trace}{}",
            summary.confidence * 100.0,
            about_stages(plan, summary)
        );
    }
    let text = if found().next().is_some() && found().all(|found| found.is_same) {
        "The same for every seed: nothing is random in these runs, so there are no intervals."
    } else if found().all(is_trace) {
        "One seed each. A trace is not random, but the drive may be: sweep.seeds = 2 shows it."
    } else {
        "One seed each: differences may be due to chance (sweep.seeds = 5)."
    };
    text.to_owned()
}

fn about_stages(plan: &Plan, summary: &Summary) -> String {
    let seeds = &plan.file.seeds;
    let Some(until) = seeds.until else { return String::new() };
    let is_wide = |found: &&ConfigurationSummary| {
        let half = found.measures[0].and_then(|of| Some(of.half_width? > until * of.mean.abs()));
        found.runs.0 + found.runs.1 == plan.seeds() && half == Some(true)
    };
    let wide = match summary.configurations.iter().filter(is_wide).count() {
        0 => String::new(),
        1 => format!(" 1 configuration is wider after all {}.", plan.seeds()),
        count => format!(" {count} configurations are wider after all {}.", plan.seeds()),
    };
    format!(
        " Seeds in two stages (Stein 1945): the spread of the first {} gives the number needed for ± {} % of \
         {}, at most {}; ± and p use that spread.{wide}",
        seeds.first,
        rounded(100.0 * until),
        summary.measures[0],
        plan.seeds()
    )
}

fn rounded(percent: f64) -> String {
    format!("{percent:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A line about runs without a steady-state window; `None` if all are steady.
pub fn about_steadiness(plan: &Plan, summary: &Summary) -> Option<String> {
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    let all: usize = summary.configurations.iter().map(|found| found.runs.0).sum();
    for (verdict, runs) in summary.configurations.iter().flat_map(|found| &found.not_steady) {
        *verdicts.entry(verdict).or_default() += runs;
    }
    let not_steady: usize = verdicts.values().sum();
    let has_trace = plan.configurations.iter().any(|configuration| configuration.is_trace);
    let meaning = |verdict: &str| match verdict {
        "transient" if has_trace => {
            "not yet in the steady state (repeat it: a larger workload.repeat, and run.warmup = \"4 repeats\")"
        }
        "overloaded" => {
            "the drive did not keep up with the arrivals (workload.speed, or workload.pacing = \"closed\")"
        }
        "trace-ended" => "the trace ended before run.measure",
        "transient" => "not yet in the steady state (use a longer run.warmup)",
        "nothing-collected" => "without garbage collection, as the drive had free space (run.prefill)",
        "too-few-intervals" => "too short to tell (a longer run.measure)",
        _ => "",
    };
    let parts: Vec<String> = verdicts
        .iter()
        .map(|(verdict, runs)| {
            format!("{runs} {verdict}: {}", meaning(verdict)).trim_end_matches([':', ' ']).to_owned()
        })
        .collect();
    (not_steady > 0)
        .then(|| format!("{NOT_STEADY} {not_steady} of {all} runs were not steady: {}.", parts.join("; ")))
}

/// Mark of configurations with runs that were not steady.
pub const NOT_STEADY: &str = "*";

/// Verdict on a difference, by its corrected p value.
pub fn verdict(difference: &Difference, confidence: f64) -> String {
    let relative = &difference.relative;
    let direction = if relative.mean > 0.0 { "more" } else { "less" };
    let is_never_off = relative.mean == 0.0 && relative.deviation == 0.0;
    let text = match difference.p {
        // A note says once that one seed cannot tell.
        None if !difference.is_exact => "-",
        _ if is_never_off => "the same",
        Some(_) if !difference.is_shown(confidence) => "no difference shown",
        _ => direction,
    };
    text.to_owned()
}

/// Verdict on the best value against the second best.
pub(crate) fn best_verdict(difference: &Difference, confidence: f64) -> String {
    let found = verdict(difference, confidence);
    if found == "more" || found == "less" { "better".to_owned() } else { found }
}

/// A corrected p value; "-" without one.
pub fn p_value(difference: &Difference) -> String {
    match difference.p {
        None => "-".to_owned(),
        Some(p) if p < 0.001 => "< 0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

/// A line about the test behind the verdicts in a table of `differences` comparisons.
pub fn about_differences(differences: usize, confidence: f64) -> String {
    let level = rounded(100.0 * (1.0 - confidence));
    format!(
        "Pairs of runs with the same seed, all else being the same. {} A verdict of more or less needs p < {level} %. \
         ± is half of the {} % interval of the pairs' differences, over the baseline's mean, and not corrected.",
        tested("the pairs", differences),
        confidence * 100.0
    )
}

/// A line about the test of the best against the second best in `differences` cells.
pub(crate) fn corrected(differences: usize, confidence: f64) -> String {
    let level = rounded(100.0 * (1.0 - confidence));
    format!("{} \"better\" needs p < {level} %.", tested("pairs of runs with the same seed", differences))
}

fn tested(pairs: &str, differences: usize) -> String {
    let plural = if differences == 1 { "comparison" } else { "comparisons" };
    format!("p: Student's t test on {pairs}, corrected by Holm's method for {differences} {plural}.")
}

/// A line about comparisons of single runs, if other comparisons have several seeds.
pub(crate) const ONE_SEED: &str = "Verdict \"-\": one seed cannot tell a difference from chance.";

/// A line about configurations that are not compared: every other one differs in more than the compared key.
/// `None` if all have partners.
pub fn about_left_out(plan: &Plan, summary: &Summary) -> Option<String> {
    let key = summary.compare.as_deref()?;
    let place = plan.keys.iter().position(|other| other == key)?;
    let all = || 0..plan.configurations.len();
    let value = |configuration: usize, at: usize| plan.configurations[configuration].values[at].as_ref();
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    all().for_each(|configuration| *alike.entry(plan.all_else(configuration, place)).or_default() += 1);
    let has_several = all().any(|other| value(other, place) != value(0, place));
    let is_left_out =
        |configuration: &usize| has_several && alike[&plan.all_else(*configuration, place)] == 1;
    let left_out: Vec<usize> = all().filter(is_left_out).collect();
    // Differing keys of `configuration` and the nearest one with another value of the compared key.
    let others = |configuration: usize| -> Vec<&str> {
        let differing = |other: usize| -> Vec<&str> {
            let keys = (0..plan.keys.len())
                .filter(|&at| at != place && value(configuration, at) != value(other, at));
            keys.map(|at| short(&plan.keys[at])).collect()
        };
        let rest = all().filter(|&other| value(other, place) != value(configuration, place));
        rest.map(differing).min_by_key(Vec::len).unwrap_or_default()
    };
    let first = *left_out.first()?;
    let labels: Vec<String> = left_out.iter().take(LABELS_MAX).map(|&at| plan.label(at)).collect();
    let more = left_out.len() - labels.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let baseline = summary.differences.first().map(|found| value(found.baseline, place));
    let is_moved = !plan.file.all_pairs && baseline.is_some_and(|of| of != value(0, place));
    let moved = baseline.flatten().filter(|_| is_moved);
    let moved = moved.map(|value| format!(" The baseline is {} instead.", shown(value))).unwrap_or_default();
    Some(format!(
        "Not compared: {}{more}. Configurations are compared that differ in {} only; {} differs from each in {}, too.{moved}",
        labels.join("; "),
        short(key),
        if left_out.len() == 1 { "this one".to_owned() } else { plan.label(first) },
        others(first).join(" and ")
    ))
}

const LABELS_MAX: usize = 6;

/// A difference with its interval.
pub fn percent(relative: &Estimate) -> String {
    let half = relative.half_width.map(|half| format!(" ± {:.2}", 100.0 * half)).unwrap_or_default();
    format!("{:+.2}{half} %", 100.0 * relative.mean)
}

/// Means of a column, with the decimals that the intervals justify; "-" without a mean.
pub fn estimated(column: &[Option<Estimate>]) -> Vec<String> {
    let places = decimals(column);
    let cell = |found: &Estimate| match found.half_width {
        Some(half) => format!("{:.places$} ± {half:.places$}", found.mean),
        None => format!("{:.places$}", found.mean),
    };
    column.iter().map(|found| found.as_ref().map_or("-".to_owned(), cell)).collect()
}

const FINER: i32 = 2;

/// Decimals for two digits of the widest interval.
fn decimals(column: &[Option<Estimate>]) -> usize {
    let exponents = |values: &dyn Fn(&Estimate) -> Option<f64>| -> Vec<i32> {
        let used =
            column.iter().flatten().filter_map(values).filter(|value| *value != 0.0 && value.is_finite());
        used.map(|value| libm::floor(libm::log10(value.abs())) as i32).collect()
    };
    let halves = exponents(&|found| found.half_width.filter(|half| *half > found.mean.abs() * NOISE));
    // Without intervals the largest mean gets four digits.
    let (digits, exponents) =
        if halves.is_empty() { ((4, 4), exponents(&|found| Some(found.mean))) } else { ((2, 1), halves) };
    let (Some(largest), Some(smallest)) = (exponents.iter().max(), exponents.iter().min()) else { return 0 };
    // Up to `FINER` more decimals are added until the narrowest interval has one digit.
    let (coarse, fine) = (digits.0 - 1 - largest, digits.1 - 1 - smallest);
    coarse.max(fine.min(coarse + FINER)).clamp(0, 9) as usize
}

/// Half-widths up to this share of the mean are rounding noise.
const NOISE: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, half_width: Option<f64>) -> Estimate {
        Estimate { n: 3, mean, deviation: 0.0, degrees: 2, half_width }
    }

    #[test]
    fn means_have_the_decimals_that_the_intervals_of_their_column_allow() {
        let column = |found: &[(f64, Option<f64>)]| -> Vec<String> {
            estimated(&found.iter().map(|&(mean, half)| Some(of(mean, half))).collect::<Vec<_>>())
        };
        assert_eq!(column(&[(2.456_789, Some(0.0123))]), ["2.457 ± 0.012"]);
        assert_eq!(column(&[(123_456.0, Some(340.0))]), ["123456 ± 340"]);
        assert_eq!(column(&[(2.456_789, None)]), ["2.457"]);
        assert_eq!(column(&[(0.0, Some(0.0))]), ["0 ± 0"]);
        assert_eq!(
            column(&[(12.130_711, Some(0.0069)), (7.331_6, Some(0.0221)), (1.5, Some(0.0))]),
            ["12.131 ± 0.007", "7.332 ± 0.022", "1.500 ± 0.000"]
        );
        assert_eq!(column(&[(12.13, None), (7.331_6, None)]), ["12.130", "7.332"]);
        // Rounding noise is not an interval.
        assert_eq!(column(&[(1.863_630_368, Some(2.2e-16))]), ["1.864 ± 0.000"]);
        assert_eq!(estimated(&[None]), ["-"]);
    }

    #[test]
    fn a_difference_that_is_not_significant_is_none() {
        let difference = |mean: f64, p: Option<f64>, is_exact: bool| {
            let relative = of(mean, None);
            let found = Difference { configuration: 1, baseline: 0, measure: 0, relative, p, is_exact };
            verdict(&found, 0.95)
        };
        assert_eq!(difference(0.016, Some(0.06), false), "no difference shown");
        assert_eq!(difference(0.016, Some(0.004), false), "more");
        assert_eq!(difference(-0.016, Some(0.004), false), "less");
        assert_eq!(difference(-0.016, None, false), "-");
        assert_eq!(difference(0.0, Some(1.0), false), "the same");
        assert_eq!(difference(-0.016, None, true), "less");
        assert_eq!(difference(0.0, None, true), "the same");
        assert_eq!(percent(&of(-0.016, Some(0.004))), "-1.60 ± 0.40 %");
    }
}
