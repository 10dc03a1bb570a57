//! Steps 4 to 6 of MiDAS: finds, applies and gives up layouts.

use strobe_types::BlockId;

use super::intervals::Intervals;
use super::layout::{Facts, Layout};
use super::{Midas, NOWHERE, Stage};

const EXCESS: f64 = 0.1;
const GROUPS_MOST: u8 = 9;

impl Midas {
    pub(super) fn leave(&mut self, block: BlockId) {
        if self.blocks[block.index()].stage == Stage::Full {
            self.counts[usize::from(self.labels[block.index()])] -= 1;
        }
    }

    fn relabel(&mut self, relabel: impl Fn(u8) -> u8) {
        self.counts.fill(0);
        for (label, block) in self.labels.iter_mut().zip(&self.blocks) {
            if block.stage == Stage::Full {
                *label = relabel(*label);
                self.counts[usize::from(*label)] += 1;
            }
        }
    }

    pub(super) fn merge(&mut self, to: u8) {
        // Group `to` and all later groups become the last one, which is a chain of streams from `to` on.
        let last = std::mem::replace(&mut self.last, to);
        self.relabel(|label| if label > last { label - (last - to) } else { label.min(to) });
        self.is_chain = true;
        self.has_failed |= usize::from(to) <= self.promised.len() / 2;
        if to == 1 {
            (self.uncollected, self.since) = (0, None);
        }
        self.need((2 << to) - 1);
    }

    /// Measures write amplification, ends a window of intervals, checks the forecast.
    pub(super) fn check_windows(&mut self) {
        let written = self.clock - self.period.0;
        if written >= self.scale.drive {
            self.waf = (written + self.period.1) as f64 / written as f64;
            self.period = (self.clock, 0);
        }
        if self.intervals.is_over() {
            self.lay_out();
        }
        // Step 5: every 0.3 windows, the measured valid shares of victims are compared with the forecast.
        if let Some(since) = self.since
            && self.clock - since > 3 * self.intervals.length() / 10
        {
            let end = if self.is_chain { self.last } else { self.last + 1 };
            let share = |group: u8| {
                let (sum, victims) = self.measured[usize::from(group)];
                sum / f64::from(victims)
            };
            let is_wrong = |&group: &u8| share(group) - self.promised[usize::from(group)] >= EXCESS;
            let wrong = (1..end).find(is_wrong);
            self.measure();
            if let Some(group) = wrong {
                self.merge(group);
            }
        }
    }

    /// Stops waiting for victims of groups without a bit in `groups`.
    pub(super) fn need(&mut self, groups: u32) {
        if self.uncollected > 0 {
            self.uncollected &= groups;
            if self.uncollected == 0 {
                self.measure();
            }
        }
    }

    fn measure(&mut self) {
        self.since = Some(self.clock);
        self.measured.fill((0.0, 0));
    }

    #[cold]
    fn lay_out(&mut self) {
        let scale = self.scale;
        let windows = self.intervals.windows();
        let intervals = std::mem::replace(&mut self.intervals, Intervals::new(&scale, windows));
        let [traffic, valid, size] = self.filter.take_known();
        let hot = (size + 1.5) as u32;
        // If hot victims hold too many valid units or the last group is empty, observe over a longer window.
        if valid > if hot > 1 { 0.18 } else { 0.3 } || self.counts[usize::from(self.top())] == 0 {
            self.intervals = Intervals::new(&scale, 2 * windows);
            return;
        }
        let step = (scale.grain / 4).max(1) as f64 / scale.grain as f64;
        let live = self.place.iter().filter(|&&place| place != NOWHERE).count() as f64 / scale.grain as f64;
        let mut facts = Facts::new(&intervals.finish(), step, self.grains_in_use(), live, self.untouched());
        facts.hot = (valid > 0.1 || traffic < 0.15).then_some((traffic, valid));
        let groups = (self.streams - 1).min(GROUPS_MOST);
        let Some(layout) = facts.search(hot, groups.into()) else { return };
        // A layout must not forecast a higher write amplification than the measured one.
        if layout.sizes.is_empty() || self.waf < layout.waf {
            return;
        }
        // Two failed layouts in a row suggest too short a window.
        self.failures = if std::mem::take(&mut self.has_failed) { self.failures + 1 } else { 0 };
        if self.failures >= 2 {
            self.intervals = Intervals::new(&scale, 2 * windows);
        }
        self.take(layout);
    }

    fn grains_in_use(&self) -> u32 {
        let blocks =
            self.blocks.iter().filter(|block| matches!(block.stage, Stage::Open | Stage::Full)).count();
        self.scale.grains(blocks as f64) as u32
    }

    /// Grains of full blocks in the last group without a rewritten unit; 0 below a fifth of the drive.
    fn untouched(&self) -> f64 {
        let mut valid = vec![0_u64; self.blocks.len()];
        for place in &self.place {
            if let Some(valid) = valid.get_mut(place.index()) {
                *valid += 1;
            }
        }
        let of_last = |at: &usize| self.blocks[*at].stage == Stage::Full && self.labels[*at] >= self.last;
        let full: Vec<usize> = (0..self.blocks.len()).filter(of_last).collect();
        let untouched = full.iter().filter(|&&at| valid[at] == self.scale.block).count() as f64;
        // Some of these blocks were only just filled.
        let untouched = untouched - 0.05 * full.len() as f64;
        if untouched < 0.2 * self.blocks.len() as f64 { 0.0 } else { self.scale.grains(untouched) }
    }

    fn take(&mut self, layout: Layout) {
        let new = layout.sizes.len() as u8 + 1;
        let first = self.last.min(new);
        self.relabel(|label| if label >= first { new } else { label });
        (self.last, self.is_chain) = (new, false);
        // One grain of each group is open, in group 1 two.
        let per_grain = (self.scale.grain / self.scale.block) as u32;
        let size = |grains: &u32| grains.saturating_sub(1) * per_grain;
        self.sizes = std::iter::once(&layout.hot).chain(&layout.sizes).map(size).collect();
        self.sizes[1] = self.sizes[1].saturating_sub(per_grain);
        // The oldest blocks beyond a group's size move to the last group.
        let mut full: Vec<usize> = (0..self.blocks.len()).collect();
        full.retain(|&at| self.blocks[at].stage == Stage::Full);
        full.sort_by_key(|&at| self.blocks[at].closed);
        for at in full {
            let group = usize::from(self.labels[at]);
            if group < self.sizes.len() && self.counts[group] > self.sizes[group] {
                self.labels[at] = new;
                self.counts[group] -= 1;
                self.counts[usize::from(new)] += 1;
            }
        }
        self.promised = layout.shares;
        self.uncollected = (2 << new) - 1;
        self.since = None;
    }
}
