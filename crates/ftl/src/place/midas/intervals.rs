//! Update interval distribution (UID): the number of host writes between two writes of a unit.
//!
//! Intervals are counted in quarter grains, over a window of host writes, for a sample of the units. Too few
//! sampled intervals end within one step; these are counted for all units, in ten steps of the window.

use strobe_types::{Geometry, Lpn, Stored};

const PROBES: u64 = 10;
/// Longest window, as a multiple of the shortest.
const WINDOWS_MOST: u32 = 16;
/// Fewest observed units.
const SAMPLE: u32 = 4096;
/// Largest distance between observed units.
const STRIDE: u32 = 100;

const GRAINS_MOST: u32 = 2048;

/// Sizes in mapping units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) logical: u32,
    pub(super) block: u64,
    /// Unit of group sizes: several blocks.
    pub(super) grain: u64,
    pub(super) drive: u64,
}

impl Scale {
    pub(super) fn new(logical: u32, geometry: &Geometry) -> Self {
        let block = u64::from(geometry.units_per_block());
        let grain = geometry.planes().max(geometry.blocks().div_ceil(GRAINS_MOST));
        Self { logical, block, grain: u64::from(grain) * block, drive: u64::from(geometry.units()) }
    }

    pub(super) fn grains(&self, blocks: f64) -> f64 {
        blocks * self.block as f64 / self.grain as f64
    }
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Intervals {
    /// Host writes per step.
    step: u64,
    /// Distance between observed units.
    stride: u32,
    /// Length of the window, as a multiple of the shortest.
    windows: u32,
    now: u64,
    counts: Vec<u64>,
    /// Twice the time of each observed unit's last write, from 1, plus 1 if it was the only one; 0 if none.
    last: Vec<u64>,
    /// Units written in the present step, if all are observed.
    probed: Vec<u32>,
    /// Rewrites in all such steps so far.
    repeats: u64,
}

impl Intervals {
    /// A window of host writes: 4 · `windows` times the flash capacity.
    pub(super) fn new(scale: &Scale, windows: u32) -> Self {
        let stride = (scale.logical / SAMPLE).clamp(1, STRIDE);
        let windows = windows.min(WINDOWS_MOST);
        let step = (scale.grain / 4).max(1);
        Self {
            step,
            stride,
            windows,
            now: 0,
            counts: vec![0; (u64::from(windows) * 4 * scale.drive / step) as usize],
            last: vec![0; scale.logical.div_ceil(stride) as usize],
            probed: Vec::new(),
            repeats: 0,
        }
    }

    /// Host memory with the shortest window.
    pub(super) fn bytes(scale: &Scale) -> u64 {
        let counts = 4 * scale.drive / (scale.grain / 4).max(1);
        let stride = (scale.logical / SAMPLE).clamp(1, STRIDE);
        8 * (counts + u64::from(scale.logical.div_ceil(stride)))
    }

    pub(super) fn windows(&self) -> u32 {
        self.windows
    }

    pub(super) fn length(&self) -> u64 {
        self.counts.len() as u64 * self.step
    }

    pub(super) fn is_over(&self) -> bool {
        self.now >= self.length()
    }

    #[inline]
    pub(super) fn write(&mut self, lpn: Lpn) {
        if self.is_over() {
            return;
        }
        // In a probed step all units are observed, because the sample has too few intervals below one step.
        if self.is_probed() {
            self.probed.push(lpn.get());
        } else if !self.probed.is_empty() {
            self.finish_probe();
        }
        if lpn.get().is_multiple_of(self.stride) {
            let last = &mut self.last[(lpn.get() / self.stride) as usize];
            let is_only = *last == 0;
            if !is_only && *last != GONE {
                Self::count(&mut self.counts, (self.now + 1 - *last / 2) / self.step);
            }
            *last = 2 * (self.now + 1) + u64::from(is_only);
        }
        self.now += 1;
    }

    pub(super) fn unmapped(&mut self, lpn: Lpn) {
        if lpn.get().is_multiple_of(self.stride) && !self.is_over() {
            let last = &mut self.last[(lpn.get() / self.stride) as usize];
            if *last > GONE {
                Self::count(&mut self.counts, (self.now + 1 - *last / 2) / self.step);
                *last = GONE;
            }
        }
    }

    fn count(counts: &mut [u64], interval: u64) {
        let longest = counts.len() - 1;
        counts[(interval as usize).min(longest)] += 1;
    }

    fn is_probed(&self) -> bool {
        let distance = (self.counts.len() as u64 / (PROBES + 1)).max(1);
        let at = self.now / self.step;
        at.is_multiple_of(distance) && (1..=PROBES).contains(&(at / distance))
    }

    #[cold]
    fn finish_probe(&mut self) {
        let writes = self.probed.len();
        self.probed.sort_unstable();
        self.probed.dedup();
        self.repeats += (writes - self.probed.len()) as u64;
        self.probed.clear();
    }

    /// Number of intervals by length. Units written once count with the length of the window.
    pub(super) fn finish(mut self) -> Vec<u64> {
        self.finish_probe();
        let mut counts = self.counts;
        let all = counts.len();
        counts[all - 1] += self.last.iter().filter(|&&last| last % 2 == 1).count() as u64;
        counts[0] = self.repeats * all as u64 / PROBES / u64::from(self.stride);
        for (at, count) in counts.iter_mut().enumerate().skip(1) {
            // Adds an estimate of the intervals that the end of the window cut off.
            let rest = (all % at) as f64 / at as f64 + 0.5;
            *count += (rest * *count as f64 * at as f64 / all as f64) as u64;
        }
        counts
    }
}

/// Marks a unit written in the window and unmapped since.
const GONE: u64 = 2;
