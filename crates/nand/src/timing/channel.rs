//! The bus of a channel: one transfer at a time, the most urgent first.

use super::config::Class;

/// Somebody who waits for the bus.
#[derive(Clone, Copy, Debug)]
struct Request {
    class: Class,
    number: u64,
    die: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Whether a page is on it.
    pub(super) is_busy: bool,
    /// In the order in which they came.
    requests: Vec<Request>,
    came: u64,
    /// Whether it has to be looked at.
    pub(super) is_noted: bool,
}

impl Channel {
    /// `die` wants a page of an operation of `class` carried.
    pub(super) fn request(&mut self, die: u32, class: Class) {
        self.came += 1;
        self.requests.push(Request { class, number: self.came, die });
    }

    /// Whose turn it is: the most urgent, of equal ones the one that came first.
    pub(super) fn next(&mut self) -> Option<u32> {
        let first = (0..self.requests.len()).min_by_key(|&at| {
            let request = &self.requests[at];
            (request.class, request.number)
        })?;
        Some(self.requests.remove(first).die)
    }
}
