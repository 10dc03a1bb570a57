//! Submission queue entries and completion status (section 3.3.3).

use strobe_ssd::CommandError;

/// Completion status: status code type in bits 8 to 10, status code below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

#[allow(missing_docs, reason = "names of the specification")]
impl Status {
    pub const SUCCESS: Self = Self(0);
    pub const INVALID_OPCODE: Self = Self(0x001);
    pub const INVALID_FIELD: Self = Self(0x002);
    pub const DATA_TRANSFER: Self = Self(0x004);
    pub const INVALID_NAMESPACE: Self = Self(0x00b);
    pub const SEQUENCE_ERROR: Self = Self(0x00c);
    pub const INVALID_SGL_LENGTH: Self = Self(0x00f);
    pub const INVALID_SGL_TYPE: Self = Self(0x011);
    pub const INVALID_PRP_OFFSET: Self = Self(0x013);
    pub const INVALID_SGL_OFFSET: Self = Self(0x016);
    pub const WRITE_PROTECTED: Self = Self(0x020);
    pub const FDP_DISABLED: Self = Self(0x029);
    pub const INVALID_HANDLE_LIST: Self = Self(0x02a);
    pub const INVALID_COMPLETION_QUEUE: Self = Self(0x100);
    pub const INVALID_QUEUE: Self = Self(0x101);
    pub const INVALID_QUEUE_SIZE: Self = Self(0x102);
    pub const EVENTS_EXCEEDED: Self = Self(0x105);
    pub const INVALID_VECTOR: Self = Self(0x108);
    pub const INVALID_LOG: Self = Self(0x109);
    pub const QUEUE_IN_USE: Self = Self(0x10c);
    pub const NOT_SAVEABLE: Self = Self(0x10d);
    pub const CONNECT_FORMAT: Self = Self(0x180);
    pub const CONNECT_PARAMETERS: Self = Self(0x182);
    pub const CONNECT_HOST: Self = Self(0x184);
    pub const SIZE_EXCEEDED: Self = Self(0x183);
    pub const COMPARE_FAILURE: Self = Self(0x285);

    /// Converts the drive's error.
    pub fn of(error: &CommandError) -> Self {
        let status = error.status();
        Self(u16::from(status.sct) << 8 | u16::from(status.sc))
    }
}

/// Submission queue entry, from a queue or a capsule.
#[derive(Clone, Copy, Debug)]
pub struct Entry(pub [u8; Self::BYTES]);

impl Entry {
    /// Length in bytes.
    pub const BYTES: usize = 64;

    /// Returns dword `at`, 0 to 15.
    pub fn dword(&self, at: usize) -> u32 {
        let bytes = &self.0[4 * at..4 * at + 4];
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
    }

    /// Returns dwords `at` and `at + 1`.
    pub fn qword(&self, at: usize) -> u64 {
        u64::from(self.dword(at)) | u64::from(self.dword(at + 1)) << 32
    }

    /// Opcode.
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Flags: fused operation and data pointer type (00h: PRPs, 40h: SGL).
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Command identifier.
    pub fn id(&self) -> u16 {
        (self.dword(0) >> 16) as u16
    }

    /// Namespace identifier.
    pub fn namespace(&self) -> u32 {
        self.dword(1)
    }

    /// Data pointers (PRP entries 1 and 2).
    pub fn pointers(&self) -> [u64; 2] {
        [self.qword(6), self.qword(8)]
    }
}
