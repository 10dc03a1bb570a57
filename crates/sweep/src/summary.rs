use std::collections::{BTreeMap, BTreeSet};

use crate::best::best;
use crate::columns::{digest_without_seed, flat};
use crate::measures::is_percentile;
use crate::plan::{short, shown};
use crate::{Estimate, Outcome, Plan, Store, SweepError, holm, two_stage_estimate};

/// Verdicts (`window.verdict`) that get no mark.
const STEADY: [&str; 2] = ["steady", "no-writes"];

/// Configuration → measure → seed index → value.
pub(crate) type Values = BTreeMap<usize, Vec<BTreeMap<usize, f64>>>;

/// Findings of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationSummary {
    /// Index in [`Plan::configurations`].
    pub configuration: usize,
    /// Numbers of runs with a result and of failed runs.
    pub runs: (usize, usize),
    /// Error of the first failed run.
    pub error: Option<String>,
    /// Estimate of each measure; `None` if no run has a value. It has no interval if `is_same`.
    pub measures: Vec<Option<Estimate>>,
    /// Runs without a steady-state window, by verdict (`window.verdict`), "overloaded" or "trace-ended".
    pub not_steady: BTreeMap<String, usize>,
    /// True if several seeds gave identical results: workload and drive have no randomness.
    pub is_same: bool,
}

impl ConfigurationSummary {
    /// Runs without a steady-state window.
    pub fn not_steady_runs(&self) -> usize {
        self.not_steady.values().sum()
    }
}

/// Difference of a measure between two values of the compared key, with all other keys equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the configuration.
    pub configuration: usize,
    /// Index of the baseline: the configuration with the first value of that key, or with an earlier one if
    /// all pairs are compared.
    pub baseline: usize,
    /// Index of the measure.
    pub measure: usize,
    /// Difference as a share of the baseline's mean, over pairs of runs with equal seeds. Equal seeds give
    /// equal requests, so effects common to both runs cancel.
    pub relative: Estimate,
    /// p value of Student's t test on pairs of runs with equal seeds, corrected by Holm's method for all
    /// comparisons of the sweep. `None` with one seed, and if `is_exact`.
    pub p: Option<f64>,
    /// True if each configuration gives the same result for every seed. The difference then has no interval
    /// and needs none.
    pub is_exact: bool,
}

/// Means and differences.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Names of the measures.
    pub measures: Vec<String>,
    /// The compared key.
    pub compare: Option<String>,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Findings of each configuration.
    pub configurations: Vec<ConfigurationSummary>,
    /// All differences.
    pub differences: Vec<Difference>,
    /// Best value of the compared key by the first measure, against the second best: one for each
    /// combination of the other keys. Empty for a measure of which neither low nor high values are better.
    pub best: Vec<Difference>,
}

impl Summary {
    /// Summarises the `points` of `plan`.
    ///
    /// # Errors
    /// If no result has a measure; the error names the nearest one.
    pub fn of(plan: &Plan, store: &Store, points: &[usize]) -> Result<Self, SweepError> {
        let (seeds, measures) = (plan.seeds(), plan.file.measure.clone());
        let mut values = Values::new();
        let mut tallies: BTreeMap<usize, Tally> = BTreeMap::new();
        let mut names: Vec<String> = Vec::new();
        for &point in points {
            // Points are grouped by configuration, one per seed.
            let (configuration, place) = (point / seeds, point % seeds);
            let tally = tallies.entry(configuration).or_default();
            let refused = plan.refused(point).map(|refused| Outcome::Failed(refused.to_owned()));
            match refused.map_or_else(|| store.find(&plan.points[point].key), |refused| Ok(Some(refused)))? {
                Some(Outcome::Done(result)) => {
                    tally.add(&result);
                    let of =
                        values.entry(configuration).or_insert_with(|| vec![BTreeMap::new(); measures.len()]);
                    let flat = flat(&result);
                    for (at, measure) in measures.iter().enumerate() {
                        if let Some(value) = flat.get(measure).and_then(serde_json::Value::as_f64) {
                            of[at].insert(place, value);
                        }
                    }
                    if names.is_empty() {
                        names = flat.into_keys().collect();
                    }
                }
                Some(Outcome::Failed(error) | Outcome::Lost(error)) => {
                    tally.failed += 1;
                    tally.error.get_or_insert(error);
                }
                None => {}
            }
        }
        let (pilot, confidence) = plan.file.stages();
        for (at, measure) in measures.iter().enumerate() {
            // A measure missing in all results is a wrong name, except for a percentile of too few requests.
            let is_there = values.values().any(|of| !of[at].is_empty());
            if !is_there && !names.is_empty() && !names.contains(measure) && !is_percentile(measure) {
                let nearest = strobe_ssd::schema::nearest(measure, names.iter().map(String::as_str));
                let hint = nearest.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
                return Err(SweepError::NoMeasure { given: measure.clone(), hint });
            }
        }
        let empty = vec![BTreeMap::new(); measures.len()];
        let configurations: Vec<ConfigurationSummary> = (0..plan.configurations.len())
            .map(|configuration| {
                let tally = tallies.remove(&configuration).unwrap_or_default();
                let of = values.get(&configuration).unwrap_or(&empty);
                let estimated = |of: &BTreeMap<usize, f64>| {
                    let found = estimate_of(of, pilot, confidence)?;
                    let half_width = found.half_width.filter(|_| !tally.is_same());
                    Some(Estimate { half_width, ..found })
                };
                let measures = of.iter().map(estimated).collect();
                tally.summary(configuration, measures)
            })
            .collect();
        let is_same: Vec<bool> = configurations.iter().map(|found| found.is_same).collect();
        let differences = differences(plan, &values, &is_same, measures.len());
        let best = best(plan, &values, &configurations);
        let compare = plan.file.compare.clone();
        Ok(Self { measures, compare, confidence, configurations, differences, best })
    }

