//! Number and sizes of groups with the least write amplification: the Markov-chain model of MiDAS (MCAM) and
//! its search (GCS).
//!
//! Sizes and times are in grains. A grain is one block per plane, or more on a large drive. Time is counted
//! in units written by the host.
//!
//! 1. A unit written by the host enters group 0 if hot, else group 1. Units relocated from group 0 enter
//!    group 1.
//! 2. A group of s grains, entered by v units per host write, holds a unit for (s - 1/2)/v grains of writes.
//!    A unit not rewritten by then enters the next group.
//! 3. The last group is collected by age and fill. The valid share of its victims is 1 - 1/A. A is the write
//!    amplification of a log with hot and cold units (Desnoyers, SYSTOR 2012), the root of
//!
//!    A = 1 + r/(e^{r σ/(f A)} - 1) + (1 - r)/(e^{(1-r) σ/((1-f) A)} - 1).
//!
//! σ is the space of the last group divided by the space of its live units, both without `Facts::untouched`.
//! A share f of these live units is hot: with an interval up to 0.7 times the mean of the last group. Hot
//! units take a share r of the writes to this group's units.

/// Grains at the end of the window of intervals where no group may end. The search also leaves the last group
/// more than this.
const MARGIN: u32 = 50;
/// Exclusive limit of the hot group, in grains.
const HOT_END: u32 = 30;
/// Least gain in write amplification that lets the hot group grow.
const HOT_GAIN: f64 = 0.05;
const REFINEMENTS: u32 = 4;
const EPSILON: f64 = 1e-9;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// Grains of group 0.
    pub(super) hot: u32,
    /// Grains of groups 1 and up, without the last.
    pub(super) sizes: Vec<u32>,
    /// Forecast valid share of victims, by group.
    pub(super) shares: Vec<f64>,
    /// Forecast write amplification.
    pub(super) waf: f64,
}

impl Layout {
    fn is_better(&self, than: &Option<Self>) -> bool {
        than.as_ref().is_none_or(|than| self.waf < than.waf - EPSILON)
    }

    fn grains(&self) -> u32 {
        self.hot + self.sizes.iter().sum::<u32>()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Open and full blocks, in grains.
    pub(super) used: u32,
    /// Live units, in grains.
    pub(super) live: f64,
    /// Full blocks of the last group without a rewritten unit, in grains; 0 below a fifth of the drive.
    pub(super) untouched: f64,
    /// Hot share of writes and valid share of hot victims, if measured. Else the hot units are those with
    /// intervals below the time in group 0, so its victims have no valid unit.
    pub(super) hot: Option<(f64, f64)>,
    /// Grains per step of the interval counts.
    step: f64,
    /// Number of intervals not shorter than each step.
    longer: Vec<u64>,
    /// Sum of `longer` from step 1 up to each step.
    held: Vec<u64>,
    /// Total length of the intervals shorter than each step.
    lengths: Vec<u64>,
}

impl Facts {
    /// `counts`: intervals by length in steps of `step` grains.
    pub(super) fn new(counts: &[u64], step: f64, used: u32, live: f64, untouched: f64) -> Self {
        let mut left: u64 = counts.iter().sum();
        let (mut longer, mut held, mut lengths) = (vec![left], vec![0], vec![0]);
        let (mut all_held, mut length) = (0, 0);
        for (at, count) in (0..).zip(counts) {
            left -= count;
            all_held += left;
            length += count * at;
            longer.push(left);
            held.push(all_held);
            lengths.push(length);
        }
        Self { used, live, untouched, hot: None, step, longer, held, lengths }
    }

    fn steps(&self) -> usize {
        self.longer.len() - 1
    }

    fn step_at(&self, grains: f64) -> usize {
        ((grains / self.step).ceil() as usize).min(self.steps())
    }

    fn longer(&self, step: usize) -> f64 {
        self.longer[step] as f64
    }

    /// Grains of live units with an age in `steps`. `rate` units per host write, and `all` intervals, reach
    /// the start of `steps`.
    fn held(&self, steps: std::ops::Range<usize>, all: f64, rate: f64) -> f64 {
        (self.held[steps.end] - self.held[steps.start]) as f64 / all * rate * self.step
    }

