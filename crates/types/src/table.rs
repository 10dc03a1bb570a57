//! Large tables that take memory only for written parts, even after a clone.

use std::ops::{Deref, DerefMut};

use zerocopy::FromZeros;

/// Values copied together: one 4 KiB page for four-byte values.
const CHUNK: usize = 1024;
const STRIDE: usize = 64;

/// A table of fixed length whose values are initially zero.
///
/// The operating system provides zero pages without backing memory. A plain copy would write all of these
/// pages; a clone of this table copies only chunks with non-zero values. So a snapshot of a mostly empty
/// drive takes only the size of the written parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Table<T>(Vec<T>);

impl<T: FromZeros> Table<T> {
    /// A table of `length` zeroed values.
    ///
    /// # Panics
    ///
    /// If the table exceeds the address space.
    pub fn new(length: usize) -> Self {
        Self(T::new_vec_zeroed(length).expect("a table fits the address space"))
    }
}

/// Non-zero values with their indices. Skips zeros at memory bandwidth.
pub fn nonzero<T: FromZeros + Copy + PartialEq>(values: &[T]) -> impl Iterator<Item = (usize, T)> {
    let zero = T::new_zeroed();
    let parts = (0..).step_by(STRIDE).zip(values.chunks(STRIDE));
    parts.filter(|(_, part)| !is_zero(part)).flat_map(move |(first, part)| {
        (first..).zip(part.iter().copied()).filter(move |(_, value)| *value != zero)
    })
}

fn is_zero<T: FromZeros + PartialEq>(values: &[T]) -> bool {
    let zero = T::new_zeroed();
    // No early exit: a loop without branches skips zeros at memory bandwidth.
    values.iter().fold(true, |zeros, value| zeros & (*value == zero))
}

impl<T: FromZeros + Copy + PartialEq> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.0.len());
        for (from, to) in self.0.chunks(CHUNK).zip(copy.0.chunks_mut(CHUNK)) {
            if !from.chunks(STRIDE).all(is_zero) {
                to.copy_from_slice(from);
            }
        }
        copy
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values)
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PackedPpa, Ppa};

    #[cfg(target_os = "linux")]
    fn resident_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        1024 * line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    }

    #[test]
    fn a_clone_is_equal_and_independent() {
        let mut table = Table::<u32>::new(3 * CHUNK + 5);
        (table[1], table[2 * CHUNK], table[3 * CHUNK + 4]) = (7, 8, 9);
        let mut copy = table.clone();
        assert_eq!(copy, table);
        copy[1] = 0;
        assert_eq!((table[1], copy.len()), (7, 3 * CHUNK + 5));
    }

    #[test]
    fn values_that_are_not_zero_are_those_of_a_plain_search() {
        let mut rng = crate::Prng::new(1);
        for _ in 0..2_000 {
            let mut values = vec![0_u32; rng.below(400) as usize];
            for n in 0..rng.below(5).min(values.len() as u32) {
                let at = rng.below(values.len() as u32) as usize;
                values[at] = n;
            }
            let plain =
                values.iter().copied().enumerate().filter(|&(_, value)| value != 0).collect::<Vec<_>>();
            assert_eq!(nonzero(&values).collect::<Vec<_>>(), plain);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_clone_takes_memory_only_where_something_is_written() {
        const VALUES: usize = 64 << 20;
        let mut table = Table::<PackedPpa>::new(VALUES);
        table[VALUES / 2] = PackedPpa::some(Ppa::new(1));
        let before = resident_bytes();
        let copies: Vec<Table<PackedPpa>> = (0..4).map(|_| table.clone()).collect();
        let taken = resident_bytes().saturating_sub(before);
        assert!(copies.iter().all(|copy| copy[VALUES / 2] == table[VALUES / 2]));
        assert!(taken < 64 << 20, "{taken} bytes for four tables of {} bytes", 4 * VALUES);
    }
}
