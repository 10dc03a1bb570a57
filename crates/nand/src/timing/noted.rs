//! A set of dies or channels to be served.

use strobe_types::Stored;

#[derive(Clone, Debug, Stored)]
pub(super) struct Noted {
    words: Vec<u64>,
    is_empty: bool,
}

impl Noted {
    pub(super) fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], is_empty: true }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    #[inline(always)]
    pub(super) fn add(&mut self, number: u32) {
        self.words[number as usize / 64] |= 1 << (number % 64);
        self.is_empty = false;
    }

    #[inline(always)]
    pub(super) fn begin(&mut self) -> usize {
        self.is_empty = true;
        self.words.len()
    }

    #[inline(always)]
    pub(super) fn take(&mut self, word: usize) -> Numbers {
        Numbers { bits: std::mem::take(&mut self.words[word]), first: 64 * word as u32 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    bits: u64,
    first: u32,
}

impl Iterator for Numbers {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.bits == 0 {
            return None;
        }
        let number = self.first + self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(number)
    }
}
