//! Placement schemes by papers and SepBIT's simulator, with maps and lists.

use std::collections::{BTreeMap, VecDeque};

use super::naive::{Full, Rules};

pub(super) struct SepGc;

impl Rules for SepGc {
    fn streams(&self) -> (usize, usize) {
        (2, 1)
    }
    fn write(&mut self, _: u32, _: u64) -> usize {
        0
    }
    fn copy(&mut self, _: u32, _: u64, _: usize) -> usize {
        1
    }
}

/// With the paper's queue, or its half UW (3 streams) or GW.
pub(super) struct SepBit {
    streams: usize,
    separates_host: bool,
    last_write: BTreeMap<u32, u64>,
    recent: VecDeque<(u32, u64)>,
    newest: BTreeMap<u32, u64>,
    lifespan: f64,
    collected: Vec<u64>,
}

impl SepBit {
    pub(super) fn new(streams: usize, separates_host: bool) -> Self {
        Self {
            streams,
            separates_host,
            last_write: BTreeMap::new(),
            recent: VecDeque::new(),
            newest: BTreeMap::new(),
            lifespan: f64::INFINITY,
            collected: Vec::new(),
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((lpn, then)) = self.recent.pop_front()
            && self.newest.get(&lpn) == Some(&then)
        {
            self.newest.remove(&lpn);
        }
    }
}

impl Rules for SepBit {
    fn streams(&self) -> (usize, usize) {
        match (self.separates_host, self.streams) {
            (true, 3) => (3, 1),
            (true, streams) => (streams, streams - 3),
            (false, streams) => (streams, streams - 1),
        }
    }

    fn write(&mut self, lpn: u32, now: u64) -> usize {
        let limit = self.lifespan.min(self.recent.len() as f64);
        let entry = self.newest.get(&lpn);
        let is_short = entry.is_some_and(|&then| ((now - then) as f64) < limit);
        self.last_write.insert(lpn, now);
        self.recent.push_back((lpn, now));
        self.newest.insert(lpn, now);
        let known = self.last_write.len() as f64;
        if self.recent.len() as f64 > known.min(self.lifespan) {
            self.forget_oldest();
        }
        if self.recent.len() as f64 > self.lifespan {
            self.forget_oldest();
        }
        usize::from(self.separates_host && !is_short)
    }

    fn copy(&mut self, lpn: u32, now: u64, from: usize) -> usize {
        let age = (now - self.last_write[&lpn]) as f64;
        let first = match (self.separates_host, self.streams) {
            (true, 3) => return 2,
            (true, _) if from == 0 => return 2,
            (true, _) => 3,
            (false, _) => 1,
        };
        let is_older = |&i: &u32| age >= f64::from(1_u32 << (2 * i)) * self.lifespan;
        first + (1..).take(self.streams - first - 1).filter(is_older).count()
    }

    fn collected(&mut self, stream: usize, lifespan: u64) {
        if stream > 0 {
            return;
        }
        self.collected.push(lifespan);
        if self.collected.len() == 16 {
            self.lifespan = self.collected.iter().sum::<u64>() as f64 / 16.0;
            self.collected.clear();
        }
    }

    fn is_exercised(&self) -> bool {
        self.lifespan.is_finite()
    }
}

pub(super) struct Dac {
    streams: usize,
    levels: BTreeMap<u32, usize>,
}

impl Dac {
    pub(super) fn new(streams: usize) -> Self {
        Self { streams, levels: BTreeMap::new() }
    }
}

impl Rules for Dac {
    fn streams(&self) -> (usize, usize) {
        (self.streams, self.streams)
    }

    fn write(&mut self, lpn: u32, _: u64) -> usize {
        let level = self.levels.get(&lpn).map_or(0, |level| (level + 1).min(self.streams - 1));
        self.levels.insert(lpn, level);
        level
    }

    fn copy(&mut self, lpn: u32, _: u64, _: usize) -> usize {
        let level = self.levels.get_mut(&lpn).expect("written");
        *level = level.saturating_sub(1);
        *level
    }

