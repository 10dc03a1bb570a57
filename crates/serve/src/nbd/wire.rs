//! Constants and messages of the NBD protocol: fixed newstyle handshake, simple and structured replies.
//!
//! The functions only convert bytes. [`Session`](super::Session) decides when a message is sent.

/// First eight bytes sent by a server.
pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// First eight bytes of an option, and bytes 8 to 15 of the server's greeting.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

pub(super) mod hello {
    pub(in crate::nbd) const FIXED_NEWSTYLE: u32 = 1;
    pub(in crate::nbd) const NO_ZEROES: u32 = 2;
}

pub(super) mod option {
    pub(in crate::nbd) const EXPORT_NAME: u32 = 1;
    pub(in crate::nbd) const ABORT: u32 = 2;
    pub(in crate::nbd) const LIST: u32 = 3;
    pub(in crate::nbd) const START_TLS: u32 = 5;
    pub(in crate::nbd) const INFO: u32 = 6;
    pub(in crate::nbd) const GO: u32 = 7;
    pub(in crate::nbd) const STRUCTURED_REPLY: u32 = 8;
    pub(in crate::nbd) const LIST_META_CONTEXT: u32 = 9;
    pub(in crate::nbd) const SET_META_CONTEXT: u32 = 10;
}

pub(super) mod reply {
    pub(in crate::nbd) const ACK: u32 = 1;
    pub(in crate::nbd) const SERVER: u32 = 2;
    pub(in crate::nbd) const INFO: u32 = 3;
    pub(in crate::nbd) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(in crate::nbd) const UNSUPPORTED: u32 = ERROR | 1;
    pub(in crate::nbd) const INVALID: u32 = ERROR | 3;
    pub(in crate::nbd) const TLS_REQUIRED: u32 = ERROR | 5;
    pub(in crate::nbd) const UNKNOWN: u32 = ERROR | 6;
    pub(in crate::nbd) const TOO_BIG: u32 = ERROR | 9;
}

pub(super) mod info {
    pub(in crate::nbd) const EXPORT: u16 = 0;
    pub(in crate::nbd) const NAME: u16 = 1;
    pub(in crate::nbd) const DESCRIPTION: u16 = 2;
    pub(in crate::nbd) const BLOCK_SIZE: u16 = 3;
}

pub(super) mod export {
    pub(in crate::nbd) const HAS_FLAGS: u16 = 1;
    pub(in crate::nbd) const READ_ONLY: u16 = 1 << 1;
    pub(in crate::nbd) const SEND_FLUSH: u16 = 1 << 2;
    pub(in crate::nbd) const SEND_FUA: u16 = 1 << 3;
    pub(in crate::nbd) const SEND_TRIM: u16 = 1 << 5;
    pub(in crate::nbd) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(in crate::nbd) const SEND_DF: u16 = 1 << 7;
    pub(in crate::nbd) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(in crate::nbd) const SEND_FAST_ZERO: u16 = 1 << 11;
}

pub(super) mod command {
    pub(in crate::nbd) const READ: u16 = 0;
    pub(in crate::nbd) const WRITE: u16 = 1;
    pub(in crate::nbd) const DISCONNECT: u16 = 2;
    pub(in crate::nbd) const FLUSH: u16 = 3;
    pub(in crate::nbd) const TRIM: u16 = 4;
    pub(in crate::nbd) const WRITE_ZEROES: u16 = 6;
    pub(in crate::nbd) const BLOCK_STATUS: u16 = 7;
}

pub(super) mod flag {
    pub(in crate::nbd) const FUA: u16 = 1;
    pub(in crate::nbd) const NO_HOLE: u16 = 1 << 1;
    pub(in crate::nbd) const DF: u16 = 1 << 2;
    pub(in crate::nbd) const REQ_ONE: u16 = 1 << 3;
    pub(in crate::nbd) const FAST_ZERO: u16 = 1 << 4;
}

const CHUNK_DONE: u16 = 1;
const CHUNK_NONE: u16 = 0;
const CHUNK_DATA: u16 = 1;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = (1 << 15) | 1;

/// Extent flags of `base:allocation` for a hole that reads as zeros.
pub(super) const HOLE_OF_ZEROS: u32 = 3;

/// Error codes of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// EPERM: write to a read-only export.
    NotPermitted = 1,
    /// EIO: the drive cannot read, or has failed.
    Io = 5,
    /// EINVAL: invalid request.
    Invalid = 22,
    /// ENOSPC: write beyond the end of the export.
    NoSpace = 28,
    /// ENOTSUP: the operation is not supported.
    NotSupported = 95,
    /// ESHUTDOWN: the server is shutting down.
    ShuttingDown = 108,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OptionHeader {
    pub(super) option: u32,
    pub(super) bytes: u32,
}

impl OptionHeader {
    pub(super) const BYTES: usize = 16;

    /// `None` if the magic number is wrong.
    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Fields(bytes);
        let (magic, option, bytes) = (from.u64()?, from.u32()?, from.u32()?);
        (magic == OPTION_MAGIC).then_some(Self { option, bytes })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHeader {
    pub(super) flags: u16,
    pub(super) command: u16,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

impl RequestHeader {
    pub(super) const BYTES: usize = 28;

    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Fields(bytes);
        let magic = from.u32()?;
        let header = Self {
            flags: from.u16()?,
            command: from.u16()?,
            cookie: from.u64()?,
            offset: from.u64()?,
            bytes: from.u32()?,
        };
        (magic == REQUEST_MAGIC).then_some(header)
    }
}

/// Reader of big-endian fields; `None` beyond the end.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }
}

pub(super) fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, payload: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
}

/// Simple reply. The caller appends the data of a read.
pub(super) fn simple_reply(out: &mut Vec<u8>, cookie: u64, error: Option<ErrorCode>) {
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

fn chunk(out: &mut Vec<u8>, cookie: u64, kind: u16, bytes: usize) {
    out.extend_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out.extend_from_slice(&CHUNK_DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&(bytes as u32).to_be_bytes());
}

pub(super) fn done(out: &mut Vec<u8>, cookie: u64) {
    chunk(out, cookie, CHUNK_NONE, 0);
}

/// Header of a data chunk; the data follows.
pub(super) fn data(out: &mut Vec<u8>, cookie: u64, offset: u64, bytes: usize) {
    chunk(out, cookie, CHUNK_DATA, size_of::<u64>() + bytes);
    out.extend_from_slice(&offset.to_be_bytes());
}

const TEXT_MAX: usize = 4096;

pub(super) fn error(out: &mut Vec<u8>, cookie: u64, code: ErrorCode, text: &str) {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let text = &text.as_bytes()[..end];
    chunk(out, cookie, CHUNK_ERROR, size_of::<u32>() + size_of::<u16>() + text.len());
    out.extend_from_slice(&(code as u32).to_be_bytes());
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

pub(super) fn block_status(out: &mut Vec<u8>, cookie: u64, context: u32, extents: &[(u32, u32)]) {
    chunk(out, cookie, CHUNK_BLOCK_STATUS, size_of::<u32>() * (1 + 2 * extents.len()));
    out.extend_from_slice(&context.to_be_bytes());
    for (length, flags) in extents {
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }
}
