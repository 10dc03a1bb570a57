//! Update intervals and layout search of MiDAS, without running sums.

use std::collections::BTreeMap;

/// Update intervals of sampled units, in steps of a quarter of a block.
pub(super) struct Intervals {
    step: u64,
    stride: u32,
    pub(super) windows: usize,
    counts: Vec<u64>,
    /// Time of each unit's last write; true if it was the only one.
    seen: BTreeMap<u32, (u64, bool)>,
    now: u64,
    probed: Vec<u32>,
    repeats: u64,
}

impl Intervals {
    pub(super) fn new([blocks, units, logical]: [usize; 3], windows: usize) -> Self {
        let step = units as u64 / 4;
        Self {
            step,
            stride: (logical as u32 / 4096).clamp(1, 100),
            windows,
            counts: vec![0; 4 * windows * blocks * units / step as usize],
            seen: BTreeMap::new(),
            now: 0,
            probed: Vec::new(),
            repeats: 0,
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.counts.len() as u64 * self.step
    }

    pub(super) fn is_over(&self) -> bool {
        self.now >= self.length()
    }

    pub(super) fn write(&mut self, lpn: u32) {
        if self.is_over() {
            return;
        }
        let (at, distance) = (self.now / self.step, self.counts.len() as u64 / 11);
        if at.is_multiple_of(distance) && (1..=10).contains(&(at / distance)) {
            self.repeats += u64::from(self.probed.contains(&lpn));
            self.probed.push(lpn);
        } else {
            self.probed.clear();
        }
        if lpn.is_multiple_of(self.stride) {
            let is_first = !self.seen.contains_key(&lpn);
            if let Some((then, _)) = self.seen.insert(lpn, (self.now, is_first)) {
                let longest = self.counts.len() - 1;
                self.counts[(((self.now - then) / self.step) as usize).min(longest)] += 1;
            }
        }
        self.now += 1;
    }

    pub(super) fn finish(&self) -> Vec<u64> {
        let mut counts = self.counts.clone();
        let all = counts.len();
        counts[all - 1] += self.seen.values().filter(|(_, is_only)| *is_only).count() as u64;
        counts[0] = self.repeats * all as u64 / 10 / u64::from(self.stride);
        for (at, count) in counts.iter_mut().enumerate().skip(1) {
            let rest = (all % at) as f64 / at as f64 + 0.5;
            *count += (rest * *count as f64 * at as f64 / all as f64) as u64;
        }
        counts
    }
}

pub(super) struct Facts {
    pub(super) counts: Vec<u64>,
    pub(super) used: usize,
    pub(super) live: f64,
    pub(super) untouched: f64,
    pub(super) hot: Option<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) hot: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) shares: Vec<f64>,
    pub(super) waf: f64,
}

struct Hot {
    blocks: usize,
    traffic: f64,
    valid: f64,
    /// Age of the group, number of longer intervals, and blocks of younger live units.
    age: f64,
    longer: f64,
    held: f64,
}

const STEP: f64 = 0.25;

impl Facts {
    fn hot_group(&self, blocks: usize, is_held: bool) -> Option<Hot> {
        let all = self.counts.iter().sum::<u64>() as f64;
        let (mut longer, mut held, mut at) = (all, 0.0, 0);
        if let Some((traffic, valid)) = self.hot {
            let age = (blocks as f64 - 0.5) / traffic;
            while at < self.counts.len() && at as f64 * STEP < age {
                longer -= self.counts[at] as f64;
                held += longer / all * STEP * traffic;
                at += 1;
            }
            return Some(Hot { blocks, traffic, valid, age, longer, held });
        }
        loop {
            longer -= *self.counts.get(at)? as f64;
            held += if is_held { longer / all * STEP } else { 0.0 };
            at += 1;
            let (age, traffic) = (at as f64 * STEP, 1.0 - longer / all);
            let taken = (age * traffic + 0.5) as usize;
            if taken >= blocks {
                return Some(Hot { blocks: taken, traffic, valid: 0.0, age, longer, held });
            }
        }
    }

