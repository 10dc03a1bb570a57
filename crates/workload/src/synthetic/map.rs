use std::collections::TryReserveError;

use strobe_types::{Op, Prng, State};

use super::draw::Draw;

const WORD: usize = u64::BITS as usize;

/// Sampling without repetition, as in fio's random map: each slot once per pass. Costs 1/8 byte per slot.
#[derive(Clone, Debug, State)]
pub(super) struct RandomMap {
    #[state(skip)]
    slots: u32,
    left: u32,
    /// First level: one bit per slot, set if visited. Each level above: one bit per word below, set if that
    /// word is full. Bits past the last slot are set.
    #[state(table)]
    words: Vec<u64>,
    #[state(skip)]
    levels: Vec<usize>,
}

impl RandomMap {
    pub(super) fn bytes(slots: u32) -> u64 {
        u64::from(slots) / 8 * 65 / 64 + 8
    }

    pub(super) fn new(slots: u32) -> Result<Self, TryReserveError> {
        let (mut levels, mut count, mut bits) = (Vec::new(), 0, slots as usize);
        while levels.is_empty() || bits > 1 {
            levels.push(count);
            bits = bits.div_ceil(WORD);
            count += bits;
        }
        Vec::<u64>::new().try_reserve_exact(count)?;
        let mut map = Self { slots, left: slots, words: vec![0; count], levels };
        map.begin_pass();
        Ok(map)
    }

    fn begin_pass(&mut self) {
        self.left = self.slots;
        self.words.fill(0);
        let mut bits = self.slots as usize;
        for &first in &self.levels {
            let last = first + bits.div_ceil(WORD) - 1;
            if !bits.is_multiple_of(WORD) {
                self.words[last] = u64::MAX << (bits % WORD);
            }
            bits = bits.div_ceil(WORD);
        }
    }

    pub(super) fn visit_run(&mut self, first: u32, most: u32) -> u32 {
        let most = most.min(self.slots - first);
        let run = (0..most).take_while(|step| !self.is_visited(first + step)).count() as u32;
        (first..first + run).for_each(|slot| self.visit(slot));
        run
    }

    fn is_visited(&self, slot: u32) -> bool {
        let slot = slot as usize;
        self.words[slot / WORD] >> (slot % WORD) & 1 == 1
    }

    fn visit(&mut self, slot: u32) {
        self.left -= 1;
        let mut bit = slot as usize;
        for &first in &self.levels {
            let word = &mut self.words[first + bit / WORD];
            *word |= 1 << (bit % WORD);
            // The level above changes only when this word becomes full.
            if *word != u64::MAX {
                break;
            }
            bit /= WORD;
        }
    }

    fn next_free(&self, from: u32) -> Option<u32> {
        let mut bit = from as usize;
        for (level, &first) in self.levels.iter().enumerate() {
            let end = self.levels.get(level + 1).copied().unwrap_or(self.words.len());
            let word = self.words[first..end].get(bit / WORD)?;
            // Search the rest of this word, else climb: a bit of the next level stands for a whole word.
            let free = !word >> (bit % WORD);
            if free != 0 {
                let found = bit + free.trailing_zeros() as usize;
                // Descend to the first free bit of each level.
                let down = self.levels[..level].iter().rev();
                let slot = down.fold(found, |bit, first| {
                    bit * WORD + (!self.words[first + bit]).trailing_zeros() as usize
                });
                return Some(slot as u32);
            }
            bit = bit / WORD + 1;
        }
        None
    }
}

impl Draw for RandomMap {
    #[inline]
    fn slot(&mut self, rng: &mut Prng, _op: Op) -> u32 {
        if self.left == 0 {
            self.begin_pass();
        }
        let drawn = rng.below(self.slots);
        // The next unvisited slot, wrapping at the end.
        let free = self.next_free(drawn).or_else(|| self.next_free(0));
        let slot = free.unwrap_or(drawn);
        self.visit(slot);
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_map_does_what_a_set_of_free_slots_does() {
        for slots in [1, 2, 63, 64, 65, 200, 4_095, 4_096, 4_097, 10_000] {
            let mut map = RandomMap::new(slots).expect("memory");
            let (mut rng, mut twin) = (Prng::new(7), Prng::new(7));
            let mut free: BTreeSet<u32> = (0..slots).collect();
            for _ in 0..3 * slots {
                if free.is_empty() {
                    free = (0..slots).collect();
                }
                let drawn = twin.below(slots);
                let wanted = *free.range(drawn..).next().or(free.first()).expect("one is free");
                free.remove(&wanted);
                assert_eq!(map.slot(&mut rng, Op::Write), wanted, "{slots} slots");
                // A request of several slots ends at the next visited slot.
                let most = twin.below(4);
                assert_eq!(rng.below(4), most);
                let naive =
                    (wanted + 1..slots).take(most as usize).take_while(|slot| free.remove(slot)).count();
                let run = if wanted + 1 < slots { map.visit_run(wanted + 1, most) } else { 0 };
                assert_eq!(run as usize, naive, "{slots} slots");
            }
        }
    }
}
