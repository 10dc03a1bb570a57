//! Bytes on their way in and out of a connection, both bounded.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes of the first buffer of a connection.
const INPUT_BYTES: usize = 256 << 10;
/// Bytes of the largest buffer that outlives its message.
const INPUT_KEPT_BYTES: usize = 1 << 20;

/// Bytes received and not yet understood.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// As long as its capacity, so that a read fills it without clearing it first.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Bytes at hand.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Room for more, at least one byte, of a message that is at most `wanted` bytes long. The buffer doubles as bytes
    /// come, so that a length that is only announced takes no memory.
    pub(crate) fn room(&mut self, wanted: usize) -> &mut [u8] {
        let held = self.end - self.start;
        if self.start > 0 && (held == 0 || self.buffer.len() - self.end < INPUT_BYTES / 2) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
        if held == 0 && self.buffer.len() > INPUT_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        if self.end == self.buffer.len() {
            let grown = (2 * self.buffer.len()).min(wanted.next_multiple_of(4096));
            self.buffer.resize(grown.max(INPUT_BYTES).max(self.end + 1), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `count` bytes have been put into the room.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = self.buffer.len().min(self.end + count);
    }

    /// The first `count` bytes are done with.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    /// The range of the buffer that the next `count` bytes take, which are then done with.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.consume(count);
        &self.buffer[start..self.start]
    }
}

/// Data of at least so many bytes is sent from where it is; less is copied behind its header.
const COPIED_BYTES_MAX: usize = 8 << 10;
/// Length up to which messages are gathered in one buffer.
const GATHERED_BYTES: usize = 64 << 10;

/// Bytes to send.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// None is empty.
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that are sent.
    sent: usize,
    bytes: usize,
    /// An emptied buffer, to be used again.
    spare: Vec<u8>,
}

impl Output {
    /// Bytes not yet sent.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds what `write` appends.
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

    /// Adds data.
    pub(crate) fn add_data(&mut self, data: Vec<u8>) {
        if data.len() < COPIED_BYTES_MAX {
            self.add(|out| out.extend_from_slice(&data));
        } else {
            self.bytes += data.len();
            self.parts.push_back(data);
        }
    }

    /// The next bytes to send, in at most `slices.len()` parts; returns how many parts there are.
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

    /// `count` bytes have been sent.
    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes = self.bytes.saturating_sub(count);
        self.sent += count;
        while let Some(first) = self.parts.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            if let Some(mut first) = self.parts.pop_front()
                && first.capacity() <= 2 * GATHERED_BYTES
            {
                first.clear();
                self.spare = first;
            }
        }
    }
}
