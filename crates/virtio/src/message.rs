//! Vhost-user messages, as used by User-Mode Linux and QEMU, without sockets.
//!
//! User-Mode Linux uses in-band notifications: kicks and calls are messages. No other channel can overtake
//! these messages, so the time of a request is exact. QEMU uses event file descriptors instead.

/// Feature bit: protocol features are available.
pub const F_PROTOCOL_FEATURES: u64 = 1 << 30;

/// Protocol features.
pub mod protocol {
    /// The device reports its number of rings.
    pub const MQ: u64 = 1;
    /// Every request can be acknowledged.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The device can send requests.
    pub const BACKEND_REQ: u64 = 1 << 5;
    /// The device has a configuration space.
    pub const CONFIG: u64 = 1 << 9;
    /// In-flight requests are recorded in memory that outlives the device's process.
    pub const INFLIGHT: u64 = 1 << 12;
    /// Notifications are messages.
    pub const INBAND_NOTIFICATIONS: u64 = 1 << 14;
    /// All features required for virtual time.
    pub const VIRTUAL_TIME: u64 = REPLY_ACK | BACKEND_REQ | CONFIG | INBAND_NOTIFICATIONS;
}

const VERSION: u32 = 1;
/// Message number of [`Request::Kick`].
pub const KICK: u32 = 35;
const FLAG_REPLY: u32 = 1 << 2;
const FLAG_NEED_REPLY: u32 = 1 << 3;
const BACKEND_VRING_CALL: u32 = 4;

/// Message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Request number.
    pub request: u32,
    /// True if the guest waits for an acknowledgement.
    pub needs_reply: bool,
    /// Payload bytes.
    pub bytes: usize,
}

impl Header {
    /// Header size in bytes.
    pub const BYTES: usize = 12;
    /// Maximum payload in bytes. The largest payload is a configuration space.
    pub const PAYLOAD_MAX: usize = 512;

    /// Parses a header. Returns an error for a wrong version or an oversized payload.
    pub fn parse(bytes: [u8; Self::BYTES]) -> Result<Self, String> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (request, flags, length) = (word(0), word(4), word(8) as usize);
        if flags & 3 != VERSION {
            return Err(format!("vhost-user message {request} of version {}", flags & 3));
        }
        if length > Self::PAYLOAD_MAX {
            return Err(format!("vhost-user message {request} of {length} bytes"));
        }
        Ok(Self { request, needs_reply: flags & FLAG_NEED_REPLY != 0, bytes: length })
    }
}

const REGIONS_MAX: u32 = 8;
/// Bit of a ring's kick or call message: no file is attached.
const NO_FILE: u64 = 1 << 8;

/// Region of guest memory, mapped from the file sent with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First guest physical address.
    pub guest: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// First address in the front-end's address space, which ring addresses refer to.
    pub user: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// Layout of the memory for in-flight requests, in the file sent with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflightArea {
    /// Size in bytes.
    pub bytes: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Number of rings.
    pub rings: u16,
    /// Descriptors per ring.
    pub size: u16,
}

/// Request from the front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests the device's features.
    GetFeatures,
    /// Selects features.
    SetFeatures(u64),
    /// Begins a session.
    SetOwner,
    /// Requests the protocol features.
    GetProtocolFeatures,
    /// Selects protocol features.
    SetProtocolFeatures(u64),
    /// Guest memory. A file for each region is attached.
    SetMemory(Vec<Region>),
    /// Number of descriptors of a ring.
    SetVringSize {
        /// Ring.
        index: u32,
        /// Descriptors.
        size: u32,
    },
    /// Ring addresses, in the front-end's address space.
    SetVringAddress {
        /// Ring.
        index: u32,
        /// Descriptor table.
        descriptors: u64,
        /// Used ring.
        used: u64,
        /// Available ring.
        available: u64,
    },
    /// Index of the first available entry to serve.
    SetVringBase {
        /// Ring.
        index: u32,
        /// Entry.
        base: u32,
    },
    /// Stops a ring and requests the next index to serve.
    GetVringBase(u32),
    /// File for notifications of new requests in a ring. Without a file, the device polls.
    SetVringKick {
        /// Ring.
        index: u32,
        /// True if a file is attached.
        has_file: bool,
    },
    /// File for notifications of completed requests of a ring. Without a file, the guest polls.
    SetVringCall {
        /// Ring.
        index: u32,
        /// True if a file is attached.
        has_file: bool,
    },
    /// File for errors of a ring; unused.
    SetVringError,
    /// Requests the number of rings.
    GetQueueCount,
    /// Starts or stops a ring.
    EnableVring {
        /// Ring.
        index: u32,
        /// True to start.
        enable: bool,
    },
    /// Socket for requests from the device, attached to the message.
    SetBackendChannel,
    /// Reads the configuration space.
    GetConfig {
        /// First byte.
        offset: u32,
        /// Payload of the message. The answer has the same form.
        message: Vec<u8>,
    },
    /// Writes to the configuration space.
    SetConfig {
        /// First byte.
        offset: u32,
        /// Bytes to write.
        bytes: Vec<u8>,
    },
    /// Requests memory for in-flight requests. Its size and offset are set in the answer.
    GetInflight(InflightArea),
    /// Hands over memory for in-flight requests, created by this or an earlier process.
    SetInflight(InflightArea),
    /// A ring has new requests.
    Kick(u32),
}

