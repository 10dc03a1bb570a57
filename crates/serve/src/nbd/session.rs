use std::sync::Arc;

use strobe_ssd::CommandError;
use strobe_types::{Lba, Range, SECTOR_BYTES};

use super::export::{Export, PAYLOAD_BYTES_MAX};
use super::handshake::{Handshake, Step};
use super::wire::{self, ErrorCode, RequestHeader, command, flag};
use crate::session::{Buffers, Session as _};

/// Limit of unsent answers plus data of in-flight requests, in bytes. Above it, no request is accepted.
pub const OUTPUT_BYTES_MAX: usize = 32 << 20;
const IN_FLIGHT_MAX: usize = 1024;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the range.
    Read,
    /// Writes the data of the request.
    Write {
        /// True for Force Unit Access.
        fua: bool,
    },
    /// Makes completed requests durable.
    Flush,
    /// Deallocates the range.
    Trim {
        /// True for Force Unit Access.
        fua: bool,
    },
    /// Writes zeros.
    WriteZeroes {
        /// True for Force Unit Access.
        fua: bool,
        /// True if the range may be deallocated.
        deallocate: bool,
    },
    /// Returns the allocation status of the range.
    Status {
        /// True if one extent is enough.
        one: bool,
    },
}

/// Valid request for the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Number that identifies the request until its answer.
    pub slot: u32,
    /// Operation.
    pub op: Op,
    /// Sectors; empty for a flush.
    pub range: Range,
    /// Data of a write, as long as the range.
    pub data: &'a [u8],
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Error code of the protocol.
    pub code: ErrorCode,
    /// Human-readable text, sent with structured replies.
    pub text: String,
}

impl Failed {
    /// Creates a failure with `code`.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<&CommandError> for Failed {
    fn from(error: &CommandError) -> Self {
        Self::new(code_of(error), error.to_string())
    }
}

fn code_of(error: &CommandError) -> ErrorCode {
    match error {
        CommandError::OutOfRange { .. }
        | CommandError::Empty { .. }
        | CommandError::Length { .. }
        | CommandError::DataLength { .. }
        | CommandError::Ranges { .. }
        | CommandError::TooLarge { .. } => ErrorCode::Invalid,
        CommandError::Unsupported => ErrorCode::NotSupported,
        _ => ErrorCode::Io,
    }
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    cookie: u64,
    op: Op,
    offset: u64,
    owed: usize,
}

/// Connection of a client.
#[derive(Debug)]
pub struct Session {
    export: Arc<Export>,
    handshake: Handshake,
    wants_encryption: bool,
    has_export: bool,
    buffers: Buffers,
    /// Bytes of a refused message still to be discarded.
    skip: u64,
    asked: Vec<Option<Asked>>,
    free: Vec<u32>,
    /// Data bytes of in-flight requests, in either direction.
    owed: usize,
}

impl crate::session::Session for Session {
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    fn is_ready(&self) -> bool {
        self.has_export
    }

    fn is_busy(&self) -> bool {
        self.wants_encryption
            || self.buffers.output.len() + self.owed > OUTPUT_BYTES_MAX
            || self.in_flight() >= IN_FLIGHT_MAX
    }

    fn in_flight(&self) -> usize {
        self.asked.len() - self.free.len()
    }
}

impl Session {
    /// Creates a session for an accepted connection.
    pub fn new(export: Arc<Export>) -> Self {
        let mut buffers = Buffers::default();
        buffers.output.add(Handshake::greet);
        Self {
            handshake: Handshake::default(),
            wants_encryption: false,
            has_export: false,
            buffers,
            skip: 0,
            asked: Vec::new(),
            free: Vec::new(),
            owed: 0,
            export,
        }
    }

    /// Creates a session that requires encryption.
    pub fn to_be_encrypted(export: Arc<Export>) -> Self {
        Self { handshake: Handshake::to_be_encrypted(), ..Self::new(export) }
    }

    /// True if the connection must be encrypted after the output is sent.
    pub fn wants_encryption(&self) -> bool {
        self.wants_encryption
    }

    /// Marks the connection as encrypted.
    pub fn set_encrypted(&mut self) {
        self.wants_encryption = false;
        self.handshake.set_encrypted();
    }

