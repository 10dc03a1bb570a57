//! Handshake: the client sends options until it selects the export.

use super::export::{Export, PAYLOAD_BYTES_MAX};
use super::wire::{self, Fields, OptionHeader, export, hello, info, option, reply};
use strobe_types::SECTOR_BYTES;

/// Maximum payload of an option, in bytes.
const OPTION_BYTES_MAX: usize = 64 << 10;
/// Payload size, in bytes, that is not skipped but closes the connection.
const ABSURD_BYTES: u32 = 16 << 20;
/// Maximum number of options before a client selects the export.
const OPTIONS_MAX: u32 = 256;

const ALLOCATION: &str = "base:allocation";
pub(super) const CONTEXT: u32 = 1;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Input bytes needed in total for the next step.
    More(usize),
    /// Consume the first `bytes`, then discard the next `skip` bytes.
    Done {
        bytes: usize,
        skip: u64,
    },
    /// Consume the first `bytes`, and encrypt the connection before reading more.
    Encrypt {
        bytes: usize,
    },
    /// Consume the first `bytes`; the export is selected.
    Ready {
        bytes: usize,
    },
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Not encrypted: the server has no certificate, or the connection needs none.
    #[default]
    None,
    Wanted,
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Handshake {
    has_flags: bool,
    no_zeroes: bool,
    encryption: Encryption,
    options: u32,
    pub(super) structured: bool,
    /// True if the client may request block status.
    pub(super) allocation: bool,
}

impl Handshake {
    pub(super) fn to_be_encrypted() -> Self {
        Self { encryption: Encryption::Wanted, ..Self::default() }
    }

    /// Forgets options negotiated in plain text.
    pub(super) fn set_encrypted(&mut self) {
        let (has_flags, no_zeroes) = (self.has_flags, self.no_zeroes);
        *self = Self { has_flags, no_zeroes, encryption: Encryption::Done, ..Self::default() };
    }

