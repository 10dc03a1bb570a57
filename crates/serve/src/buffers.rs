use std::collections::VecDeque;
use std::io::IoSlice;

/// Initial size of the input buffer, in bytes.
const INPUT_BYTES: usize = 256 << 10;
/// Largest empty input buffer that is kept, in bytes.
const INPUT_KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Initialised to its full length, so a read needs no zeroing first.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Returns space for the next read.
    pub(crate) fn free_space(&mut self, wanted: usize) -> &mut [u8] {
        let held = self.end - self.start;
        // Move the unconsumed bytes to the front before the space behind them becomes small.
        if self.start > 0 && (held == 0 || self.buffer.len() - self.end < INPUT_BYTES / 2) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
        // One large message must not keep its memory until the connection closes.
        if held == 0 && self.buffer.len() > INPUT_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        if self.end == self.buffer.len() {
            // A full buffer at most doubles. The length that a client announces allocates nothing before data
            // arrives.
            let grown = (2 * self.buffer.len()).min(wanted.next_multiple_of(4096));
            self.buffer.resize(grown.max(INPUT_BYTES).max(self.end + 1), 0);
        }
        &mut self.buffer[self.end..]
    }

    pub(crate) fn filled(&mut self, count: usize) {
        self.end = self.buffer.len().min(self.end + count);
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.consume(count);
        &self.buffer[start..self.start]
    }
}

/// Minimum size of data that is sent without a copy. Smaller data is copied after its header.
const COPIED_BYTES_MAX: usize = 8 << 10;
/// Size at which an output buffer is full and the next message starts another.
const GATHERED_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Buffers to send, in order; some may be empty.
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that are already sent.
    sent: usize,
    bytes: usize,
    spare: Vec<u8>,
}

impl Output {
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.parts.back().is_none_or(|last| last.len() >= GATHERED_BYTES) {
            self.parts.push_back(std::mem::take(&mut self.spare));
        }
        if let Some(last) = self.parts.back_mut() {
            let before = last.len();
            write(last);
            self.bytes += last.len() - before;
        }
    }

    pub(crate) fn add_data(&mut self, data: Vec<u8>) {
        if data.len() < COPIED_BYTES_MAX {
            self.add(|out| out.extend_from_slice(&data));
        } else {
            self.bytes += data.len();
            self.parts.push_back(data);
        }
    }

    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent;
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(&part[skip..]);
            skip = 0;
            count += 1;
        }
        count
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes = self.bytes.saturating_sub(count);
        self.sent += count;
        while let Some(first) = self.parts.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            // Reuse one small buffer, which saves an allocation per message.
            if let Some(mut first) = self.parts.pop_front()
                && first.capacity() <= 2 * GATHERED_BYTES
            {
                first.clear();
                self.spare = first;
            }
        }
    }
}
