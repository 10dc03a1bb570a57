//! Findings of a sweep: means with their intervals, and differences.

use std::collections::{BTreeMap, BTreeSet};

use crate::columns::{digest_without_seed, flat};
use crate::plan::{short, shown};
use crate::{Estimate, Outcome, Plan, Store, SweepError, estimate, holm};

/// Verdicts of a window about which nothing needs to be said.
const STEADY: [&str; 2] = ["steady", "no-writes"];

/// Findings of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationSummary {
    /// Its place in [`Plan::configurations`].
    pub configuration: usize,
    /// Runs that gave a result, and those that failed.
    pub runs: (usize, usize),
    /// Why the first failed.
    pub error: Option<String>,
    /// Each measure; nothing if no run has it. Without an interval if `is_same`.
    pub measures: Vec<Option<Estimate>>,
    /// Runs whose window is not that of the steady state, by verdict (`window.verdict`).
    pub not_steady: BTreeMap<String, usize>,
    /// True if several seeds gave one and the same result: nothing in the workload or the drive is random.
    pub is_same: bool,
}

impl ConfigurationSummary {
    /// Runs whose window is not that of the steady state.
    pub fn not_steady_runs(&self) -> usize {
        self.not_steady.values().sum()
    }
}

/// Difference of a measure between two values of the compared key, all else being the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The configuration.
    pub configuration: usize,
    /// Baseline: the configuration with the first value of that key, or with an earlier one where all pairs are wanted.
    pub baseline: usize,
    /// Index of the measure.
    pub measure: usize,
    /// Difference as a share of the baseline's mean, of runs with the same seed. Runs with the same seed have the same
    /// requests, so what those do to both cancels.
    pub relative: Estimate,
    /// p value of Student's t test on pairs of runs with the same seed, corrected by Holm's method for all comparisons of
    /// the measure. Nothing with one seed, and if `is_exact`.
    pub p: Option<f64>,
    /// True if both configurations give the same for every seed: the difference has no interval and needs none.
    pub is_exact: bool,
}

/// Means and differences.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Names of the measures.
    pub measures: Vec<String>,
    /// The key that is compared.
    pub compare: Option<String>,
    /// Of intervals.
    pub confidence: f64,
    /// Each configuration.
    pub configurations: Vec<ConfigurationSummary>,
    /// Each difference.
    pub differences: Vec<Difference>,
}

impl Summary {
    /// Of the `points` of `plan`; a measure that no result has is an error, with the nearest name.
    pub fn of(plan: &Plan, store: &Store, points: &[usize]) -> Result<Self, SweepError> {
        let (seeds, measures) = (plan.seeds(), plan.file.measure.clone());
        // By configuration: each measure of each seed.
        let mut values: BTreeMap<usize, Vec<BTreeMap<usize, f64>>> = BTreeMap::new();
        let mut tallies: BTreeMap<usize, Tally> = BTreeMap::new();
        let mut names: Vec<String> = Vec::new();
        for &point in points {
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
        let confidence = plan.file.confidence;
        for (at, measure) in measures.iter().enumerate() {
            let is_there = values.values().any(|of| !of[at].is_empty());
            if !is_there && !names.is_empty() && !names.contains(measure) {
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
                    let found = estimate(&of.values().copied().collect::<Vec<f64>>(), confidence)?;
                    let half_width = found.half_width.filter(|_| !tally.is_same());
                    Some(Estimate { half_width, ..found })
                };
                let measures = of.iter().map(estimated).collect();
                tally.summary(configuration, measures)
            })
            .collect();
        let is_same: Vec<bool> = configurations.iter().map(|found| found.is_same).collect();
        let differences = differences(plan, &values, &is_same, measures.len());
        Ok(Self { measures, compare: plan.file.compare.clone(), confidence, configurations, differences })
    }

    /// As CSV: a line for each configuration, with mean, half-width of the interval (`_half`) and number of runs (`_n`) of
    /// each measure, the runs that were not steady, and those that failed. Names of columns are words that plotting
    /// libraries take as they are: the last part of a key, no dots, no blanks.
    pub fn csv(&self, plan: &Plan) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
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

/// Outcomes of the runs of one configuration.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    failed: usize,
    error: Option<String>,
    not_steady: BTreeMap<String, usize>,
    /// Results without their seeds.
    digests: BTreeSet<String>,
}

