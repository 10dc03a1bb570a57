//! Protocol data units (PDUs): headers, lengths and digests.

pub(super) mod kind {
    pub(in crate::nvme_tcp) const IC_REQ: u8 = 0x00;
    pub(in crate::nvme_tcp) const IC_RESP: u8 = 0x01;
    pub(in crate::nvme_tcp) const H2C_TERM_REQ: u8 = 0x02;
    pub(in crate::nvme_tcp) const C2H_TERM_REQ: u8 = 0x03;
    pub(in crate::nvme_tcp) const COMMAND: u8 = 0x04;
    pub(in crate::nvme_tcp) const RESPONSE: u8 = 0x05;
    pub(in crate::nvme_tcp) const H2C_DATA: u8 = 0x06;
    pub(in crate::nvme_tcp) const C2H_DATA: u8 = 0x07;
    pub(in crate::nvme_tcp) const R2T: u8 = 0x09;
}

pub(super) mod flag {
    pub(in crate::nvme_tcp) const HEADER_DIGEST: u8 = 1;
    pub(in crate::nvme_tcp) const DATA_DIGEST: u8 = 1 << 1;
    pub(in crate::nvme_tcp) const LAST: u8 = 1 << 2;
    pub(in crate::nvme_tcp) const SUCCESS: u8 = 1 << 3;
}

pub(super) const COMMON_BYTES: usize = 8;
/// Header size of ICReq and ICResp.
pub(super) const IC_BYTES: usize = 128;
/// Header size of a command.
pub(super) const COMMAND_BYTES: usize = 72;
/// Header size of other PDUs.
pub(super) const HEADER_BYTES: usize = 24;
const DIGEST_BYTES: usize = 4;
pub(super) const CAPSULE_DATA_BYTES: u32 = 8192;
/// Maximum data of an H2CData PDU, in bytes.
pub(super) const DATA_BYTES_MAX: u32 = 256 << 10;

/// Fatal error of a connection, reported in a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fatal {
    pub(super) status: u16,
    /// Offset of the wrong field, or the received digest.
    pub(super) info: u32,
}

impl Fatal {
    pub(super) const fn field(at: u32) -> Self {
        Self { status: 0x01, info: at }
    }

    pub(super) const SEQUENCE: Self = Self { status: 0x02, info: 0 };
    pub(super) const OUT_OF_RANGE: Self = Self { status: 0x04, info: 0 };

    const fn digest(found: u32) -> Self {
        Self { status: 0x03, info: found }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// Data alignment requested by the host, in bytes.
    pub(super) alignment: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) flags: u8,
    data_offset: usize,
    pub(super) bytes: usize,
}

impl Header {
    /// Checks the lengths against the PDU's type and `form`.
    pub(super) fn parse(bytes: &[u8; COMMON_BYTES], form: &Form) -> Result<Self, Fatal> {
        let [kind, flags, header, data_offset, a, b, c, d] = *bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        let (expected, data_max) = match kind {
            kind::IC_REQ => (IC_BYTES, 0),
            kind::COMMAND => (COMMAND_BYTES, CAPSULE_DATA_BYTES),
            kind::H2C_DATA => (HEADER_BYTES, DATA_BYTES_MAX),
            // The data of a termination request is the header that the host rejected.
            kind::H2C_TERM_REQ => (HEADER_BYTES, IC_BYTES as u32),
            _ => return Err(Fatal::field(0)),
        };
        if usize::from(header) != expected {
            return Err(Fatal::field(2));
        }
        let is_plain = matches!(kind, kind::IC_REQ | kind::H2C_TERM_REQ);
        let digest = if form.header_digest && !is_plain { DIGEST_BYTES } else { 0 };
        if !is_plain && (flags & flag::HEADER_DIGEST != 0) != form.header_digest {
            return Err(Fatal::field(1));
        }
        let smallest = expected + digest;
        // Data may be padded up to 128 bytes, the largest alignment of the protocol.
        let largest = smallest + data_max as usize + 128 + DIGEST_BYTES;
        let this = Self { kind, flags, data_offset: data_offset.into(), bytes: length as usize };
        if !(smallest..=largest).contains(&this.bytes) {
            return Err(Fatal::field(4));
        }
        let has_data = this.bytes > smallest && !is_plain;
        if has_data && !(smallest..this.bytes).contains(&this.data_offset) {
            return Err(Fatal::field(3));
        }
        Ok(this)
    }

