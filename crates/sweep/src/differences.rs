use std::collections::{BTreeMap, BTreeSet};

use crate::{Estimate, Plan, holm, two_stage_estimate};

/// Configuration → measure → seed index → value.
pub(crate) type Values = BTreeMap<usize, Vec<BTreeMap<usize, f64>>>;

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

/// Differences of all measures between values of the compared key.
pub(crate) fn differences(
    plan: &Plan,
    values: &Values,
    is_same: &[bool],
    measures: usize,
) -> Vec<Difference> {
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
pub(crate) fn estimate_of(values: &BTreeMap<usize, f64>, pilot: usize, confidence: f64) -> Option<Estimate> {
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