impl Tally {
    fn add(&mut self, result: &serde_json::Value) {
        self.done += 1;
        self.digests.insert(digest_without_seed(result));
        let verdict = result["window"]["verdict"].as_str();
        if let Some(verdict) = verdict.filter(|verdict| !STEADY.contains(verdict)) {
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

fn differences(
    plan: &Plan,
    values: &BTreeMap<usize, Vec<BTreeMap<usize, f64>>>,
    is_same: &[bool],
    measures: usize,
) -> Vec<Difference> {
    let Some(at) = plan.file.compare.as_ref().and_then(|key| plan.keys.iter().position(|other| other == key))
    else {
        return Vec::new();
    };
    // Configurations that differ in the compared key only, in their order.
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
                found.extend(of.difference(&ours[measure], &theirs[measure], is_same, plan.file.confidence));
            }
        }
        earlier.push(configuration);
    }
    (0..measures).for_each(|measure| correct(&mut found, measure));
    found
}

/// Two configurations and the measure that is compared.
struct Pair {
    configuration: usize,
    baseline: usize,
    measure: usize,
}

impl Pair {
    /// The difference over the seeds that both have; nothing if there is none. One that is the same for every seed has
    /// its value for all seeds of the other, of which it may have run fewer.
    fn difference(
        self,
        ours: &BTreeMap<usize, f64>,
        theirs: &BTreeMap<usize, f64>,
        (is_ours_same, are_theirs_same): (bool, bool),
        confidence: f64,
    ) -> Option<Difference> {
        let is_exact = is_ours_same && are_theirs_same;
        let of = |values: &BTreeMap<usize, f64>, is_same: bool, seed: &usize| {
            values.get(seed).or_else(|| values.values().next().filter(|_| is_same)).copied()
        };
        let seeds: BTreeSet<&usize> = ours.keys().chain(theirs.keys()).collect();
        let pair = |seed| Some((of(ours, is_ours_same, seed)?, of(theirs, are_theirs_same, seed)?));
        let pairs: Vec<(f64, f64)> = seeds.into_iter().filter_map(pair).collect();
        let mean = pairs.iter().map(|(_, theirs)| theirs).sum::<f64>() / pairs.len() as f64;
        let shares: Vec<f64> = pairs.iter().map(|(ours, theirs)| (ours - theirs) / mean.abs()).collect();
        let relative = estimate(&shares, confidence).filter(|found| found.mean.is_finite())?;
        let half_width = relative.half_width.filter(|_| !is_exact);
        let relative = Estimate { half_width, ..relative };
        let p = relative.p_value().filter(|_| !is_exact);
        let Self { configuration, baseline, measure } = self;
        Some(Difference { configuration, baseline, measure, relative, p, is_exact })
    }
}

/// Corrects the p values of one measure for the number of its comparisons.
fn correct(differences: &mut [Difference], measure: usize) {
    let family = differences.iter_mut().filter(|found| found.measure == measure);
    let mut values: Vec<&mut f64> = family.filter_map(|found| found.p.as_mut()).collect();
    let corrected = holm(&values.iter().map(|p| **p).collect::<Vec<f64>>());
    values.iter_mut().zip(corrected).for_each(|(p, corrected)| **p = corrected);
}

impl Difference {
    /// True if the difference is significant: its corrected p value is below the level of the `confidence`, or it is exact
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
        let found = pair().difference(&random, &constant, (false, true), 0.95).expect("a difference");
        assert_eq!((found.relative.n, found.is_exact), (5, false));
        assert!((found.relative.mean - 0.1).abs() < 1e-9 && found.is_shown(0.95), "{found:?}");
        let back = pair().difference(&constant, &random, (true, false), 0.95).expect("a difference");
        assert_eq!(back.relative.n, 5);
        let both = pair().difference(&of(&[2.2, 2.2]), &constant, (true, true), 0.95).expect("one");
        assert!(both.is_exact && both.p.is_none() && both.is_shown(0.95));
        // Without being the same for every seed, only the seeds that both have count.
        let few = pair().difference(&random, &constant, (false, false), 0.95).expect("a difference");
        assert_eq!(few.relative.n, 2);
    }
}