    fn header_bytes(&self) -> usize {
        match self.kind {
            kind::IC_REQ => IC_BYTES,
            kind::COMMAND => COMMAND_BYTES,
            _ => HEADER_BYTES,
        }
    }

    pub(super) fn check(&self, pdu: &[u8], form: &Form) -> Result<(), Fatal> {
        let end = self.header_bytes();
        match (form.header_digest && self.kind != kind::IC_REQ && self.kind != kind::H2C_TERM_REQ)
            .then(|| word(pdu, end))
        {
            Some(found) if found != crc32c::crc32c(&pdu[..end]) => Err(Fatal::digest(found)),
            _ => Ok(()),
        }
    }

    /// Returns the data, and true if its digest is correct or not used.
    pub(super) fn data<'a>(&self, pdu: &'a [u8], form: &Form) -> Result<(&'a [u8], bool), Fatal> {
        let digest = if form.header_digest { DIGEST_BYTES } else { 0 };
        if self.bytes == self.header_bytes() + digest {
            return Ok((&[], true));
        }
        let data = &pdu[self.data_offset..self.bytes];
        if (self.flags & flag::DATA_DIGEST != 0) != form.data_digest {
            return Err(Fatal::field(1));
        }
        if !form.data_digest {
            return Ok((data, true));
        }
        let Some(end) = data.len().checked_sub(DIGEST_BYTES) else { return Err(Fatal::field(4)) };
        Ok((&data[..end], word(data, end) == crc32c::crc32c(&data[..end])))
    }
}

/// Reads a little-endian dword.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads a little-endian word.
pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Writes the start of a PDU; the caller sends `data` next. `rest` holds the last 16 bytes of the header.
pub(super) fn begin(out: &mut Vec<u8>, kind: u8, flags: u8, rest: &[u8; 16], data: &[u8], form: &Form) {
    let digest = if form.header_digest { DIGEST_BYTES } else { 0 };
    let mut flags = flags | if form.header_digest { flag::HEADER_DIGEST } else { 0 };
    let smallest = HEADER_BYTES + digest;
    // Padding aligns the data as the host has requested.
    let (offset, trailer) = match data.len() {
        0 => (0, 0),
        _ => (
            smallest.next_multiple_of(form.alignment.max(4)),
            if form.data_digest { DIGEST_BYTES } else { 0 },
        ),
    };
    if trailer > 0 {
        flags |= flag::DATA_DIGEST;
    }
    let bytes = offset.max(smallest) + data.len() + trailer;
    let start = out.len();
    out.extend([kind, flags, HEADER_BYTES as u8, offset as u8]);
    out.extend((bytes as u32).to_le_bytes());
    out.extend(rest);
    if form.header_digest {
        out.extend(crc32c::crc32c(&out[start..]).to_le_bytes());
    }
    out.resize(start + offset.max(smallest), 0);
}

pub(super) fn initialize(out: &mut Vec<u8>, form: &Form) {
    let start = out.len();
    out.extend([kind::IC_RESP, 0, IC_BYTES as u8, 0]);
    out.extend((IC_BYTES as u32).to_le_bytes());
    // PDU format version 0. Data from the host needs no alignment.
    out.extend([0, 0, 0, u8::from(form.header_digest) | u8::from(form.data_digest) << 1]);
    out.extend(DATA_BYTES_MAX.to_le_bytes());
    out.resize(start + IC_BYTES, 0);
}

pub(super) fn terminate(out: &mut Vec<u8>, fatal: Fatal, header: &[u8]) {
    let header = &header[..header.len().min(IC_BYTES)];
    out.extend([kind::C2H_TERM_REQ, 0, HEADER_BYTES as u8, 0]);
    out.extend(((HEADER_BYTES + header.len()) as u32).to_le_bytes());
    out.extend(fatal.status.to_le_bytes());
    out.extend(fatal.info.to_le_bytes());
    out.extend([0; 10]);
    out.extend(header);
}
