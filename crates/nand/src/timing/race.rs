//! Tournament tree: finds the earliest of many event times.

use strobe_types::{SimTime, Stored};

pub(super) const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// The last time of the simulation. Later events are clamped to it.
pub(super) const LAST: SimTime = SimTime::from_ns(u64::MAX - 1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
struct Runner {
    time: SimTime,
    number: u32,
}

/// The earliest time is available in O(1); on ties the lowest number wins. An update costs one comparison per
/// changed round, at most log₂ n.
#[derive(Clone, Debug, Stored)]
pub(super) struct Race {
    /// `winners[1]` is the overall winner; the runners are in the second half.
    winners: Vec<Runner>,
}

impl Race {
    pub(super) fn new(runners: usize) -> Self {
        let leaves = runners.next_power_of_two().max(2);
        let mut winners = vec![Runner { time: NEVER, number: 0 }; 2 * leaves];
        for at in 0..leaves {
            winners[leaves + at].number = at as u32;
        }
        for at in (1..leaves).rev() {
            winners[at] = winners[2 * at];
        }
        Self { winners }
    }

    #[inline]
    pub(super) fn set(&mut self, runner: usize, time: SimTime) {
        let mut at = self.winners.len() / 2 + runner;
        self.winners[at].time = time;
        while at > 1 {
            let (left, right) = (self.winners[at & !1], self.winners[at | 1]);
            let winner = if left.time <= right.time { left } else { right };
            at /= 2;
            if self.winners[at] == winner {
                // The rounds above do not change.
                return;
            }
            self.winners[at] = winner;
        }
    }

    #[inline(always)]
    pub(super) fn first_but(&self, runner: usize) -> SimTime {
        let mut at = self.winners.len() / 2 + runner;
        let mut first = NEVER;
        while at > 1 {
            first = first.min(self.winners[at ^ 1].time);
            at /= 2;
        }
        first
    }

    #[inline(always)]
    pub(super) fn first(&self) -> (usize, SimTime) {
        let Runner { time, number } = self.winners[1];
        (number as usize, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_types::Prng;

    #[test]
    fn the_earliest_wins_and_of_equals_the_first() {
        for runners in [1usize, 2, 3, 7, 8, 9] {
            let mut race = Race::new(runners);
            let mut times = vec![NEVER; runners];
            let mut rng = Prng::new(runners as u64);
            for _ in 0..500 {
                let runner = rng.below(runners as u32) as usize;
                let time = match rng.below(4) {
                    0 => NEVER,
                    _ => SimTime::from_ns(u64::from(rng.below(5))),
                };
                race.set(runner, time);
                times[runner] = time;
                let expected = (0..runners).min_by_key(|&at| times[at]).expect("one");
                assert_eq!(race.first(), (expected, times[expected]));
                let others = (0..runners).filter(|&at| at != runner).map(|at| times[at]);
                assert_eq!(race.first_but(runner), others.min().unwrap_or(NEVER));
            }
        }
    }
}
