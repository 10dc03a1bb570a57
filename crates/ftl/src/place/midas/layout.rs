//! Number and sizes of groups with the least write amplification: the Markov-chain model of MiDAS (MCAM) and its search
//! (GCS).
//!
//! A unit enters group 1 with a host write, and each group at its age when it leaves the one before. A group of s grains
//! that takes a share r of the writes is left after (s - 1/2)/r grains of writes. Of its units, those survive whose
//! interval is longer. The last group is collected by age and fill, not in order: the valid share of its victims is
//! 1 - 1/A of a log with two temperatures (Desnoyers, SYSTOR 2012),
//!
//! A = 1 + r/(e^{r σ/(f A)} - 1) + (1 - r)/(e^{(1-r) σ/((1-f) A)} - 1),
//!
//! where σ is its space over that of its live units. A share f of these is hot, with intervals up to 0.7 of the mean, and
//! takes a share r of the writes.

/// Grains of a window behind which no group may end, and grains of the last group at least.
const MARGIN: u32 = 50;
/// The hot group is smaller.
const HOT_END: u32 = 30;
/// Least gain in write amplification for which the hot group grows.
const HOT_GAIN: f64 = 0.05;
const REFINEMENTS: u32 = 4;
/// Differences of write amplification below are none.
const EPSILON: f64 = 1e-9;

/// Sizes of groups, and what they come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// Grains of the hot group.
    pub(super) hot: u32,
    /// Grains of groups 1 and up, but for the last.
    pub(super) sizes: Vec<u32>,
    /// Valid shares of the victims of each group.
    pub(super) shares: Vec<f64>,
    /// Write amplification.
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

/// Sums over a distribution of intervals, and the state of a drive.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Grains in use.
    pub(super) used: u32,
    /// Live units, and those of full blocks of which none has been written again, in grains.
    pub(super) live: f64,
    pub(super) untouched: f64,
    /// Share of writes that are hot, and valid share of hot victims, where they are taken as measured.
    pub(super) hot: Option<(f64, f64)>,
    /// Grains of a step.
    step: f64,
    /// Intervals of as many steps or more, by step.
    longer: Vec<u64>,
    /// Sum of `longer` from step 1 on, by step.
    held: Vec<u64>,
    /// Sum of the lengths of all shorter intervals, by step.
    lengths: Vec<u64>,
}

impl Facts {
    /// `counts` of intervals of each length in steps, of `step` grains.
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

    /// The first step whose intervals are no shorter than `grains`.
    fn step_at(&self, grains: f64) -> usize {
        ((grains / self.step).ceil() as usize).min(self.steps())
    }

    fn longer(&self, step: usize) -> f64 {
        self.longer[step] as f64
    }

    /// Grains of live units with an age in `steps`. They got a share `rate` of the writes, of which `all` had such an age.
    fn held(&self, steps: std::ops::Range<usize>, all: f64, rate: f64) -> f64 {
        (self.held[steps.end] - self.held[steps.start]) as f64 / all * rate * self.step
    }

    /// `hot` grains of hot units or a few more, and groups of `sizes` grains before the last; `None` if that cannot be.
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
                // As published, the smallest layout overlooks them.
                if !sizes.is_empty() {
                    held += self.held(0..at, all, 1.0);
                }
                (1.0 - self.longer(at) / all, 0.0)
            }
        };
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

    /// Valid share of the last group's victims, for units with intervals from step `from` on in `spare` times their space.
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

    /// The best layout with at most `groups` groups beside the hot one, of `hot` grains if it is taken as measured.
    ///
    /// 1. The hot group grows as long as that is worth it.
    /// 2. Groups are put before the last one, one after the other, each with its best size.
    /// 3. Several times each group takes its best size, given the others; there may be one more.
    pub(super) fn search(&self, hot: u32, groups: usize) -> Option<Layout> {
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

    /// One group beside the hot one.
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
