use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strobe_types::{SimTime, Stored};

use crate::stats::HostCounts;

/// Pacing of a host's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum Pacing {
    /// Closed loop: `depth` requests are outstanding (fio `iodepth`). A new request is issued when one
    /// completes, but not within `interval_ns` of the last issue (fio `rate_iops`; 0 for no limit).
    Closed {
        /// Queue depth; 0 counts as 1.
        depth: u32,
        /// Minimum time between two issues in ns.
        interval_ns: u64,
    },
    /// Open loop: requests are issued at their arrival times, whatever the number outstanding.
    Open,
}

/// Total host work since the drive was built; no command is issued once it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum Goal {
    /// Mapping units written: [`HostCounts::units_written`].
    Written(u64),
    /// Mapping units covered by commands of any kind: [`HostCounts::units_touched`].
    Touched(u64),
}

impl Goal {
    /// Units from `counts` to the goal.
    #[inline]
    pub fn left(self, counts: &HostCounts) -> u64 {
        match self {
            Goal::Written(units) => units.saturating_sub(counts.units_written),
            Goal::Touched(units) => units.saturating_sub(counts.units_touched),
        }
    }

    /// True if `counts` have reached the goal.
    #[inline]
    pub fn is_reached(self, counts: &HostCounts) -> bool {
        self.left(counts) == 0
    }
}

/// Issue times and completions of a host's requests, in virtual time.
#[derive(Clone, Debug, Stored)]
pub struct HostQueue {
    pacing: Pacing,
    /// No request is issued once the goal is reached.
    goal: Option<Goal>,
    now: SimTime,
    next_issue: SimTime,
    /// Time of the latest completion so far: the end of the run.
    finished: SimTime,
    in_flight: usize,
    /// Completion times whose queue slots no new request has taken. Some may lie in the future.
    completions: BinaryHeap<Reverse<SimTime>>,
}

impl HostQueue {
    /// A queue that starts at `start`.
    pub fn new(pacing: Pacing, start: SimTime) -> Self {
        Self {
            pacing,
            goal: None,
            now: start,
            next_issue: start,
            finished: start,
            in_flight: 0,
            completions: BinaryHeap::new(),
        }
    }

    /// An empty queue with equal pacing and goal from `start` on, after a power cut.
    #[must_use]
    pub fn restarted(&self, start: SimTime) -> Self {
        Self { goal: self.goal, ..Self::new(self.pacing, start.max(self.now)) }
    }

    /// The goal; `None` at first.
    #[inline]
    pub fn goal(&self) -> Option<Goal> {
        self.goal
    }

    /// Sets the goal; `None` issues without end.
    pub fn set_goal(&mut self, goal: Option<Goal>) {
        self.goal = goal;
    }

    /// Time of the last issue.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Latest completion so far.
    pub fn finished(&self) -> SimTime {
        self.finished
    }

    /// Time of the next [`HostQueue::issue`], provided that [`HostQueue::must_wait`] is false.
    #[inline]
    pub fn due(&self, arrival: Option<SimTime>) -> SimTime {
        match self.pacing {
            Pacing::Open => self.now.max(arrival.unwrap_or(self.now)),
            Pacing::Closed { depth: 0 | 1, .. } => self.next_issue.max(self.finished),
            Pacing::Closed { depth, .. } => {
                // A full queue issues at its earliest completion, whose slot the new request takes.
                let is_full = self.in_flight + self.completions.len() >= depth as usize;
                let place =
                    self.completions.peek().filter(|_| is_full).map_or(self.now, |&Reverse(done)| done);
                self.now.max(place).max(self.next_issue)
            }
        }
    }

    /// Issues the next request; returns its issue time. `arrival` is that time in open loop.
    #[inline]
    pub fn issue(&mut self, arrival: Option<SimTime>) -> SimTime {
        self.now = self.due(arrival);
        if let Pacing::Closed { depth, interval_ns } = self.pacing {
            if depth > 1 && self.in_flight + self.completions.len() >= depth as usize {
                self.completions.pop();
            }
            self.next_issue = self.now + interval_ns;
        }
        self.in_flight += 1;
        self.now
    }

    /// Records that a request completes at `done`, which may lie in the future.
    #[inline]
    pub fn complete(&mut self, done: SimTime) {
        self.in_flight -= 1;
        self.finished = self.finished.max(done);
        if let Pacing::Closed { depth, .. } = self.pacing
            && depth > 1
        {
            self.completions.push(Reverse(done));
        }
    }

    /// Issued requests without a known completion.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Withdraws the request issued last, which was not submitted.
    pub fn withdraw(&mut self) {
        self.in_flight -= 1;
    }

    /// True if the next issue depends on a completion that is not known yet.
    pub fn must_wait(&self) -> bool {
        match self.pacing {
            Pacing::Open => false,
            Pacing::Closed { depth, .. } => {
                self.in_flight > 0
                    && self.in_flight + self.completions.len() >= depth as usize
                    && self.completions.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(n: u64) -> SimTime {
        SimTime::from_ns(n)
    }

    #[test]
    fn depth_one_waits_for_each_completion() {
        let mut q = HostQueue::new(Pacing::Closed { depth: 1, interval_ns: 0 }, ns(5));
        assert_eq!(q.issue(None), ns(5));
        q.complete(ns(20));
        assert_eq!(q.issue(None), ns(20));
    }

    #[test]
    fn depth_two_issues_when_the_earliest_completes() {
        let mut q = HostQueue::new(Pacing::Closed { depth: 2, interval_ns: 0 }, ns(0));
        assert_eq!(q.issue(None), ns(0));
        q.complete(ns(50));
        assert_eq!(q.issue(None), ns(0));
        q.complete(ns(30));
        assert_eq!(q.issue(None), ns(30));
        q.complete(ns(90));
        assert_eq!(q.issue(None), ns(50));
        assert_eq!(q.finished(), ns(90));
    }

    #[test]
    fn a_rate_limit_spaces_requests() {
        for depth in [1, 4] {
            let mut q = HostQueue::new(Pacing::Closed { depth, interval_ns: 100 }, ns(0));
            for n in 0..5 {
                assert_eq!(q.issue(None), ns(n * 100));
                q.complete(ns(n * 100 + 10));
            }
        }
    }

    #[test]
    fn open_loop_follows_arrivals_and_never_goes_back() {
        let mut q = HostQueue::new(Pacing::Open, ns(0));
        assert_eq!(q.issue(Some(ns(10))), ns(10));
        q.complete(ns(500));
        assert_eq!(q.issue(Some(ns(20))), ns(20));
        assert_eq!(q.issue(Some(ns(15))), ns(20));
    }
}
