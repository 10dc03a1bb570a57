//! The bus of a channel: one transfer at a time, the most urgent first.

use super::config::Class;
use strobe_types::Stored;

/// Transfer on the bus for a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Carry {
    /// A page of a program with its command, or the command of an erase.
    Load,
    /// The command of a read of one of the die's readers.
    Command(u32),
    /// A page that one of them has read.
    Data(u32),
}

/// Somebody who waits for the bus.
#[derive(Clone, Copy, Debug, Stored)]
struct Request {
    class: Class,
    /// Its turn among those of its class: commands first, as an array can work then, each in the order in which it came.
    turn: u64,
    die: u32,
    what: Carry,
}

/// In the turn of what is no command.
const BEHIND_COMMANDS: u64 = 1 << 63;

#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Channel {
    /// True if a transfer is in progress.
    pub(super) is_busy: bool,
    /// In the order in which they came.
    requests: Vec<Request>,
    came: u64,
}

impl Channel {
    /// `die` wants `what` of an operation of `class` carried.
    pub(super) fn request(&mut self, die: u32, class: Class, what: Carry) {
        self.came += 1;
        let behind = if matches!(what, Carry::Command(_)) { 0 } else { BEHIND_COMMANDS };
        self.requests.push(Request { class, turn: self.came | behind, die, what });
    }

    /// Removes the next request: the most urgent class; at equal class a command; then the oldest.
    pub(super) fn next(&mut self) -> Option<(u32, Carry)> {
        let first = (0..self.requests.len()).min_by_key(|&at| {
            let request = &self.requests[at];
            (request.class, request.turn)
        })?;
        let Request { die, what, .. } = self.requests.remove(first);
        Some((die, what))
    }
}
