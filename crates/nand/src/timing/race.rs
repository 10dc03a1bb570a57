//! What happens next: the earliest of many times that change one at a time.

use strobe_types::SimTime;

/// A time that never comes.
pub(super) const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// The last time that comes: where virtual time ends, everything happens at once.
pub(super) const LAST: SimTime = SimTime::from_ns(u64::MAX - 1);

/// The times of many runners, each with one; the earliest is known at once, of equal ones that of the lowest number.
/// Setting one costs a comparison for each of log₂ n rounds.
#[derive(Clone, Debug)]
pub(super) struct Race {
    /// `winners[1]` is the winner of all; the rounds before it below, the runners' own times at `runners` and behind.
    times: Vec<SimTime>,
    winners: Vec<u32>,
    leaves: usize,
}

impl Race {
    pub(super) fn new(runners: usize) -> Self {
        let leaves = runners.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for at in 0..leaves {
            winners[leaves + at] = at as u32;
        }
        for at in (1..leaves).rev() {
            winners[at] = winners[2 * at];
        }
        Self { times: vec![NEVER; leaves], winners, leaves }
    }

    #[inline]
    pub(super) fn set(&mut self, runner: usize, time: SimTime) {
        self.times[runner] = time;
        let mut at = (self.leaves + runner) / 2;
        while at > 0 {
            let (left, right) = (self.winners[2 * at], self.winners[2 * at + 1]);
            let is_left = self.times[left as usize] <= self.times[right as usize];
            self.winners[at] = if is_left { left } else { right };
            at /= 2;
        }
    }

    /// The earliest runner and its time, which may be [`NEVER`].
    #[inline]
    pub(super) fn first(&self) -> (usize, SimTime) {
        let winner = self.winners[1.min(self.winners.len() - 1)] as usize;
        (winner, self.times[winner])
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
            }
        }
    }
}
