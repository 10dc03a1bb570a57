use std::collections::VecDeque;
use std::time::Duration;

use strobe_nvme::{After, Entry, Queue, Status};

use super::subsystem::{CONNECT_BYTES, Connected, Subsystem};
use super::wire::{self, Fatal, Form, Header, flag, half, kind, word};
use crate::engine::Engine;
use crate::session::{Buffers, Session as _};

/// Maximum requested data of incomplete commands, in bytes.
pub const GATHERED_BYTES_MAX: usize = 8 << 20;
/// Maximum unsent answers plus data of in-flight commands, in bytes. Above it, reading stops.
const OUTPUT_BYTES_MAX: usize = 32 << 20;

/// Opcode of fabrics commands.
pub(super) const FABRICS: u8 = 0x7f;
/// Fabrics command type of Connect.
pub(super) const CONNECT: u8 = 0x01;

/// SGL identifier of data in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// SGL identifier of data in separate PDUs.
pub(super) const BY_PDUS: u8 = 0x5a;

#[derive(Debug)]
pub(super) enum Pending {
    Gathering {
        entry: Entry,
        data: Vec<u8>,
        wanted: usize,
        is_sound: bool,
    },
    Working {
        id: u16,
        after: After,
        owed: usize,
    },
    /// Flush of the controller's shutdown.
    ShuttingDown {
        id: u16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the exchange of ICReq and ICResp.
    New,
    Open,
}

/// Connection of a host.
#[derive(Debug)]
pub struct Session {
    state: State,
    pub(super) form: Form,
    pub(super) connected: Option<Connected>,
    pub(super) buffers: Buffers,
    pub(super) pending: Vec<Option<Pending>>,
    pub(super) free: Vec<u32>,
    /// Slots of commands whose data has not been requested.
    waiting: VecDeque<u32>,
    /// Requested data bytes of incomplete commands.
    granted: usize,
    pub(super) owed: usize,
    /// Submission queue head: commands received, modulo the queue length.
    pub(super) head: u32,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl crate::session::Session for Session {
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    fn is_ready(&self) -> bool {
        self.connected.is_some()
    }

    fn is_busy(&self) -> bool {
        self.buffers.output.len() + self.owed > OUTPUT_BYTES_MAX
    }

    fn in_flight(&self) -> usize {
        // The data of a gathering command may never arrive. It must not delay the end of the connection.
        let works = |pending: &&Option<Pending>| !matches!(pending, None | Some(Pending::Gathering { .. }));
        self.pending.iter().filter(works).count()
    }
}

impl Session {
    /// Creates a session for an accepted connection.
    pub fn new() -> Self {
        Self {
            state: State::New,
            form: Form::default(),
            connected: None,
            buffers: Buffers::default(),
            pending: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            granted: 0,
            owed: 0,
            head: 0,
        }
    }

    /// True if the controller is gone, or the Keep Alive timeout of its host has expired.
    pub fn is_deserted(&self, subsystem: &mut Subsystem, now: Duration) -> bool {
        self.connected
            .is_some_and(|connected| subsystem.get(connected.controller).is_none_or(|of| of.is_deserted(now)))
    }

    /// Closes the connection. The controller of an admin queue is removed.
    pub fn leave(&self, subsystem: &mut Subsystem) {
        if let Some(Connected { controller, queue, .. }) = self.connected {
            subsystem.disconnect(controller, queue);
        }
    }

    /// Parses received PDUs and submits commands with tags of connection `id`. Returns the number of PDUs.
    pub fn submit(
        &mut self,
        id: u32,
        subsystem: &mut Subsystem,
        engine: &mut Engine,
        now: Duration,
    ) -> usize {
        let mut count = 0;
        while !self.is_full() {
            let Some(bytes) = self.buffers.input.bytes().first_chunk() else {
                self.buffers.needed = wire::COMMON_BYTES;
                break;
            };
            let header = match Header::parse(bytes, &self.form) {
                Ok(header) => header,
                Err(fatal) => {
                    let bytes = *bytes;
                    self.terminate(fatal, &bytes);
                    break;
                }
            };
            self.buffers.needed = header.bytes;
            if self.buffers.input.bytes().len() < header.bytes {
                break;
            }
            count += 1;
            // The PDU borrows the input buffer, so the buffer leaves `self` while the PDU is executed.
            let mut input = std::mem::take(&mut self.buffers.input);
            let pdu = input.take(header.bytes);
            if let Err(fatal) = self.take(id, &header, pdu, subsystem, engine, now) {
                self.terminate(fatal, &pdu[..wire::HEADER_BYTES]);
            }
            self.buffers.input = input;
        }
        count
    }

