//! Uniform sampling from a changing set, in constant time.

use std::collections::TryReserveError;
use strobe_types::{Prng, State};

/// Slots in use: a permutation of all slots that begins with the slots in use.
///
/// Costs 8 bytes per slot. Both tables store entry minus index, so the initial identity is all zeros. A set
/// for terabytes is ready at once and takes memory only after trims and writes.
#[derive(Clone, Debug, State)]
pub(super) struct InUse {
    count: u32,
    /// Slot at each place, minus the place.
    #[state(table)]
    slot_at: Vec<u32>,
    /// Place of each slot, minus the slot.
    #[state(table)]
    place_of: Vec<u32>,
}

impl InUse {
    pub(super) const BYTES_PER_SLOT: u64 = 8;

    pub(super) fn all(slots: u32) -> Result<Self, TryReserveError> {
        // `vec!` of zeros is lazy but aborts on failure, so reserve first.
        Vec::<u64>::new().try_reserve_exact(slots as usize)?;
        Ok(Self { slot_at: vec![0; slots as usize], place_of: vec![0; slots as usize], count: slots })
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn take(&mut self, rng: &mut Prng) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let place = rng.below(self.count);
        let slot = self.slot(place);
        // Exchange with the last slot in use, which the smaller count then excludes.
        self.count -= 1;
        self.exchange(place, self.count);
        Some(slot)
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: u32) {
        let place = self.place_of[slot as usize].wrapping_add(slot);
        if place >= self.count {
            self.exchange(place, self.count);
            self.count += 1;
        }
    }

    #[inline]
    fn slot(&self, place: u32) -> u32 {
        self.slot_at[place as usize].wrapping_add(place)
    }

    #[inline]
    fn exchange(&mut self, a: u32, b: u32) {
        let (slot_a, slot_b) = (self.slot(a), self.slot(b));
        self.put(slot_b, a);
        self.put(slot_a, b);
    }

    #[inline]
    fn put(&mut self, slot: u32, place: u32) {
        self.slot_at[place as usize] = slot.wrapping_sub(place);
        self.place_of[slot as usize] = place.wrapping_sub(slot);
    }
}
