//! Bus of a channel: one transfer in progress, earliest deadline first.

use super::config::Class;
use strobe_types::{SimTime, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Carry {
    /// A program page with its command, or an erase command.
    Load,
    /// A read command of this reader.
    Command(u32),
    /// A page from this reader.
    Data(u32),
}

#[derive(Clone, Copy, Debug, Stored)]
struct Request {
    class: Class,
    /// Time of the request plus the deadline of its class.
    deadline: SimTime,
    /// Order within a class: commands first, because they let an array start; then by arrival.
    turn: u64,
    die: u32,
    what: Carry,
}

const BEHIND_COMMANDS: u64 = 1 << 63;

#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Channel {
    pub(super) is_busy: bool,
    requests: Vec<Request>,
    arrived: u64,
}

impl Channel {
    pub(super) fn request(&mut self, die: u32, class: Class, what: Carry, deadline: SimTime) {
        self.arrived += 1;
        let behind = if matches!(what, Carry::Command(_)) { 0 } else { BEHIND_COMMANDS };
        self.requests.push(Request { class, deadline, turn: self.arrived | behind, die, what });
    }

    /// Chooses the class with the earliest deadline, on ties the most urgent; within the class by `turn`.
    /// Thus urgent transfers cannot delay the others without limit.
    pub(super) fn next(&mut self) -> Option<(u32, Carry)> {
        let class = self.requests.iter().min_by_key(|request| (request.deadline, request.class))?.class;
        let of_class = (0..self.requests.len()).filter(|&at| self.requests[at].class == class);
        let first = of_class.min_by_key(|&at| self.requests[at].turn)?;
        let Request { die, what, .. } = self.requests.remove(first);
        Some((die, what))
    }
}