const CONFIG_HEADER_BYTES: usize = 12;
const REGION_BYTES: usize = 32;

impl Request {
    /// Parses the payload of message `number`.
    pub fn parse(number: u32, payload: &[u8]) -> Result<Self, String> {
        let short = || format!("vhost-user message {number} of {} bytes is too short", payload.len());
        let word = |at: usize| -> Result<u32, String> {
            let bytes = payload.get(at..at + 4).ok_or_else(short)?;
            Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| short())?))
        };
        let long =
            |at: usize| -> Result<u64, String> { Ok(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32) };
        Ok(match number {
            1 => Self::GetFeatures,
            2 => Self::SetFeatures(long(0)?),
            3 => Self::SetOwner,
            5 => {
                let count = word(0)?;
                if count > REGIONS_MAX {
                    return Err(format!("{count} regions of memory; at most {REGIONS_MAX} are allowed"));
                }
                let regions = (0..count as usize).map(|region| {
                    let at = 8 + region * REGION_BYTES;
                    let (guest, bytes) = (long(at)?, long(at + 8)?);
                    Ok::<_, String>(Region { guest, bytes, user: long(at + 16)?, offset: long(at + 24)? })
                });
                Self::SetMemory(regions.collect::<Result<_, _>>()?)
            }
            8 => Self::SetVringSize { index: word(0)?, size: word(4)? },
            9 => Self::SetVringAddress {
                index: word(0)?,
                descriptors: long(8)?,
                used: long(16)?,
                available: long(24)?,
            },
            10 => Self::SetVringBase { index: word(0)?, base: word(4)? },
            11 => Self::GetVringBase(word(0)?),
            // Bits 0 to 7 are the ring. Bit 8 is set if no file is attached.
            12 | 13 => {
                let value = long(0)?;
                let (index, has_file) = ((value & 0xff) as u32, value & NO_FILE == 0);
                if number == 12 {
                    Self::SetVringKick { index, has_file }
                } else {
                    Self::SetVringCall { index, has_file }
                }
            }
            14 => Self::SetVringError,
            15 => Self::GetProtocolFeatures,
            16 => Self::SetProtocolFeatures(long(0)?),
            17 => Self::GetQueueCount,
            18 => Self::EnableVring { index: word(0)?, enable: word(4)? != 0 },
            21 => Self::SetBackendChannel,
            24 => Self::GetConfig { offset: word(0)?, message: payload.to_vec() },
            25 => {
                let contents = payload.get(CONFIG_HEADER_BYTES..).ok_or_else(short)?;
                let bytes = contents.get(..word(4)? as usize).ok_or_else(short)?.to_vec();
                Self::SetConfig { offset: word(0)?, bytes }
            }
            31 | 32 => {
                let counts = word(16)?;
                let (rings, size) = (counts as u16, (counts >> 16) as u16);
                let area = InflightArea { bytes: long(0)?, offset: long(8)?, rings, size };
                if number == 31 { Self::GetInflight(area) } else { Self::SetInflight(area) }
            }
            KICK => Self::Kick(word(0)?),
            other => return Err(format!("unknown vhost-user message {other}")),
        })
    }
}

/// Builds the reply to message `request`.
pub fn reply(request: u32, payload: &[u8]) -> Vec<u8> {
    message(request, VERSION | FLAG_REPLY, payload)
}

/// Builds the answer to [`Request::GetVringBase`] of ring `index`: the next entry to serve.
pub fn base_reply(index: u32, base: u16) -> Vec<u8> {
    reply(11, &[index.to_le_bytes(), u32::from(base).to_le_bytes()].concat())
}