    /// Returns the next complete request; `None` until more input arrives or output is sent.
    pub fn next_request(&mut self) -> Option<Request<'_>> {
        let (header, range, op) = loop {
            if self.is_full() || !self.skip_refused() {
                return None;
            }
            if !self.has_export {
                self.shake_hands()?;
                continue;
            }
            let Some(bytes) = self.buffers.input.bytes().first_chunk() else {
                self.buffers.needed = RequestHeader::BYTES;
                return None;
            };
            let Some(header) = RequestHeader::parse(bytes) else {
                // Without the magic number, the start of the next message is unknown.
                self.end();
                continue;
            };
            if header.command == command::DISCONNECT {
                self.end();
                continue;
            }
            match self.understand(&header) {
                Ok((op, range)) => {
                    // A write is taken only when all its data has arrived.
                    let data = if header.command == command::WRITE { header.bytes as usize } else { 0 };
                    self.buffers.needed = RequestHeader::BYTES + data;
                    if self.buffers.input.bytes().len() < self.buffers.needed {
                        return None;
                    }
                    break (header, range, op);
                }
                Err(failed) => {
                    self.buffers.input.consume(RequestHeader::BYTES);
                    self.refuse(header.cookie, &failed);
                    // The client sends the data of a refused write nevertheless. It is discarded.
                    self.skip = if header.command == command::WRITE { header.bytes.into() } else { 0 };
                }
            }
        };
        self.buffers.input.consume(RequestHeader::BYTES);
        let (offset, cookie) = (header.offset, header.cookie);
        let has_data = matches!(op, Op::Read | Op::Write { .. });
        let owed = if has_data { header.bytes as usize } else { 0 };
        self.owed += owed;
        let slot = self.insert(Asked { cookie, op, offset, owed });
        let data =
            self.buffers.input.take(if header.command == command::WRITE { header.bytes as usize } else { 0 });
        Some(Request { slot, op, range, data })
    }

    fn shake_hands(&mut self) -> Option<()> {
        let Self { handshake, export, buffers: Buffers { input, output, .. }, .. } = self;
        let mut step = Step::More(0);
        output.add(|out| step = handshake.step(export, input.bytes(), out));
        match step {
            Step::More(needed) => {
                self.buffers.needed = needed;
                None
            }
            Step::Done { bytes, skip } => {
                self.buffers.input.consume(bytes);
                self.skip = skip;
                Some(())
            }
            Step::Encrypt { bytes } => {
                self.buffers.input.consume(bytes);
                // An attacker could append plain text to STARTTLS, which would then count as encrypted.
                let is_alone = self.buffers.input.bytes().is_empty();
                if is_alone {
                    self.wants_encryption = true
                } else {
                    self.end()
                }
                None
            }
            Step::Ready { bytes } => {
                self.buffers.input.consume(bytes);
                self.has_export = true;
                Some(())
            }
            Step::Over => {
                self.end();
                None
            }
        }
    }

    /// Discards a refused message. Returns false until all of it has arrived.
    fn skip_refused(&mut self) -> bool {
        if self.skip > 0 {
            let held = self.buffers.input.bytes().len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.buffers.input.consume(held);
            self.skip -= held as u64;
            self.buffers.needed = 0;
        }
        self.skip == 0
    }

    fn understand(&self, header: &RequestHeader) -> Result<(Op, Range), Failed> {
        let &RequestHeader { flags, command: number, offset, bytes, .. } = header;
        let invalid = |text: String| Err(Failed::new(ErrorCode::Invalid, text));
        let fua = flags & flag::FUA != 0;
        let has_status = self.handshake.allocation;
        let (op, allowed) = match number {
            command::READ => (Op::Read, if self.handshake.structured { flag::DF } else { 0 }),
            command::WRITE => (Op::Write { fua }, 0),
            command::FLUSH => (Op::Flush, 0),
            command::TRIM => (Op::Trim { fua }, 0),
            command::WRITE_ZEROES => {
                let deallocate = flags & flag::NO_HOLE == 0;
                (Op::WriteZeroes { fua, deallocate }, flag::NO_HOLE | flag::FAST_ZERO)
            }
            command::BLOCK_STATUS if has_status => {
                (Op::Status { one: flags & flag::REQ_ONE != 0 }, flag::REQ_ONE)
            }
            command::BLOCK_STATUS => {
                return invalid(
                    "block status needs the context base:allocation, which was not negotiated".into(),
                );
            }
            _ => return invalid(format!("command {number} is unknown; allowed: 0 to 4, 6 and 7")),
        };
        // FUA is allowed with every command.
        let unknown = flags & !(allowed | flag::FUA);
        if unknown != 0 {
            return invalid(format!("command {number} does not support flags {unknown:#x}"));
        }
        let changes = matches!(op, Op::Write { .. } | Op::Trim { .. } | Op::WriteZeroes { .. });
        if changes && self.export.read_only {
            return Err(Failed::new(ErrorCode::NotPermitted, "the export is read-only"));
        }
        if op == Op::Flush {
            return Ok((op, Range::new(Lba::new(0), 0)));
        }
        // The protocol requires FAST_ZERO to fail if zeroing is as slow as a write. NO_HOLE forbids
        // deallocation.
        if flags & flag::FAST_ZERO != 0 && flags & flag::NO_HOLE != 0 {
            return Err(Failed::new(
                ErrorCode::NotSupported,
                "zeros without a hole are programmed, as slow as data",
            ));
        }
        self.range(op, offset, bytes).map(|range| (op, range))
    }

    fn range(&self, op: Op, offset: u64, bytes: u32) -> Result<Range, Failed> {
        let invalid = |text: String| Err(Failed::new(ErrorCode::Invalid, text));
        let sector = SECTOR_BYTES;
        if bytes == 0 || !offset.is_multiple_of(sector) || !u64::from(bytes).is_multiple_of(sector) {
            return invalid(format!(
                "{bytes} bytes at offset {offset}: both must be multiples of {sector}, and at least one sector"
            ));
        }
        if matches!(op, Op::Read | Op::Write { .. }) && bytes > PAYLOAD_BYTES_MAX {
            return invalid(format!("{bytes} bytes in one request; at most {PAYLOAD_BYTES_MAX} are allowed"));
        }
        let (lba, sectors) = (offset / sector, bytes / sector as u32);
        if lba.checked_add(sectors.into()).is_none_or(|end| end > self.export.sectors) {
            // Beyond the end of the export, the protocol has ENOSPC for writes and EINVAL for other requests.
            let code = if matches!(op, Op::Write { .. } | Op::WriteZeroes { .. }) {
                ErrorCode::NoSpace
            } else {
                ErrorCode::Invalid
            };
            let size = self.export.sectors * sector;
            return Err(Failed::new(
                code,
                format!("{bytes} bytes at offset {offset} exceed the export of {size} bytes"),
            ));
        }
        Ok(Range::new(Lba::new(lba), sectors))
    }

    fn insert(&mut self, asked: Asked) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.asked[slot as usize] = Some(asked);
            slot
        } else {
            self.asked.push(Some(asked));
            (self.asked.len() - 1) as u32
        }
    }

    fn take(&mut self, slot: u32) -> Option<Asked> {
        let asked = self.asked.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.owed -= asked.owed;
        Some(asked)
    }

    /// Answers the request in `slot`. `result` holds the data of a read.
    pub fn answer(&mut self, slot: u32, result: Result<Vec<u8>, Failed>) {
        let Some(Asked { cookie, op, offset, owed }) = self.take(slot) else { return };
        let structured = self.handshake.structured;
        match result {
            Err(failed) => self.refuse(cookie, &failed),
            Ok(mut data) => {
                if op == Op::Read {
                    data.resize(owed, 0);
                }
                self.buffers.output.add(|out| match op {
                    Op::Read if structured => wire::data(out, cookie, offset, owed),
                    _ if structured => wire::done(out, cookie),
                    _ => wire::simple_reply(out, cookie, None),
                });
                if op == Op::Read {
                    self.buffers.output.add_data(data);
                }
            }
        }
    }

    /// Answers the block status request in `slot` with runs of sectors and their allocation status.
    pub fn answer_status(&mut self, slot: u32, runs: &[(u32, bool)]) {
        let Some(Asked { cookie, .. }) = self.take(slot) else { return };
        let extent = |&(sectors, is_allocated): &(u32, bool)| {
            (sectors * SECTOR_BYTES as u32, if is_allocated { 0 } else { wire::HOLE_OF_ZEROS })
        };
        let extents: Vec<_> = runs.iter().map(extent).collect();
        self.buffers.output.add(|out| wire::block_status(out, cookie, super::handshake::CONTEXT, &extents));
    }

    fn refuse(&mut self, cookie: u64, failed: &Failed) {
        let structured = self.handshake.structured;
        self.buffers.output.add(|out| {
            if structured {
                wire::error(out, cookie, failed.code, &failed.text);
            } else {
                wire::simple_reply(out, cookie, Some(failed.code));
            }
        });
    }
}
