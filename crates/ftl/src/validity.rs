//! Validity bitmap: one bit per mapping unit, set for the current version of a logical unit.

use strobe_types::{Ppa, State, prefetch_write};

#[derive(Clone, Debug, State)]
pub(crate) struct Validity {
    #[state(table)]
    words: Vec<u64>,
}

impl Validity {
    pub(crate) fn new(units: u32) -> Self {
        Self { words: vec![0; (units as usize).div_ceil(64)] }
    }

    #[inline(always)]
    pub(crate) fn set_run(&mut self, first: Ppa, count: u32) {
        let (mut at, end) = (first.get(), first.get() + count);
        while at < end {
            let upto = (at / 64 * 64 + 64).min(end);
            self.words[at as usize / 64] |= (u64::MAX >> (64 - (upto - at))) << (at % 64);
            at = upto;
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, ppa: Ppa) {
        self.words[ppa.index() / 64] |= 1 << (ppa.get() % 64);
    }

    /// Clears a bit, which must be set.
    #[inline(always)]
    pub(crate) fn clear(&mut self, ppa: Ppa) {
        let word = &mut self.words[ppa.index() / 64];
        let bit = 1 << (ppa.get() % 64);
        assert!(*word & bit != 0, "FTL bug: unit {ppa} invalidated twice");
        *word ^= bit;
    }

    pub(crate) fn get(&self, ppa: Ppa) -> bool {
        self.words[ppa.index() / 64] >> (ppa.get() % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn next(&self, first: Ppa, end: Ppa) -> Option<Ppa> {
        let mut at = first.get();
        while at < end.get() {
            let bits = self.words[at as usize / 64] >> (at % 64);
            if bits != 0 {
                let unit = at + bits.trailing_zeros();
                return (unit < end.get()).then_some(Ppa::new(unit));
            }
            at = at / 64 * 64 + 64;
        }
        None
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, ppa: Ppa) {
        prefetch_write(&self.words, ppa.index() / 64);
    }

    /// Clears `first..first + count` and appends the units that were set to `out`.
    pub(crate) fn take_run(&mut self, first: Ppa, count: u32, out: &mut Vec<Ppa>) {
        let (start, end) = (first.get(), first.get() + count);
        for index in start / 64..end.div_ceil(64) {
            let base = index * 64;
            let from = start.saturating_sub(base);
            let upto = (end - base).min(64);
            // Bits of this word that belong to the run.
            let mask = (u64::MAX >> (64 - (upto - from))) << from;
            let word = &mut self.words[index as usize];
            let mut set = *word & mask;
            *word &= !mask;
            while set != 0 {
                out.push(Ppa::new(base + set.trailing_zeros()));
                set &= set - 1;
            }
        }
    }

    pub(crate) fn count_run(&self, first: Ppa, count: u32) -> u32 {
        (first.get()..first.get() + count).filter(|&unit| self.get(Ppa::new(unit))).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_is_the_first_whose_bit_is_set() {
        let mut validity = Validity::new(300);
        for unit in [0, 1, 5, 63, 64, 100, 191, 290, 299] {
            validity.set(Ppa::new(unit));
        }
        for (first, end) in (0..300).flat_map(|first| [first, first + 1, 150, 300].map(|end| (first, end))) {
            let expected = (first..end.min(300)).map(Ppa::new).find(|&unit| validity.get(unit));
            assert_eq!(validity.next(Ppa::new(first), Ppa::new(end.min(300))), expected, "{first}..{end}");
        }
    }

    #[test]
    fn take_run_returns_and_clears_exactly_the_run() {
        for (first, count) in [(0, 64), (1, 62), (60, 10), (63, 1), (64, 130), (100, 100), (0, 300)] {
            let mut v = Validity::new(300);
            let set: Vec<u32> = (0..300).filter(|n| n % 3 != 1).collect();
            for &n in &set {
                v.set(Ppa::new(n));
            }
            let mut taken = Vec::new();
            v.take_run(Ppa::new(first), count, &mut taken);
            let inside = |n: &u32| (first..first + count).contains(n);
            let expected: Vec<Ppa> = set.iter().copied().filter(inside).map(Ppa::new).collect();
            assert_eq!(taken, expected);
            for &n in &set {
                assert_eq!(v.get(Ppa::new(n)), !inside(&n));
            }
        }
    }

    #[test]
    fn set_run_sets_exactly_the_run() {
        for (first, count) in [(0, 64), (1, 62), (60, 10), (63, 1), (64, 130), (100, 0), (0, 300)] {
            let mut v = Validity::new(300);
            v.set_run(Ppa::new(first), count);
            for n in 0..300 {
                assert_eq!(v.get(Ppa::new(n)), (first..first + count).contains(&n));
            }
        }
    }

    #[test]
    #[should_panic(expected = "invalidated twice")]
    fn clearing_a_clear_bit_panics() {
        Validity::new(10).clear(Ppa::new(3));
    }
}
