//! A table that allocates memory only for written blocks.

use strobe_types::{State, StateError, StateReader, StateWriter, Stored};

/// Values by index, in pieces of equal length. An empty piece holds default values only.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<T> {
    pieces: Vec<Vec<T>>,
    per_piece: usize,
    default: T,
}

impl<T: Clone + PartialEq> Sparse<T> {
    pub(crate) fn new(pieces: u32, per_piece: u32, default: T) -> Self {
        Self { pieces: vec![Vec::new(); pieces as usize], per_piece: per_piece as usize, default }
    }

    pub(crate) const fn bytes_per_piece() -> u64 {
        std::mem::size_of::<Vec<T>>() as u64
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> &T {
        self.pieces[at / self.per_piece].get(at % self.per_piece).unwrap_or(&self.default)
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, value: T) {
        let piece = &mut self.pieces[at / self.per_piece];
        if piece.is_empty() {
            if value == self.default {
                return;
            }
            *piece = vec![self.default.clone(); self.per_piece];
        }
        piece[at % self.per_piece] = value;
    }

    pub(crate) fn clear(&mut self, first: usize, count: usize) {
        let (piece, from) = (&mut self.pieces[first / self.per_piece], first % self.per_piece);
        if count == self.per_piece {
            *piece = Vec::new();
        } else if !piece.is_empty() {
            piece[from..from + count].fill(self.default.clone());
        }
    }
}

impl<T: Clone + Stored> State for Sparse<T> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        for piece in &self.pieces {
            Stored::store(&!piece.is_empty(), out);
            piece.iter().for_each(|value| value.store(out));
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for piece in &mut self.pieces {
            piece.clear();
            if bool::restored(from)? {
                piece.reserve_exact(self.per_piece);
                for _ in 0..self.per_piece {
                    piece.push(T::restored(from)?);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_table(steps in proptest::collection::vec((0..40_usize, any::<u8>(), 0..3_u8), 0..200)) {
            let mut sparse = Sparse::new(5, 8, 0_u8);
            let mut naive = [0_u8; 40];
            for (at, value, what) in steps {
                match what {
                    0 => (sparse.set(at, value), naive[at] = value).1,
                    1 => {
                        let first = at / 8 * 8;
                        sparse.clear(first, 8);
                        naive[first..first + 8].fill(0);
                        prop_assert!(sparse.pieces[first / 8].is_empty());
                        sparse.set(first, 0);
                        prop_assert!(sparse.pieces[first / 8].is_empty());
                    }
                    _ => {
                        let first = at / 2 * 2;
                        sparse.clear(first, 2);
                        naive[first..first + 2].fill(0);
                    }
                }
                for (at, value) in naive.iter().enumerate() {
                    prop_assert_eq!(sparse.get(at), value);
                }
            }
        }
    }
}