    fn terminate(&mut self, fatal: Fatal, header: &[u8]) {
        self.buffers.output.add(|out| wire::terminate(out, fatal, header));
        self.end();
    }

    fn take(
        &mut self,
        id: u32,
        header: &Header,
        pdu: &[u8],
        subsystem: &mut Subsystem,
        engine: &mut Engine,
        now: Duration,
    ) -> Result<(), Fatal> {
        header.check(pdu, &self.form)?;
        match (self.state, header.kind) {
            (State::New, kind::IC_REQ) => return self.initialize(pdu),
            (_, kind::H2C_TERM_REQ) => {
                self.end();
                return Ok(());
            }
            (State::Open, kind::COMMAND | kind::H2C_DATA) => {}
            _ => return Err(Fatal::SEQUENCE),
        }
        // Any PDU restarts the Keep Alive timer.
        if let Some(of) = self.connected.and_then(|connected| subsystem.get(connected.controller)) {
            of.heard = now;
        }
        let (data, is_sound) = header.data(pdu, &self.form)?;
        let ready = if header.kind == kind::H2C_DATA {
            self.gather(header, pdu, data, is_sound)?
        } else {
            self.command(pdu, data, is_sound, subsystem)?
        };
        if let Some((entry, data, is_sound)) = ready {
            let begun = if is_sound {
                self.begin(id, &entry, data, subsystem, engine, now)
            } else {
                // Transient transport error: the data digest is wrong.
                Err((Status(0x022), 0))
            };
            if let Err((status, result)) = begun {
                self.complete(entry.id(), result.into(), status);
            }
        }
        self.grant();
        Ok(())
    }

    fn initialize(&mut self, pdu: &[u8]) -> Result<(), Fatal> {
        if half(pdu, 8) != 0 {
            return Err(Fatal { status: 0x06, info: 8 });
        }
        if pdu[10] > 31 {
            return Err(Fatal::field(10));
        }
        self.form = Form {
            alignment: 4 * (usize::from(pdu[10]) + 1),
            header_digest: pdu[11] & 1 != 0,
            data_digest: pdu[11] & 2 != 0,
        };
        self.state = State::Open;
        let form = self.form;
        self.buffers.output.add(|out| wire::initialize(out, &form));
        Ok(())
    }

    pub(super) fn queue(&self) -> Queue {
        match self.connected {
            Some(Connected { queue: 1.., .. }) => Queue::Io,
            _ => Queue::Admin,
        }
    }

    /// Returns the command if its data is complete.
    fn command(
        &mut self,
        pdu: &[u8],
        data: &[u8],
        is_sound: bool,
        subsystem: &mut Subsystem,
    ) -> Result<Option<(Entry, Vec<u8>, bool)>, Fatal> {
        let mut entry = Entry([0; Entry::BYTES]);
        entry.0.copy_from_slice(&pdu[wire::COMMON_BYTES..wire::COMMAND_BYTES]);
        let entries = self.connected.map_or(2, |connected| connected.entries);
        if self.pending.len() - self.free.len() >= entries as usize {
            // The host has exceeded the queue's entries.
            return Err(Fatal::SEQUENCE);
        }
        self.head = (self.head + 1) % entries;
        let wanted = match self.wanted(&entry, subsystem) {
            Ok(wanted) => wanted,
            Err(status) => {
                self.complete(entry.id(), 0, status);
                return Ok(None);
            }
        };
        if wanted == 0 {
            return Ok(Some((entry, Vec::new(), is_sound)));
        }
        let (kind, bytes) = (entry.0[39], entry.dword(8) as usize);
        // Data is in the capsule, or `grant` requests it within the memory limit.
        let refused = match kind {
            _ if bytes < wanted => Status::INVALID_SGL_LENGTH,
            IN_CAPSULE if entry.qword(6) != 0 => Status::INVALID_SGL_OFFSET,
            IN_CAPSULE if data.len() < wanted => Status::INVALID_SGL_LENGTH,
            IN_CAPSULE => return Ok(Some((entry, data[..wanted].to_vec(), is_sound))),
            BY_PDUS => {
                let slot =
                    self.insert(Pending::Gathering { entry, data: Vec::new(), wanted, is_sound: true });
                self.waiting.push_back(slot);
                return Ok(None);
            }
            _ => Status::INVALID_SGL_TYPE,
        };
        self.complete(entry.id(), 0, refused);
        Ok(None)
    }