    fn is_exercised(&self) -> bool {
        self.levels.values().any(|&level| level == self.streams - 1)
    }
}

/// The fading average of the length of one-unit requests is 1 in real numbers.
pub(super) struct Fadac {
    streams: usize,
    counts: BTreeMap<u32, u64>,
}

impl Fadac {
    pub(super) fn new(streams: usize) -> Self {
        Self { streams, counts: BTreeMap::new() }
    }

    fn level(&self, lpn: u32) -> usize {
        let (mut base, mut level) = (1, 0);
        while self.counts[&lpn] > base {
            base *= 10;
            level += 1;
        }
        level.min(self.streams - 1)
    }
}

impl Rules for Fadac {
    fn streams(&self) -> (usize, usize) {
        (self.streams, self.streams)
    }

    fn write(&mut self, lpn: u32, _: u64) -> usize {
        *self.counts.entry(lpn).or_insert(0) += 1;
        self.level(lpn)
    }

    fn copy(&mut self, lpn: u32, _: u64, _: usize) -> usize {
        let count = self.counts.get_mut(&lpn).expect("written");
        *count = count.saturating_sub(1);
        self.level(lpn)
    }

    fn is_exercised(&self) -> bool {
        self.counts.values().any(|&count| count > 10)
    }
}

pub(super) struct Warcip {
    streams: usize,
    units_per_block: usize,
    last_write: BTreeMap<u32, u64>,
    penalty: BTreeMap<u32, u64>,
    /// Stream, centre, units in the open block, writes of the round.
    clusters: Vec<(usize, f64, u64, u64)>,
    dropped_next: Option<usize>,
    full_blocks: u32,
    splits: u32,
    drops: u32,
}

impl Warcip {
    pub(super) fn new(streams: usize, units_per_block: usize) -> Self {
        Self {
            streams,
            units_per_block,
            last_write: BTreeMap::new(),
            penalty: BTreeMap::new(),
            clusters: (0..streams - 1).map(|stream| (stream, 0.0, 0, 0)).collect(),
            dropped_next: None,
            full_blocks: 0,
            splits: 0,
            drops: 0,
        }
    }

    fn end_round(&mut self) {
        let total: u64 = self.clusters.iter().map(|cluster| cluster.3).sum();
        let busy = self.clusters.iter().position(|cluster| cluster.3 > total / 2);
        let unused = (0..self.streams - 1).find(|stream| !self.clusters.iter().any(|c| c.0 == *stream));
        if let (Some(busy), Some(stream)) = (busy, unused) {
            let below = if busy == 0 { 0.0 } else { self.clusters[busy - 1].1 };
            self.clusters.insert(busy, (stream, (below + self.clusters[busy].1) / 2.0, 0, 0));
            self.splits += 1;
        } else if self.dropped_next.is_none() {
            let quiet = self.clusters.iter().find(|cluster| cluster.3 < self.units_per_block as u64);
            self.dropped_next = quiet.map(|cluster| cluster.0);
        }
        for cluster in &mut self.clusters {
            cluster.3 = 0;
        }
    }
}

impl Rules for Warcip {
    fn streams(&self) -> (usize, usize) {
        (self.streams, 1)
    }

    fn write(&mut self, lpn: u32, now: u64) -> usize {
        let interval = match self.last_write.get(&lpn) {
            Some(last) => now - last + self.penalty.get(&lpn).copied().unwrap_or(0),
            None => 0,
        };
        self.last_write.insert(lpn, now);
        self.penalty.remove(&lpn);
        let mut nearest = 0;
        for at in 1..self.clusters.len() {
            let distance = |at: usize| (self.clusters[at].1 - interval as f64).abs();
            if distance(at) <= distance(nearest) {
                nearest = at;
            }
        }
        let (stream, centre, filled, writes) = &mut self.clusters[nearest];
        *centre = (*centre * *filled as f64 + interval as f64) / (*filled + 1) as f64;
        *filled += 1;
        *writes += 1;
        *stream
    }

