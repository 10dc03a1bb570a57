//! The best value of the compared key in each cell, a combination of values of the other keys.
//!
//! 1. In each cell, the value with the best mean of the first measure is compared with the second best.
//! 2. The difference is over pairs of runs with equal seeds, as for all differences.
//! 3. p values are corrected for the number of cells.
//!
//! Example: with WAF 3.1 (greedy), 3.4 (fifo) and 3.3 (random), greedy is the best, 6.1 % below random.

use std::collections::BTreeMap;

use crate::differences::{Pair, Values, correct};
use crate::measures::is_higher_better;
use crate::{Difference, Plan};

/// The best value against the second best for each cell with two values or more. Empty if neither a low
/// nor a high value of the first measure is better as such.
pub(crate) fn best(plan: &Plan, values: &Values, means: &[Option<f64>], is_same: &[bool]) -> Vec<Difference> {
    let measure = plan.file.measure.first().map(String::as_str).unwrap_or_default();
    let Some(is_higher) = is_higher_better(measure) else { return Vec::new() };
    let Some(place) = plan.file.compare.as_ref().and_then(|key| plan.place(key)) else { return Vec::new() };
    let mut cells: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    for (configuration, mean) in means.iter().enumerate() {
        if let Some(mean) = *mean {
            cells.entry(plan.all_else(configuration, place)).or_default().push((configuration, mean));
        }
    }
    let mut found: Vec<Difference> = Vec::new();
    for mut cell in cells.into_values() {
        // The sort is stable: of equal means, the first in the file's order is the best.
        cell.sort_by(|(_, one), (_, other)| {
            let order = one.total_cmp(other);
            if is_higher { order.reverse() } else { order }
        });
        let [(configuration, _), (baseline, _), ..] = cell[..] else { continue };
        let (Some(ours), Some(theirs)) = (values.get(&configuration), values.get(&baseline)) else {
            continue;
        };
        let is_same = (is_same[configuration], is_same[baseline]);
        let pair = Pair { configuration, baseline, measure: 0 };
        found.extend(pair.difference(&ours[0], &theirs[0], is_same, plan.file.stages()));
    }
    found.sort_by_key(|found| found.configuration.min(found.baseline));
    correct(&mut found);
    found
}