    fn wanted(&self, entry: &Entry, subsystem: &mut Subsystem) -> Result<usize, Status> {
        // Fused commands and PRPs are not supported.
        if entry.flags() != 0x40 {
            return Err(Status::INVALID_FIELD);
        }
        match (self.connected, entry.opcode()) {
            (_, FABRICS) if entry.0[4] == CONNECT => Ok(CONNECT_BYTES),
            (_, FABRICS) => Ok(0),
            (None, _) => Err(Status::SEQUENCE_ERROR),
            (Some(connected), _) => {
                let of = subsystem.get(connected.controller).ok_or(Status::SEQUENCE_ERROR)?;
                of.commands.input_bytes(self.queue(), entry)
            }
        }
    }

    fn grant(&mut self) {
        while let Some(&slot) = self.waiting.front() {
            let Some(Some(Pending::Gathering { entry, wanted, .. })) = self.pending.get(slot as usize) else {
                break;
            };
            let (id, wanted) = (entry.id(), *wanted);
            // Commands wait in order. One command above the limit is granted if it is alone.
            if self.granted > 0 && self.granted + wanted > GATHERED_BYTES_MAX {
                break;
            }
            self.waiting.pop_front();
            self.granted += wanted;
            let mut rest = [0; 16];
            rest[..2].copy_from_slice(&id.to_le_bytes());
            rest[2..4].copy_from_slice(&(slot as u16).to_le_bytes());
            rest[8..12].copy_from_slice(&(wanted as u32).to_le_bytes());
            let form = self.form;
            self.buffers.output.add(|out| wire::begin(out, kind::R2T, 0, &rest, &[], &form));
        }
    }

    fn gather(
        &mut self,
        header: &Header,
        pdu: &[u8],
        data: &[u8],
        sound: bool,
    ) -> Result<Option<(Entry, Vec<u8>, bool)>, Fatal> {
        let (id, slot, from) = (half(pdu, 8), half(pdu, 10), word(pdu, 12) as usize);
        // The data of this command has not been requested yet.
        if self.waiting.contains(&slot.into()) {
            return Err(Fatal::SEQUENCE);
        }
        let Some(place) = self.pending.get_mut(usize::from(slot)) else { return Err(Fatal::field(10)) };
        let Some(Pending::Gathering { entry, data: gathered, wanted, is_sound }) = place else {
            return Err(Fatal::field(10));
        };
        if entry.id() != id {
            return Err(Fatal::field(8));
        }
        if word(pdu, 16) as usize != data.len() || data.is_empty() {
            return Err(Fatal::field(16));
        }
        // Data must arrive in order and within the length of the command.
        if from != gathered.len() || from + data.len() > *wanted {
            return Err(Fatal::OUT_OF_RANGE);
        }
        gathered.extend_from_slice(data);
        *is_sound &= sound;
        let is_complete = gathered.len() == *wanted;
        if (header.flags & flag::LAST != 0) != is_complete {
            return Err(Fatal::SEQUENCE);
        }
        if !is_complete {
            return Ok(None);
        }
        self.granted -= *wanted;
        let taken = place.take();
        self.free.push(slot.into());
        Ok(match taken {
            Some(Pending::Gathering { entry, data, is_sound, .. }) => Some((entry, data, is_sound)),
            _ => None,
        })
    }

    pub(super) fn insert(&mut self, pending: Pending) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.pending[slot as usize] = Some(pending);
            slot
        } else {
            self.pending.push(Some(pending));
            (self.pending.len() - 1) as u32
        }
    }
}