    fn forecast(&self, hot: usize, sizes: &[usize]) -> Option<Layout> {
        let Hot { blocks: hot, traffic, valid, age, mut longer, mut held } =
            self.hot_group(hot, !sizes.is_empty())?;
        let mut past = age;
        // Writes to each group. Writes to groups 2 and up are copies, as are units of hot victims.
        let mut rate = 1.0 - traffic + traffic * valid;
        let mut shares = vec![valid];
        let mut copies = traffic * valid;
        for (group, &size) in sizes.iter().enumerate() {
            let time = (size as f64 - 0.5) / rate;
            if time.floor() + past >= self.counts.len() as f64 * STEP - 50.0 {
                return None;
            }
            let all = longer;
            for (at, &count) in self.counts.iter().enumerate() {
                let interval = at as f64 * STEP;
                if interval >= past && interval < past + time {
                    longer -= count as f64;
                    held += longer / all * rate * STEP;
                }
            }
            past += time;
            if longer <= 0.0 {
                return None;
            }
            shares.push(longer / all);
            copies += if group > 0 { rate } else { 0.0 };
            rate *= longer / all;
        }
        // As published, the layout without groups before the last also counts host writes.
        copies += rate;
        let last = self.used.checked_sub(hot + sizes.iter().sum::<usize>())?;
        let live = self.live - self.untouched - held;
        if live <= 0.0 {
            return None;
        }
        let share = self.last_share(past, (last as f64 - self.untouched) / live)?;
        shares.push(share);
        copies += rate * share / (1.0 - share);
        Some(Layout { hot, sizes: sizes.to_vec(), shares, waf: 1.0 + copies })
    }

    fn last_share(&self, past: f64, spare: f64) -> Option<f64> {
        if spare <= 1.0 {
            return None;
        }
        let sums = |limit: f64| {
            let intervals =
                self.counts.iter().enumerate().map(|(at, &count)| (at as f64 * STEP, count as f64));
            let of_last = intervals.filter(|&(interval, _)| interval >= past && interval <= limit);
            of_last.fold((0.0, 0.0), |sums, (interval, count)| (sums.0 + count, sums.1 + count * interval))
        };
        let (writes, weight) = sums(f64::MAX);
        if weight <= 0.0 {
            return None;
        }
        let (hot, hot_weight) = sums(0.7 * weight / writes);
        let (r, f) = (hot / writes, hot_weight / weight);
        let part = |r: f64, f: f64, a: f64| {
            if r > 0.0 { r / (libm::exp(r * spare / (f * a)) - 1.0) } else { 0.0 }
        };
        let excess = |a: f64| 1.0 + part(r, f, a) + part(1.0 - r, 1.0 - f, a) - a;
        let (mut low, mut high) = (1.0, 2.0);
        while excess(high) > 0.0 {
            high *= 2.0;
            if high > 1e6 {
                return None;
            }
        }
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if excess(middle) > 0.0 { low = middle } else { high = middle }
        }
        (low > 1.0).then_some(1.0 - 1.0 / low)
    }

    pub(super) fn search(&self, hot: usize, groups: usize) -> Option<Layout> {
        let mut best = self.forecast(if self.hot.is_some() { hot } else { 1 }, &[])?;
        for hot in 2..30 {
            if self.hot.is_some() {
                break;
            }
            if hot <= best.hot {
                continue;
            }
            match self.forecast(hot, &[]) {
                Some(new) if new.waf < best.waf - 0.05 => best = new,
                _ => break,
            }
        }
        let mut layouts = vec![best];
        while layouts.len() < groups {
            let Layout { hot, sizes, .. } = layouts[layouts.len() - 1].clone();
            let most = self.used.saturating_sub(50 + hot + sizes.iter().sum::<usize>());
            let forecast = |size| self.forecast(hot, &[&sizes[..], &[size]].concat());
            let Some(best) = least((1..most).filter_map(forecast)) else { break };
            layouts.push(best);
        }
        let mut best = least(layouts.into_iter())?;
        for _ in 0..4 {
            self.refine(&mut best, groups);
        }
        Some(best)
    }

    fn refine(&self, best: &mut Layout, groups: usize) {
        for group in 0..groups - 1 {
            let mut sizes = best.sizes.clone();
            let is_new = group == sizes.len();
            if is_new {
                sizes.push(0);
            }
            sizes[group] = 0;
            let most = self.used.saturating_sub(50 + best.hot + sizes.iter().sum::<usize>());
            let with = |size| {
                sizes[group] = size;
                self.forecast(best.hot, &sizes)
            };
            let found = least(std::iter::once(best.clone()).chain((1..most).map_while(with)));
            let found = found.expect("as good as before");
            let is_found = found.waf < best.waf;
            *best = found;
            if is_new && !is_found {
                return;
            }
        }
    }
}

fn least(layouts: impl Iterator<Item = Layout>) -> Option<Layout> {
    layouts.reduce(|best, new| if new.waf < best.waf - 1e-9 { new } else { best })
}
