//! The bus of a channel: one transfer at a time, the most urgent first.

use super::config::Class;

/// What the bus carries for a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carry {
    /// A page of a program with its command, or the command of an erase.
    Load,
    /// The command of a read of one of the die's readers.
    Command(u32),
    /// A page that one of them has read.
    Data(u32),
}

/// Somebody who waits for the bus.
#[derive(Clone, Copy, Debug)]
struct Request {
    class: Class,
    number: u64,
    die: u32,
    what: Carry,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Whether a page is on it.
    pub(super) is_busy: bool,
    /// In the order in which they came.
    requests: Vec<Request>,
    came: u64,
}

impl Channel {
    /// `die` wants `what` of an operation of `class` carried.
    pub(super) fn request(&mut self, die: u32, class: Class, what: Carry) {
        self.came += 1;
        self.requests.push(Request { class, number: self.came, die, what });
    }

    /// Whose turn it is: the most urgent, of equal ones a command, as an array can work then, and of equal ones the one
    /// that came first.
    pub(super) fn next(&mut self) -> Option<(u32, Carry)> {
        let first = (0..self.requests.len()).min_by_key(|&at| {
            let request = &self.requests[at];
            (request.class, !matches!(request.what, Carry::Command(_)), request.number)
        })?;
        let Request { die, what, .. } = self.requests.remove(first);
        Some((die, what))
    }
}
