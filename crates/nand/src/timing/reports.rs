//! Reported tokens not yet taken.

use strobe_types::Stored;

#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Reports {
    tokens: Vec<u64>,
    taken: usize,
}

impl Reports {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, token: u64) {
        self.tokens.push(token);
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u64> {
        let token = *self.tokens.get(self.taken)?;
        self.taken += 1;
        if self.taken == self.tokens.len() {
            self.tokens.clear();
            self.taken = 0;
        }
        Some(token)
    }
}
