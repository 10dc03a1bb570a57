//! Messages of User-Mode Linux's time-travel protocol (`include/uapi/linux/um_timetravel.h`).

use strobe_types::named;

named! {
    /// Type of a message. Numbers and names are those of the protocol.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum TimeOp {
        /// Reply; carries the sequence number of what it answers.
        Ack = 0 => "ACK",
        /// The guest is there; the time is the identity it was given on its command line.
        Start = 1 => "START",
        /// The guest wants to run at a time.
        Request = 2 => "REQUEST",
        /// The guest has nothing to do until it is told to run.
        Wait = 3 => "WAIT",
        /// Request for the time.
        Get = 4 => "GET",
        /// It is this time at the guest.
        Update = 5 => "UPDATE",
        /// Run, at this time.
        Run = 6 => "RUN",
        /// No need to ask before this time.
        FreeUntil = 7 => "FREE_UNTIL",
        /// Request for the time of day.
        GetTimeOfDay = 8 => "GET_TOD",
        /// A message of one guest to all.
        Broadcast = 9 => "BROADCAST",
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMessage {
    /// Type; a number that is no [`TimeOp`] is kept for the error.
    pub op: Result<TimeOp, u32>,
    /// Sequence number, repeated in the reply.
    pub seq: u32,
    /// Time in ns, where it has one.
    pub time: u64,
}

impl TimeMessage {
    /// Bytes of a message.
    pub const BYTES: usize = 16;

    /// A message.
    pub const fn new(op: TimeOp, seq: u32, time: u64) -> Self {
        Self { op: Ok(op), seq, time }
    }

    /// Reads a message. Guest and host are one machine, so its order of bytes is ours.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, time @ ..] = bytes;
        let number = u32::from_ne_bytes([a, b, c, d]);
        let op = TimeOp::ALL.get(number as usize).copied().ok_or(number);
        Self { op, seq: u32::from_ne_bytes([e, f, g, h]), time: u64::from_ne_bytes(time) }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let op = self.op.map_or_else(|number| number, |op| op as u32);
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.seq.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_wire() {
        for number in 0..12_u32 {
            let mut bytes = [0; TimeMessage::BYTES];
            bytes[..4].copy_from_slice(&number.to_ne_bytes());
            bytes[4] = 7;
            bytes[8] = 9;
            let message = TimeMessage::from_bytes(bytes);
            assert_eq!(message.op.is_ok(), number < 10);
            assert_eq!(message.to_bytes(), bytes);
        }
    }
}
