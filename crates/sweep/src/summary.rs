use std::collections::{BTreeMap, BTreeSet};

use crate::best::best;
use crate::columns::{digest_without_seed, flat};
use crate::differences::{Values, differences, estimate_of};
use crate::measures::is_percentile;
use crate::plan::{short, shown};
use crate::{Difference, Estimate, Outcome, Plan, Store, SweepError};

/// Verdicts (`window.verdict`) that get no mark.
const STEADY: [&str; 2] = ["steady", "no-writes"];

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
        let means: Vec<Option<f64>> =
            configurations.iter().map(|found| found.measures[0].map(|of| of.mean)).collect();
        let best = best(plan, &values, &means, &is_same);
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