    pub(super) fn greet(out: &mut Vec<u8>) {
        out.extend_from_slice(&wire::MAGIC.to_be_bytes());
        out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&((hello::FIXED_NEWSTYLE | hello::NO_ZEROES) as u16).to_be_bytes());
    }

    pub(super) fn step(&mut self, export: &Export, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !self.has_flags {
            let Some(flags) = Fields(bytes).u32() else { return Step::More(size_of::<u32>()) };
            if flags & !(hello::FIXED_NEWSTYLE | hello::NO_ZEROES) != 0 {
                return Step::Over;
            }
            (self.has_flags, self.no_zeroes) = (true, flags & hello::NO_ZEROES != 0);
            return Step::Done { bytes: size_of::<u32>(), skip: 0 };
        }
        let Some((header, rest)) = bytes.split_first_chunk() else {
            return Step::More(OptionHeader::BYTES);
        };
        let Some(OptionHeader { option, bytes }) = OptionHeader::parse(header) else { return Step::Over };
        // An absurd payload or too many options end the connection.
        if bytes >= ABSURD_BYTES || self.options >= OPTIONS_MAX {
            return Step::Over;
        }
        let length = bytes as usize;
        if length > OPTION_BYTES_MAX {
            // The payload is skipped, and the connection continues.
            self.options += 1;
            let text = format!("option {option} with {length} bytes; at most {OPTION_BYTES_MAX} are allowed");
            wire::option_reply(out, option, reply::TOO_BIG, text.as_bytes());
            return Step::Done { bytes: OptionHeader::BYTES, skip: bytes.into() };
        }
        let Some(payload) = rest.get(..length) else { return Step::More(OptionHeader::BYTES + length) };
        self.options += 1;
        let bytes = OptionHeader::BYTES + length;
        match self.choose(export, option, payload, out) {
            Choice::Next => Step::Done { bytes, skip: 0 },
            Choice::Encrypt => Step::Encrypt { bytes },
            Choice::Ready => Step::Ready { bytes },
            Choice::Over => Step::Over,
        }
    }

    fn choose(&mut self, export: &Export, number: u32, payload: &[u8], out: &mut Vec<u8>) -> Choice {
        let mut answer = |kind, text: &str| {
            wire::option_reply(out, number, kind, text.as_bytes());
            Choice::Next
        };
        match number {
            option::START_TLS if self.encryption == Encryption::Wanted && payload.is_empty() => {
                answer(reply::ACK, "");
                Choice::Encrypt
            }
            option::START_TLS if self.encryption != Encryption::None => {
                answer(reply::INVALID, "this option has no payload and is allowed once")
            }
            // EXPORT_NAME has no error reply, so the connection is closed.
            option::EXPORT_NAME if self.encryption == Encryption::Wanted => Choice::Over,
            number if number != option::ABORT && self.encryption == Encryption::Wanted => {
                answer(reply::TLS_REQUIRED, "this server requires encryption: STARTTLS first")
            }
            option::EXPORT_NAME => self.begin_at_once(export, payload, out),
            option::ABORT => {
                answer(reply::ACK, "");
                Choice::Over
            }
            option::LIST | option::STRUCTURED_REPLY if !payload.is_empty() => {
                answer(reply::INVALID, "this option has no payload")
            }
            option::LIST => {
                let mut server = (export.name.len() as u32).to_be_bytes().to_vec();
                server.extend_from_slice(export.name.as_bytes());
                server.extend_from_slice(export.description.as_bytes());
                wire::option_reply(out, number, reply::SERVER, &server);
                wire::option_reply(out, number, reply::ACK, &[]);
                Choice::Next
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                answer(reply::ACK, "")
            }
            option::INFO | option::GO => match parse_info(payload) {
                None => answer(reply::INVALID, "the payload is malformed"),
                Some((name, _)) if !is_of(export, name) => answer(reply::UNKNOWN, &no_such(export)),
                Some((_, wanted)) => {
                    inform(export, self.structured, number, &wanted, out);
                    if number == option::GO { Choice::Ready } else { Choice::Next }
                }
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(export, number, payload, out)
            }
            _ => answer(reply::UNSUPPORTED, "unknown option"),
        }
    }

    /// EXPORT_NAME, the oldest way to select an export.
    fn begin_at_once(&self, export: &Export, name: &[u8], out: &mut Vec<u8>) -> Choice {
        if !is_of(export, name) {
            // This option has no error reply. The server can refuse only by closing the connection.
            return Choice::Over;
        }
        out.extend_from_slice(&(export.sectors * SECTOR_BYTES).to_be_bytes());
        out.extend_from_slice(&flags(export, self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Choice::Ready
    }

    fn contexts(&mut self, export: &Export, number: u32, payload: &[u8], out: &mut Vec<u8>) -> Choice {
        let sets = number == option::SET_META_CONTEXT;
        if sets {
            // SET_META_CONTEXT replaces the contexts set earlier, even if it fails.
            self.allocation = false;
        }
        let (kind, text) = match parse_contexts(payload) {
            None => (reply::INVALID, "the payload is malformed".to_owned()),
            Some(_) if !self.structured => (reply::INVALID, "negotiate structured replies first".to_owned()),
            Some((name, _)) if !is_of(export, name) => (reply::UNKNOWN, no_such(export)),
            Some((_, queries)) => {
                // LIST_META_CONTEXT also accepts the namespace "base:" as a wildcard.
                let lists = |query: &&[u8]| !sets && *query == b"base:";
                let is_asked = |query: &&[u8]| *query == ALLOCATION.as_bytes() || lists(query);
                if queries.iter().any(is_asked) || !sets && queries.is_empty() {
                    self.allocation |= sets;
                    let id = if sets { CONTEXT } else { 0 };
                    let context = [&id.to_be_bytes(), ALLOCATION.as_bytes()].concat();
                    wire::option_reply(out, number, reply::META_CONTEXT, &context);
                }
                (reply::ACK, String::new())
            }
        };
        wire::option_reply(out, number, kind, text.as_bytes());
        Choice::Next
    }
}

enum Choice {
    Next,
    Encrypt,
    Ready,
    Over,
}

fn is_of(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

fn no_such(export: &Export) -> String {
    format!("no export has this name; the only one is {:?}, also selected by the empty name", export.name)
}

fn parse_info(payload: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut from = Fields(payload);
    let name = from.text()?;
    let count = from.u16()?;
    let wanted = (0..count).map(|_| from.u16()).collect::<Option<Vec<_>>>()?;
    from.0.is_empty().then_some((name, wanted))
}

fn parse_contexts(payload: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut from = Fields(payload);
    let name = from.text()?;
    let count = from.u32()?;
    // Each query takes at least its length field, so an excessive count ends with the payload.
    let queries = (0..count).map_while(|_| from.text()).collect::<Vec<_>>();
    (queries.len() == count as usize && from.0.is_empty()).then_some((name, queries))
}

fn flags(export: &Export, structured: bool) -> u16 {
    let always = export::HAS_FLAGS | export::SEND_FLUSH | export::SEND_FUA;
    let whole_reads = if structured { export::SEND_DF } else { 0 };
    let writes = export::SEND_TRIM | export::SEND_WRITE_ZEROES | export::SEND_FAST_ZERO;
    always | whole_reads | export::CAN_MULTI_CONN | if export.read_only { export::READ_ONLY } else { writes }
}

fn inform(of: &Export, structured: bool, number: u32, wanted: &[u16], out: &mut Vec<u8>) {
    let mut add = |kind: u16, content: &[u8]| {
        let payload = [&kind.to_be_bytes(), content].concat();
        wire::option_reply(out, number, reply::INFO, &payload);
    };
    let size = (of.sectors * SECTOR_BYTES).to_be_bytes();
    add(info::EXPORT, &[&size[..], &flags(of, structured).to_be_bytes()].concat());
    if wanted.contains(&info::NAME) {
        add(info::NAME, of.name.as_bytes());
    }
    if wanted.contains(&info::DESCRIPTION) {
        add(info::DESCRIPTION, of.description.as_bytes());
    }
    // Block sizes are sent even if not requested, as other servers do.
    let sizes = [SECTOR_BYTES as u32, of.block_bytes, PAYLOAD_BYTES_MAX].map(u32::to_be_bytes);
    add(info::BLOCK_SIZE, &sizes.concat());
    wire::option_reply(out, number, reply::ACK, &[]);
}
