//! The hot filter: a counter of two bits for each logical unit.
//!
//! A unit is hot at 3. Its counter goes up when it is overwritten in group 0, or in group 1 not later than W after its
//! block was full. It goes down when it is overwritten later in group 1, by one when it is relocated from group 1, and by
//! two from group 0. For as many overwrites as there are units nothing is counted.
//!
//! W is at first the number of units. Every W overwrites it is averaged with the mean age at which hot blocks were
//! collected, and grows by half if that is twice as much.

use strobe_types::{Lpn, State};

/// Count of a hot unit.
const HOT: u8 = 3;
/// Windows over which what is known of the hot group is averaged.
const HISTORY: usize = 10;

/// Share of writes that were hot in a window, valid share of hot victims, and grains of the hot group at its end.
pub(super) type HotGroup = [f64; 3];

#[derive(Clone, Debug, State)]
pub(super) struct Filter {
    #[state(table)]
    counters: Vec<u8>,
    /// Overwrites and relocations that are not counted yet.
    cold: u64,
    /// W, and overwrites until it changes.
    window: u64,
    left: u64,
    /// Overwrites in the window, and those of hot units.
    writes: u64,
    hot: u64,
    /// Hot victims of the window, and sums of their ages and valid shares.
    victims: u32,
    ages: u64,
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

    /// Notes an overwrite of `lpn` in a block of group `label` that was full `age` ago; `size` is that of group 0 in grains.
    /// Returns true if the unit is hot.
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

    /// Notes that `lpn` is relocated from group `label`.
    #[inline]
    pub(super) fn relocate(&mut self, lpn: Lpn, label: u8, size: impl Fn() -> f64) {
        if label <= 1 && self.warm_up(size) {
            let counter = &mut self.counters[lpn.index()];
            *counter = counter.saturating_sub(2 - label);
        }
    }

    /// Notes a victim of group 0, full `age` ago, with a valid share.
    pub(super) fn collected(&mut self, age: u64, valid: f64) {
        self.victims += 1;
        self.ages += age;
        self.valid += valid;
    }

    /// Counts a write of the start; true if counting has begun. Ends the window if it is time.
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

    /// Means of what is known of the hot group since the last call.
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