    /// Forecast for a hot group of `hot` grains or slightly more, and groups of `sizes` before the last.
    /// `None` if impossible.
    fn forecast(&self, hot: u32, sizes: &[u32]) -> Option<Layout> {
        if self.longer[0] == 0 {
            return None;
        }
        let all = self.longer(0);
        let (mut past, mut held, mut hot) = (0.0, 0.0, hot);
        let mut at;
        let (traffic, valid) = match self.hot {
            Some((traffic, valid)) => {
                past += (f64::from(hot) - 0.5) / traffic;
                at = self.step_at(past);
                held += self.held(0..at, all, traffic);
                (traffic, valid)
            }
            None => {
                let grains = |at: usize| {
                    let traffic = 1.0 - self.longer(at) / all;
                    (at as f64 * self.step * traffic + 0.5) as u32
                };
                at = (1..=self.steps()).find(|&at| grains(at) >= hot)?;
                hot = grains(at);
                past += at as f64 * self.step;
                // As published, the smallest layout ignores the hot group's live units.
                if !sizes.is_empty() {
                    held += self.held(0..at, all, 1.0);
                }
                (1.0 - self.longer(at) / all, 0.0)
            }
        };
        // Per host write: `rate` is the units entering the present group, `copies` the relocations.
        let mut rate = 1.0 - traffic + traffic * valid;
        let mut copies = traffic * valid;
        let mut shares = vec![valid];
        for (group, &size) in sizes.iter().enumerate() {
            let time = (f64::from(size) - 0.5) / rate;
            if time.floor() + past >= self.steps() as f64 * self.step - f64::from(MARGIN) {
                return None;
            }
            past += time;
            let end = self.step_at(past);
            if self.longer[end] == 0 {
                return None;
            }
            let share = self.longer(end) / self.longer(at);
            held += self.held(at..end, self.longer(at), rate);
            if group > 0 {
                copies += rate;
            }
            shares.push(share);
            rate *= share;
            at = end;
        }
        copies += rate;
        let last = self.used.checked_sub(hot + sizes.iter().sum::<u32>())?;
        let live = self.live - self.untouched - held;
        if live <= 0.0 {
            return None;
        }
        let share = self.last_share(at, (f64::from(last) - self.untouched) / live)?;
        shares.push(share);
        copies += rate * share / (1.0 - share);
        Some(Layout { hot, sizes: sizes.to_vec(), shares, waf: 1.0 + copies })
    }

    /// Valid share of the last group's victims, for units with intervals from step `from` on, in `spare`
    /// times their space.
    fn last_share(&self, from: usize, spare: f64) -> Option<f64> {
        let end = self.steps();
        let (writes, length) = (self.longer(from), (self.lengths[end] - self.lengths[from]) as f64);
        if spare <= 1.0 || length <= 0.0 {
            return None;
        }
        let hot_end = ((0.7 * length / writes) as usize + 1).clamp(from, end);
        let r = (writes - self.longer(hot_end)) / writes;
        let f = (self.lengths[hot_end] - self.lengths[from]) as f64 / length;
        let part = |r: f64, f: f64, a: f64| {
            if r > 0.0 { r / (libm::exp(r * spare / (f * a)) - 1.0) } else { 0.0 }
        };
        let is_below = |a: f64| 1.0 + part(r, f, a) + part(1.0 - r, 1.0 - f, a) > a;
        // Bracket the root, then bisect.
        let (mut low, mut high) = (1.0, 2.0);
        while is_below(high) {
            high *= 2.0;
            if high > 1e6 {
                return None;
            }
        }
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if is_below(middle) { low = middle } else { high = middle }
        }
        let share = 1.0 - 1.0 / low;
        (share > 0.0).then_some(share)
    }

    /// Best layout with at most `groups` groups, not counting the hot one. The hot group has `hot` grains if
    /// it was measured.
    pub(super) fn search(&self, hot: u32, groups: usize) -> Option<Layout> {
        // An unmeasured hot group grows while the gain is large enough. Then groups are added before the last
        // one, each with its best size.
        let mut layouts = vec![self.smallest(hot)?];
        while layouts.len() < groups {
            let from = &layouts[layouts.len() - 1];
            let most = self.used.saturating_sub(MARGIN + from.grains());
            let mut best = None;
            for size in 1..most {
                let sizes: Vec<u32> = from.sizes.iter().copied().chain([size]).collect();
                best = self.forecast(from.hot, &sizes).filter(|new| new.is_better(&best)).or(best);
            }
            let Some(best) = best else { break };
            layouts.push(best);
        }
        let mut best = None;
        for layout in layouts {
            best = Some(layout).filter(|new| new.is_better(&best)).or(best);
        }
        for _ in 0..REFINEMENTS {
            self.refine(&mut best, groups);
        }
        best
    }

    fn smallest(&self, hot: u32) -> Option<Layout> {
        if self.hot.is_some() {
            return self.forecast(hot, &[]);
        }
        let mut best: Option<Layout> = None;
        for hot in 1..HOT_END {
            if best.as_ref().is_some_and(|best| hot <= best.hot) {
                continue;
            }
            let new = self.forecast(hot, &[]);
            let gain = best.as_ref().map_or(0.0, |best| best.waf - HOT_GAIN);
            match new {
                Some(new) if best.is_none() || new.waf < gain => best = Some(new),
                _ => break,
            }
        }
        best
    }

    fn refine(&self, best: &mut Option<Layout>, groups: usize) {
        let mut group = 0;
        loop {
            // Each group takes its best size with the others fixed. The round ends with an attempt to add a
            // group.
            let Some(Layout { hot, sizes, .. }) = best.clone() else { return };
            if group > sizes.len() || group + 1 >= groups {
                return;
            }
            let mut sizes = sizes;
            let is_new = group == sizes.len();
            sizes.resize(sizes.len().max(group + 1), 0);
            sizes[group] = 0;
            let most = self.used.saturating_sub(MARGIN + hot + sizes.iter().sum::<u32>());
            let mut is_found = false;
            for size in 1..most {
                sizes[group] = size;
                let Some(new) = self.forecast(hot, &sizes) else { break };
                if new.is_better(best) {
                    *best = Some(new);
                    is_found = true;
                }
            }
            if is_new && !is_found {
                return;
            }
            group += 1;
        }
    }
}
