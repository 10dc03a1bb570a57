//! The hot filter: a two-bit counter per logical unit.
//!
//! A unit is hot if its counter is 3. The counter rises by one when the unit is overwritten in group 0, or in
//! group 1 at most W after its block was full. It falls by one when overwritten later in group 1 or relocated
//! from it, and by two when relocated from group 0. The first N overwrites and relocations are not counted, N
//! being the number of logical units.
//!
//! W starts at N. Every W overwrites, W is averaged with the mean age of hot blocks at collection, or grows
//! by half if that age is at least 2 W.

use strobe_types::{Lpn, State};

const HOT: u8 = 3;
const HISTORY: usize = 10;

/// Hot share of writes in a window, valid share of hot victims, and final grains of the hot group.
pub(super) type HotGroup = [f64; 3];

#[derive(Clone, Debug, State)]
pub(super) struct Filter {
    #[state(table)]
    counters: Vec<u8>,
    /// Overwrites and relocations left that are not counted.
    cold: u64,
    /// Age limit W.
    window: u64,
    /// Overwrites left until W changes.
    left: u64,
    /// Overwrites in the window.
    writes: u64,
    /// Overwrites of hot units in the window.
    hot: u64,
    /// Hot victims in the window.
    victims: u32,
    /// Sum of their ages.
    ages: u64,
    /// Sum of their valid shares.
    valid: f64,
    history: Vec<HotGroup>,
}

impl Filter {
    pub(super) fn new(logical_units: u32) -> Self {
        let units = u64::from(logical_units);
        Self {
            counters: vec![0; logical_units as usize],
            cold: units,
            window: units,
            left: units,
            writes: 0,
            hot: 0,
            victims: 0,
            ages: 0,
            valid: 0.0,
            history: Vec::new(),
        }
    }

    pub(super) fn counters(&self) -> &[u8] {
        &self.counters
    }

    /// `age`: time since the block was full. `size` gives the grains of group 0. True if hot.
    #[inline]
    pub(super) fn overwrite(&mut self, lpn: Lpn, label: u8, age: u64, size: impl Fn() -> f64) -> bool {
        if self.warm_up(size) {
            self.left = self.left.saturating_sub(1);
            let counter = &mut self.counters[lpn.index()];
            match label {
                0 => *counter = (*counter + 1).min(HOT),
                1 if age <= self.window => *counter = (*counter + 1).min(HOT),
                1 => *counter = counter.saturating_sub(1),
                _ => {}
            }
        }
        let is_hot = self.counters[lpn.index()] == HOT;
        self.writes += 1;
        self.hot += u64::from(is_hot);
        is_hot
    }

    #[inline]
    pub(super) fn relocate(&mut self, lpn: Lpn, label: u8, size: impl Fn() -> f64) {
        if label <= 1 && self.warm_up(size) {
            let counter = &mut self.counters[lpn.index()];
            *counter = counter.saturating_sub(2 - label);
        }
    }

    pub(super) fn collected(&mut self, age: u64, valid: f64) {
        self.victims += 1;
        self.ages += age;
        self.valid += valid;
    }

    fn warm_up(&mut self, size: impl Fn() -> f64) -> bool {
        if self.cold > 0 {
            self.cold -= 1;
            return false;
        }
        if self.left == 0 && self.victims > 0 {
            self.end_window(size());
        }
        true
    }

    #[cold]
    fn end_window(&mut self, size: f64) {
        let (victims, window) = (f64::from(self.victims), self.window as f64);
        if self.hot > 0 {
            self.history.truncate(HISTORY - 1);
            let known = [self.hot as f64 / self.writes as f64, self.valid / victims, size];
            self.history.insert(0, known);
        }
        let age = self.ages as f64 / victims;
        self.window = if age >= 2.0 * window { 1.5 * window } else { (age + window) / 2.0 } as u64;
        self.left = self.window.saturating_sub(1);
        (self.writes, self.hot, self.victims, self.ages, self.valid) = (0, 0, 0, 0, 0.0);
    }

    pub(super) fn take_known(&mut self) -> HotGroup {
        let windows = self.history.len() as f64;
        if self.history.is_empty() {
            return [0.01, 0.05, 0.0];
        }
        let mut sums = [0.0; 3];
        for known in self.history.drain(..) {
            sums.iter_mut().zip(known).for_each(|(sum, value)| *sum += value);
        }
        sums.map(|sum| sum / windows)
    }
}
