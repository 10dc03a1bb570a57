use std::ops::RangeInclusive;

use strobe_types::{Prng, named};

named! {
    /// Flash operations at which power is cut.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CutPoints {
        /// Equally spaced operations.
        Spread => "spread",
        /// Random operations.
        Random => "random",
        /// First operation after each flush, when new data has just become durable.
        Flushes => "flushes",
        /// First operation after each line that the program prints.
        Lines => "lines",
        /// Operations of different kinds: other calls, files or commands in flight, ignoring numbers.
        Distinct => "distinct",
        /// All operations.
        All => "all",
    }
}

/// Chooses up to `cuts` of the operations `among`, in order; with [`CutPoints::All`], all.
///
/// `behind` holds the number of started operations at each flush or line.
pub(super) fn choose(
    among: RangeInclusive<u64>,
    behind: &[u64],
    places: CutPoints,
    cuts: usize,
    seed: u64,
) -> Vec<u64> {
    let (first, last) = (*among.start(), *among.end());
    let mut candidates: Vec<u64> = match places {
        CutPoints::All => return among.collect(),
        // The kinds are chosen from a run, not here.
        CutPoints::Spread | CutPoints::Distinct => among.clone().collect(),
        CutPoints::Flushes | CutPoints::Lines => {
            behind.iter().map(|&done| done + 1).filter(|at| among.contains(at)).collect()
        }
        CutPoints::Random => {
            let mut chance = Prng::derive(seed, "power cuts");
            let wanted = (cuts as u64).min((last + 1).saturating_sub(first)) as usize;
            let mut chosen = std::collections::BTreeSet::new();
            while chosen.len() < wanted {
                chosen.insert(first + chance.below_u64(last - first + 1));
            }
            chosen.into_iter().collect()
        }
    };
    candidates.sort_unstable();
    candidates.dedup();
    if candidates.len() <= cuts {
        return candidates;
    }
    // Take the middles of equal parts.
    let part = |at: usize| (2 * at + 1) * candidates.len() / (2 * cuts);
    (0..cuts).map(|at| candidates[part(at)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_random_or_behind_flushes() {
        assert_eq!(choose(1..=10, &[], CutPoints::Spread, 100, 1), (1..=10).collect::<Vec<_>>());
        assert_eq!(choose(1..=10, &[], CutPoints::Spread, 5, 1), [2, 4, 6, 8, 10]);
        assert_eq!(choose(11..=20, &[], CutPoints::Spread, 1, 1), [16]);
        assert_eq!(choose(11..=20, &[3, 12, 12, 15, 20], CutPoints::Flushes, 9, 1), [13, 16]);
        assert_eq!(choose(11..=20, &[10, 12, 12, 19], CutPoints::Lines, 9, 1), [11, 13, 20]);
        assert_eq!(choose(1..=10, &[], CutPoints::All, 5, 1), (1..=10).collect::<Vec<_>>());
        let random = choose(1..=1000, &[], CutPoints::Random, 50, 1);
        assert_eq!(random.len(), 50);
        assert!(random.is_sorted_by(|a, b| a < b) && random[49] <= 1000);
        assert_ne!(random, choose(1..=1000, &[], CutPoints::Random, 50, 2));
        assert_eq!(choose(5..=7, &[], CutPoints::Random, 50, 1), [5, 6, 7]);
        // A program without syncs may have no operations.
        #[allow(clippy::reversed_empty_ranges)]
        for places in CutPoints::ALL {
            assert!(choose(8..=7, &[7], places, 5, 1).is_empty());
        }
    }
}