    /// CSV with a line per configuration: mean, half-width of the interval (`_half`) and number of runs
    /// (`_n`) of each measure, runs that were not steady, failed runs. A key column has the last part of the
    /// key as name if unambiguous.
    pub fn csv(&self, plan: &Plan) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        // The short name of a key is used if it is unambiguous.
        let is_alone =
            |key: &String| plan.keys.iter().filter(|other| short(other) == short(key)).count() == 1;
        let word = |text: &str| text.replace('.', "_");
        let mut names: Vec<String> = plan
            .keys
            .iter()
            .map(|key| if is_alone(key) { short(key).to_owned() } else { word(key) })
            .collect();
        for measure in self.measures.iter().map(|measure| word(measure)) {
            let (half, n) = (format!("{measure}_half"), format!("{measure}_n"));
            names.extend([measure, half, n]);
        }
        names.extend(["not_steady", "verdicts", "same_for_every_seed", "failed", "error"].map(str::to_owned));
        let mut text = names.join(",") + "\n";
        for found in &self.configurations {
            let values = &plan.configurations[found.configuration].values;
            let mut cells: Vec<String> = values
                .iter()
                .map(|value| value.as_ref().map(|value| quoted(&shown(value))).unwrap_or_default())
                .collect();
            for estimate in &found.measures {
                cells.push(estimate.map(|estimate| estimate.mean.to_string()).unwrap_or_default());
                cells.push(
                    estimate
                        .and_then(|estimate| estimate.half_width)
                        .map(|half| half.to_string())
                        .unwrap_or_default(),
                );
                cells.push(estimate.map_or(0, |estimate| estimate.n).to_string());
            }
            let verdicts: Vec<String> =
                found.not_steady.iter().map(|(verdict, runs)| format!("{verdict} {runs}")).collect();
            cells.push(found.not_steady_runs().to_string());
            cells.push(quoted(&verdicts.join("; ")));
            cells.push(found.is_same.to_string());
            cells.push(found.runs.1.to_string());
            cells.push(quoted(found.error.as_deref().unwrap_or_default()));
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

#[derive(Debug, Default)]
struct Tally {
    done: usize,
    failed: usize,
    error: Option<String>,
    not_steady: BTreeMap<String, usize>,
    digests: BTreeSet<String>,
}

impl Tally {
    fn add(&mut self, result: &serde_json::Value) {
        self.done += 1;
        self.digests.insert(digest_without_seed(result));
        let verdict = result["window"]["verdict"].as_str().filter(|verdict| !STEADY.contains(verdict));
        // These make the numbers of a run worth less than an unsteady window does.
        let is_overloaded = result["load"]["kept_up"].as_bool() == Some(false);
        let is_short = result["ended_by"] == "trace" && !result["config"]["run"]["measure"].is_null();
        let others = [(is_overloaded, "overloaded"), (is_short, "trace-ended")];
        let others = others.into_iter().filter(|(is, _)| *is).map(|(_, verdict)| verdict);
        for verdict in others.chain(verdict).take(1) {
            *self.not_steady.entry(verdict.to_owned()).or_default() += 1;
        }
    }

    fn is_same(&self) -> bool {
        self.done > 1 && self.digests.len() == 1
    }

    fn summary(self, configuration: usize, measures: Vec<Option<Estimate>>) -> ConfigurationSummary {
        ConfigurationSummary {
            configuration,
            runs: (self.done, self.failed),
            is_same: self.is_same(),
            error: self.error,
            measures,
            not_steady: self.not_steady,
        }
    }
}

fn differences(plan: &Plan, values: &Values, is_same: &[bool], measures: usize) -> Vec<Difference> {
    let Some(at) = plan.file.compare.as_ref().and_then(|key| plan.place(key)) else { return Vec::new() };
    // Configurations that differ in the compared key only, in order.
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for configuration in 0..plan.configurations.len() {
        let earlier = alike.entry(plan.all_else(configuration, at)).or_default();
        let baselines = if plan.file.all_pairs { &earlier[..] } else { &earlier[..earlier.len().min(1)] };
        for &baseline in baselines {
            let (Some(ours), Some(theirs)) = (values.get(&configuration), values.get(&baseline)) else {
                continue;
            };
            for measure in 0..measures {
                let of = Pair { configuration, baseline, measure };
                let is_same = (is_same[configuration], is_same[baseline]);
                found.extend(of.difference(&ours[measure], &theirs[measure], is_same, plan.file.stages()));
            }
        }
        earlier.push(configuration);
    }
    correct(&mut found);
    found
}

/// Configurations and measure of a difference.
pub(crate) struct Pair {
    pub(crate) configuration: usize,
    pub(crate) baseline: usize,
    pub(crate) measure: usize,
}

impl Pair {
    /// `None` without a common seed. A configuration that is equal for every seed is paired with all seeds of
    /// the other, because it may have run fewer seeds.
    pub(crate) fn difference(
        self,
        ours: &BTreeMap<usize, f64>,
        theirs: &BTreeMap<usize, f64>,
        (is_ours_same, are_theirs_same): (bool, bool),
        (pilot, confidence): (usize, f64),
    ) -> Option<Difference> {
        let is_exact = is_ours_same && are_theirs_same;
        let of = |values: &BTreeMap<usize, f64>, is_same: bool, seed: &usize| {
            values.get(seed).or_else(|| values.values().next().filter(|_| is_same)).copied()
        };
        let seeds: BTreeSet<usize> = ours.keys().chain(theirs.keys()).copied().collect();
        let pair = |seed| Some((seed, (of(ours, is_ours_same, &seed)?, of(theirs, are_theirs_same, &seed)?)));
        let pairs: BTreeMap<usize, (f64, f64)> = seeds.into_iter().filter_map(pair).collect();
        let mean = pairs.values().map(|(_, theirs)| theirs).sum::<f64>() / pairs.len() as f64;
        let share = |(&seed, &(ours, theirs)): (&usize, &(f64, f64))| (seed, (ours - theirs) / mean.abs());
        let shares: BTreeMap<usize, f64> = pairs.iter().map(share).collect();
        let relative = estimate_of(&shares, pilot, confidence).filter(|found| found.mean.is_finite())?;
        // Equal results for every seed have no spread: the difference is exact, without interval and test.
        let half_width = relative.half_width.filter(|_| !is_exact);
        let relative = Estimate { half_width, ..relative };
        let p = relative.p_value().filter(|_| !is_exact);
        let Self { configuration, baseline, measure } = self;
        Some(Difference { configuration, baseline, measure, relative, p, is_exact })
    }
}

/// Estimate from values by seed index. Indices below `pilot` are the first stage.
fn estimate_of(values: &BTreeMap<usize, f64>, pilot: usize, confidence: f64) -> Option<Estimate> {
    let first = values.range(..pilot).count();
    two_stage_estimate(&values.values().copied().collect::<Vec<f64>>(), first, confidence)
}

/// Corrects the p values for the number of `differences`.
pub(crate) fn correct(differences: &mut [Difference]) {
    let mut values: Vec<&mut f64> = differences.iter_mut().filter_map(|found| found.p.as_mut()).collect();
    let corrected = holm(&values.iter().map(|p| **p).collect::<Vec<f64>>());
    values.iter_mut().zip(corrected).for_each(|(p, corrected)| **p = corrected);
}

impl Difference {
    /// True if the runs can tell a difference from chance: they have several seeds, or no randomness.
    pub fn has_verdict(&self) -> bool {
        self.is_exact || self.p.is_some()
    }

    /// True if the difference is significant: its corrected p value is below 1 − `confidence`, or it is exact
    /// and not 0.
    pub fn is_shown(&self, confidence: f64) -> bool {
        self.is_exact && self.relative.mean != 0.0 || self.p.is_some_and(|p| p < 1.0 - confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_chance_is_paired_with_all_seeds_of_the_other() {
        let of = |values: &[f64]| values.iter().copied().enumerate().collect::<BTreeMap<usize, f64>>();
        let (constant, random) = (of(&[2.0, 2.0]), of(&[2.2, 2.1, 2.3, 2.2, 2.2]));
        let pair = || Pair { configuration: 1, baseline: 0, measure: 0 };
        let found = pair().difference(&random, &constant, (false, true), (5, 0.95)).expect("a difference");
        assert_eq!((found.relative.n, found.is_exact), (5, false));
        assert!((found.relative.mean - 0.1).abs() < 1e-9 && found.is_shown(0.95), "{found:?}");
        let back = pair().difference(&constant, &random, (true, false), (5, 0.95)).expect("a difference");
        assert_eq!(back.relative.n, 5);
        let both = pair().difference(&of(&[2.2, 2.2]), &constant, (true, true), (5, 0.95)).expect("one");
        assert!(both.is_exact && both.p.is_none() && both.is_shown(0.95));
        // Without equal results for every seed, only common seeds count.
        let few = pair().difference(&random, &constant, (false, false), (5, 0.95)).expect("a difference");
        assert_eq!(few.relative.n, 2);
        // The interval uses the spread of the first stage only.
        let staged = pair().difference(&random, &constant, (false, true), (3, 0.95)).expect("a difference");
        assert_eq!((staged.relative.n, staged.relative.degrees), (5, 2));
    }
}
