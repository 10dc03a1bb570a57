//! Messages of User-Mode Linux's time-travel protocol (`include/uapi/linux/um_timetravel.h`).

use strobe_types::named;

named! {
    /// Message type, with the protocol's numbers and names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum TimeOp {
        /// Reply with the sequence number of the request.
        Ack = 0 => "ACK",
        /// Start of the guest. The time field is the identity from its command line.
        Start = 1 => "START",
        /// Request to run at a time.
        Request = 2 => "REQUEST",
        /// Wait for RUN.
        Wait = 3 => "WAIT",
        /// Request for the time.
        Get = 4 => "GET",
        /// Current time of the guest.
        Update = 5 => "UPDATE",
        /// Permission to run at this time.
        Run = 6 => "RUN",
        /// Time before which no request is needed.
        FreeUntil = 7 => "FREE_UNTIL",
        /// Request for the time of day.
        GetTimeOfDay = 8 => "GET_TOD",
        /// Broadcast of a guest to all.
        Broadcast = 9 => "BROADCAST",
    }
}

/// Time message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMessage {
    /// Type, or the unknown number for the error.
    pub op: Result<TimeOp, u32>,
    /// Sequence number, repeated in the reply.
    pub seq: u32,
    /// Time in ns, if the type has one.
    pub time: u64,
}

impl TimeMessage {
    /// Size of a message in bytes.
    pub const BYTES: usize = 16;

    /// Creates a message.
    pub const fn new(op: TimeOp, seq: u32, time: u64) -> Self {
        Self { op: Ok(op), seq, time }
    }

    /// Decodes a message in native byte order.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, time @ ..] = bytes;
        let number = u32::from_ne_bytes([a, b, c, d]);
        let op = TimeOp::ALL.get(number as usize).copied().ok_or(number);
        Self { op, seq: u32::from_ne_bytes([e, f, g, h]), time: u64::from_ne_bytes(time) }
    }

    /// Encodes the message.
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