    fn copy(&mut self, lpn: u32, now: u64, _: usize) -> usize {
        self.penalty.insert(lpn, now - self.last_write[&lpn]);
        self.streams - 1
    }

    fn closed(&mut self, stream: usize) {
        if stream == self.streams - 1 {
            return;
        }
        if self.dropped_next == Some(stream) {
            self.clusters.retain(|cluster| cluster.0 != stream);
            self.dropped_next = None;
            self.drops += 1;
        }
        for cluster in self.clusters.iter_mut().filter(|cluster| cluster.0 == stream) {
            cluster.2 = 0;
        }
        self.full_blocks += 1;
        if self.full_blocks == 256 {
            self.full_blocks = 0;
            self.end_round();
        }
    }

    fn is_exercised(&self) -> bool {
        self.streams < 4 || (self.splits > 0 && self.drops > 0)
    }
}

pub(super) struct Sfs {
    centres: Vec<f64>,
    writes: BTreeMap<u32, u64>,
    last_write: BTreeMap<u32, u64>,
}

impl Sfs {
    pub(super) fn new(streams: usize) -> Self {
        Self { centres: vec![0.0; streams], writes: BTreeMap::new(), last_write: BTreeMap::new() }
    }

    fn nearest(&self, hotness: f64) -> usize {
        let mut nearest = None;
        for (at, centre) in self.centres.iter().enumerate() {
            let distance = (centre - hotness).abs();
            if distance < f64::MAX && nearest.is_none_or(|(least, _)| distance <= least) {
                nearest = Some((distance, at));
            }
        }
        nearest.map_or(0, |(_, at)| at)
    }

    fn hotness(&self, lpn: u32, now: u64) -> f64 {
        self.writes[&lpn] as f64 / (now - self.last_write[&lpn]) as f64
    }
}

impl Rules for Sfs {
    fn streams(&self) -> (usize, usize) {
        (self.centres.len(), self.centres.len())
    }

    fn write(&mut self, lpn: u32, now: u64) -> usize {
        let hotness = if self.writes.contains_key(&lpn) { self.hotness(lpn, now) } else { f64::MAX };
        *self.writes.entry(lpn).or_insert(0) += 1;
        self.last_write.insert(lpn, now);
        self.nearest(hotness)
    }

    fn copy(&mut self, lpn: u32, now: u64, _: usize) -> usize {
        self.nearest(self.hotness(lpn, now))
    }

    fn collecting(&mut self, full: &Full, now: u64) {
        let of_block = |valid: &Vec<u32>| {
            let writes: u64 = valid.iter().map(|lpn| self.writes[lpn]).sum();
            let last_writes: u64 = valid.iter().map(|lpn| self.last_write[lpn]).sum();
            writes as f64 / (valid.len() as f64 * now as f64 - last_writes as f64)
        };
        let blocks: Vec<f64> = full.iter().filter(|valid| !valid.is_empty()).map(of_block).collect();
        let streams = self.centres.len();
        if blocks.len() <= streams {
            for at in 0..streams {
                self.centres[at] = blocks[at % blocks.len()];
            }
        } else {
            for _ in 0..3 {
                let mut groups: Vec<Vec<f64>> = vec![Vec::new(); streams];
                for &hotness in &blocks {
                    let mut nearest = (f64::MAX, 0);
                    for (at, centre) in self.centres.iter().enumerate() {
                        if (hotness - centre).abs() < nearest.0 {
                            nearest = ((hotness - centre).abs(), at);
                        }
                    }
                    groups[nearest.1].push(hotness);
                }
                for (centre, group) in self.centres.iter_mut().zip(&groups) {
                    *centre =
                        if group.is_empty() { 0.0 } else { group.iter().sum::<f64>() / group.len() as f64 };
                }
            }
        }
        self.centres.sort_by(|a, b| b.partial_cmp(a).expect("numbers"));
    }

    fn is_exercised(&self) -> bool {
        self.centres[0] > self.centres[self.centres.len() - 1]
    }
}
