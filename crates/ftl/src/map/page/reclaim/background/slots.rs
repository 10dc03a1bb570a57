//! Slot table: entries by number.

use strobe_types::Stored;

/// Number of low bits that give the slot. The bits above them count all entries ever added.
const PLACE_BITS: u32 = 20;

/// Numbers below this one are of no entry.
pub(super) const ROUNDS: u64 = 1 << PLACE_BITS;

/// Table of entries by number. Slots and their buffers are reused, but numbers are not: a stale number finds
/// no entry. Later numbers are greater. All are below 2⁵⁸.
#[derive(Clone, Debug, Stored)]
pub(super) struct Slots<T> {
    /// Entry of each slot, with its number; 0 if unused.
    entries: Vec<(u64, T)>,
    unused: Vec<u32>,
    added: u64,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), unused: Vec::new(), added: 0 }
    }
}

impl<T: Default> Slots<T> {
    /// Adds an entry. It has the last contents of its slot.
    #[inline]
    pub(super) fn add(&mut self) -> (u64, &mut T) {
        self.added += 1;
        let at = self.unused.pop().unwrap_or_else(|| {
            self.entries.push((0, T::default()));
            self.entries.len() as u32 - 1
        });
        assert!(at < 1 << PLACE_BITS, "{at} victims or programs in progress");
        let (number, entry) = &mut self.entries[at as usize];
        *number = self.added << PLACE_BITS | u64::from(at);
        (*number, entry)
    }

    fn place(number: u64) -> usize {
        (number & ((1 << PLACE_BITS) - 1)) as usize
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (of, entry) = self.entries.get(Self::place(number))?;
        (*of == number).then_some(entry)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        debug_assert!(number > 0, "0 is the number of no entry");
        let (of, entry) = self.entries.get_mut(Self::place(number))?;
        (*of == number).then_some(entry)
    }

    /// Removes an entry. Its contents stay readable until the next [`Slots::add`].
    #[inline]
    pub(super) fn remove(&mut self, number: u64) -> Option<&mut T> {
        let at = Self::place(number);
        let (of, entry) = self.entries.get_mut(at)?;
        if *of != number {
            return None;
        }
        *of = 0;
        self.unused.push(at as u32);
        Some(entry)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.unused.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        while let Some(number) = self.oldest() {
            self.remove(number);
        }
    }

    /// Numbers of the entries that `is_wanted` accepts, in the order of addition.
    pub(super) fn numbers(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<u64> {
        let used = self.entries.iter().filter(|(number, entry)| *number > 0 && is_wanted(entry));
        let mut numbers: Vec<u64> = used.map(|&(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.iter().map(|&(number, _)| number).filter(|&number| number > 0).min()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter(|(number, _)| *number > 0).map(|(_, entry)| entry)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter(|(number, _)| *number > 0).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use strobe_types::Prng;

    use super::*;

    #[test]
    fn as_an_ordered_map_whose_keys_are_never_used_again() {
        let (mut slots, mut map) = (Slots::<u32>::default(), BTreeMap::new());
        let mut rng = Prng::new(1);
        let mut gone = Vec::new();
        for round in 0..2000 {
            match rng.below(if round % 100 < 50 { 3 } else { 2 }) {
                0 if map.is_empty() => {}
                0 => {
                    let number = *map.keys().nth(rng.below(map.len() as u32) as usize).expect("one");
                    assert_eq!(slots.remove(number).copied(), map.remove(&number));
                    gone.push(number);
                }
                _ => {
                    let (number, entry) = slots.add();
                    *entry = round;
                    assert!(map.last_key_value().is_none_or(|(&last, _)| last < number));
                    assert!(number < 1 << 58);
                    map.insert(number, round);
                }
            }
            assert_eq!(slots.len(), map.len());
            assert_eq!(slots.oldest(), map.keys().next().copied());
            assert!(map.iter().all(|(&number, value)| slots.get(number) == Some(value)));
            assert!(gone.iter().rev().take(20).all(|&number| slots.get(number).is_none()));
            let mut values: Vec<u32> = slots.values().copied().collect();
            values.sort_unstable();
            let mut expected: Vec<u32> = map.values().copied().collect();
            expected.sort_unstable();
            assert_eq!(values, expected);
        }
        slots.clear();
        assert!(slots.is_empty() && slots.values().next().is_none());
    }
}