/// Builds the answer to [`Request::GetInflight`], to be sent with the file. It has as many bytes as the
/// request: the structure has 20, but QEMU pads it to 24 and accepts no other length.
pub fn inflight_reply(area: InflightArea, bytes: usize) -> Vec<u8> {
    let counts = [area.rings.to_le_bytes(), area.size.to_le_bytes()].concat();
    let mut answer = [&area.bytes.to_le_bytes()[..], &area.offset.to_le_bytes(), &counts].concat();
    answer.resize(bytes.max(answer.len()), 0);
    reply(31, &answer)
}

/// Builds the answer to [`Request::GetConfig`] from the bytes of `space`. Bytes beyond its end are zero.
pub fn config_reply(message: &[u8], space: &[u8]) -> Vec<u8> {
    let mut answer = message.to_vec();
    if let Some((header, contents)) = answer.split_at_mut_checked(CONFIG_HEADER_BYTES) {
        let offset = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        for (at, byte) in contents.iter_mut().enumerate() {
            *byte = space.get(offset.saturating_add(at)).copied().unwrap_or(0);
        }
    }
    reply(24, &answer)
}

/// Builds the interrupt message of ring `index`.
pub fn vring_call(index: u32, needs_reply: bool) -> Vec<u8> {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&index.to_le_bytes());
    message(BACKEND_VRING_CALL, VERSION | if needs_reply { FLAG_NEED_REPLY } else { 0 }, &payload)
}

/// Size of an acknowledgement in bytes.
pub const ACK_BYTES: usize = Header::BYTES + 8;

/// True if `ack` acknowledges an interrupt.
pub fn is_positive(ack: [u8; ACK_BYTES]) -> bool {
    ack[..4] == BACKEND_VRING_CALL.to_le_bytes() && ack[Header::BYTES..].iter().all(|&byte| byte == 0)
}

fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&request.to_le_bytes(), &flags.to_le_bytes(), &length.to_le_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_of_the_kernel_are_understood() {
        let mut table = vec![1, 0, 0, 0, 0, 0, 0, 0];
        for value in [0x1000_u64, 0x2000, 0x6000_1000, 0x1000, 0, 0, 0, 0] {
            table.extend(value.to_le_bytes());
        }
        assert_eq!(table.len(), 72, "the kernel sends room for two regions always");
        let region = Region { guest: 0x1000, bytes: 0x2000, user: 0x6000_1000, offset: 0x1000 };
        assert_eq!(Request::parse(5, &table), Ok(Request::SetMemory(vec![region])));
        let mut config = vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        config.extend([9, 9, 9, 9]);
        let Ok(Request::GetConfig { offset: 0, message }) = Request::parse(24, &config) else { panic!() };
        assert_eq!(config_reply(&message, &[1, 2, 3])[Header::BYTES + 12..], [1, 2, 3, 0]);
        let set = Request::parse(25, &config);
        assert_eq!(set, Ok(Request::SetConfig { offset: 0, bytes: vec![9; 4] }));
        let kick = Request::parse(12, &3_u64.to_le_bytes());
        assert_eq!(kick, Ok(Request::SetVringKick { index: 3, has_file: true }));
        let call = Request::parse(13, &0x103_u64.to_le_bytes());
        assert_eq!(call, Ok(Request::SetVringCall { index: 3, has_file: false }));
        let area = InflightArea { bytes: 0, offset: 0, rings: 2, size: 128 };
        assert_eq!(inflight_reply(area, 20).len(), Header::BYTES + 20);
        let answer = inflight_reply(area, 24);
        assert_eq!(answer.len(), Header::BYTES + 24);
        assert_eq!(Request::parse(31, &answer[Header::BYTES..]), Ok(Request::GetInflight(area)));
        assert_eq!(base_reply(1, 9)[Header::BYTES..], [1, 0, 0, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn wrong_messages_say_so() {
        assert!(Request::parse(2, &[0; 7]).unwrap_err().contains("too short"));
        assert!(Request::parse(99, &[]).unwrap_err().contains("99"));
        assert!(
            Request::parse(5, &[[9, 0, 0, 0].as_slice(), &[0; 400]].concat())
                .unwrap_err()
                .contains("at most 8")
        );
        assert!(Header::parse([0; 12]).unwrap_err().contains("version 0"));
        let large = [1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0];
        assert!(Header::parse(large).unwrap_err().contains("513 bytes"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(number in 0_u32..64, payload in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Request::parse(number, &payload);
            let _ = config_reply(&payload, &payload);
        }
    }
}
