use std::time::Duration;

use strobe_nvme::{After, Begun, Entry, Status, Work};
use strobe_ssd::CommandError;

use super::session::{BY_PDUS, CONNECT, FABRICS, Pending, Session};
use super::subsystem::{Connected, PropertySet, Subsystem};
use super::wire::{self, flag, kind};
use crate::engine::Engine;
use crate::session::Session as _;

mod fabrics {
    pub(super) const PROPERTY_SET: u8 = 0x00;
    pub(super) const PROPERTY_GET: u8 = 0x04;
    pub(super) const DISCONNECT: u8 = 0x08;
}

impl Session {
    pub(super) fn begin(
        &mut self,
        id: u32,
        entry: &Entry,
        data: Vec<u8>,
        subsystem: &mut Subsystem,
        engine: &mut Engine,
        now: Duration,
    ) -> Result<(), (Status, u32)> {
        let plain = |status| (status, 0);
        if entry.opcode() == FABRICS {
            return self.begin_fabrics(id, entry, &data, subsystem, engine, now);
        }
        let Connected { controller, .. } = self.connected.ok_or(plain(Status::SEQUENCE_ERROR))?;
        // The discovery log belongs to the subsystem. The command set knows only one controller.
        if let Some(log) = subsystem.discovery_log(controller, entry) {
            return self.send(entry, log.map_err(plain)?, 0).map_err(plain);
        }
        let queue = self.queue();
        let of = subsystem.get(controller).ok_or(plain(Status::SEQUENCE_ERROR))?;
        if !of.registers.is_ready() {
            return Err(plain(Status::SEQUENCE_ERROR));
        }
        let (drive_now, sent) = (engine.now(), data.len());
        match of.commands.begin(queue, entry, data, drive_now, engine.drive_mut()).map_err(plain)? {
            Begun::Never => Ok(()),
            Begun::Done { data, result } => self.send(entry, data, result).map_err(plain),
            begun @ Begun::Work { .. } => {
                let wanted = begun.output_bytes();
                if wanted > 0 && (entry.0[39] != BY_PDUS || (entry.dword(8) as usize) < wanted) {
                    return Err(plain(Status::INVALID_SGL_LENGTH));
                }
                let Begun::Work { work, is_forced } = begun else { return Ok(()) };
                let owed = sent + wanted;
                self.owed += owed;
                // The tag contains the slot, so the slot is reserved before submission. `after` is known only
                // then.
                let slot = self.insert(Pending::Working { id: entry.id(), after: After::Nothing, owed });
                let rest = engine.work(u64::from(id) << 32 | u64::from(slot), work, is_forced);
                if let Some(Some(Pending::Working { after, .. })) = self.pending.get_mut(slot as usize) {
                    *after = rest;
                }
                Ok(())
            }
        }
    }

    fn begin_fabrics(
        &mut self,
        id: u32,
        entry: &Entry,
        data: &[u8],
        subsystem: &mut Subsystem,
        engine: &mut Engine,
        now: Duration,
    ) -> Result<(), (Status, u32)> {
        let plain = |status| (status, 0);
        match (entry.0[4], self.connected) {
            (CONNECT, None) => {
                let connected = subsystem.connect(entry, data, now)?;
                self.connected = Some(connected);
                // Connect itself was the first entry of the queue.
                self.head = 1 % connected.entries;
                self.complete(entry.id(), connected.controller.into(), Status::SUCCESS);
            }
            (fabrics::PROPERTY_GET, Some(Connected { controller, queue: 0, .. })) => {
                let value = subsystem.property(controller, entry).map_err(plain)?;
                self.complete(entry.id(), value, Status::SUCCESS);
            }
            (fabrics::PROPERTY_SET, Some(Connected { controller, queue: 0, .. })) => {
                match subsystem.set_property(controller, entry).map_err(plain)? {
                    PropertySet::Done => self.complete(entry.id(), 0, Status::SUCCESS),
                    PropertySet::Flush => {
                        let slot = self.insert(Pending::ShuttingDown { id: entry.id() });
                        engine.work(u64::from(id) << 32 | u64::from(slot), Work::Flush, false);
                    }
                }
            }
            // Disconnect is only for I/O queues. An admin queue ends with its connection.
            (fabrics::DISCONNECT, Some(Connected { queue: 1.., .. })) => {
                self.complete(entry.id(), 0, Status::SUCCESS);
                self.end();
            }
            (CONNECT | fabrics::DISCONNECT, _) | (_, None) => {
                return Err(plain(Status::SEQUENCE_ERROR));
            }
            _ => return Err(plain(Status::INVALID_OPCODE)),
        }
        Ok(())
    }

    /// Completes the command in `slot` with the drive's answer.
    pub fn answer(
        &mut self,
        slot: u32,
        result: Result<Vec<u8>, CommandError>,
        subsystem: &mut Subsystem,
        engine: &mut Engine,
    ) {
        let Some(pending) = self.pending.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        let of = self.connected.and_then(|connected| subsystem.get(connected.controller));
        // Without a controller, no host waits for the completion.
        let Some(of) = of else { return };
        match pending {
            Pending::Gathering { .. } => {}
            Pending::ShuttingDown { id } => match result {
                Ok(_) => {
                    of.registers.set_shut_down();
                    self.complete(id, 0, Status::SUCCESS);
                }
                Err(error) => self.complete(id, 0, Status::of(&error)),
            },
            Pending::Working { id, after, owed } => {
                self.owed -= owed;
                let now = engine.now();
                match of.commands.finish(after, result, now, engine.drive_mut()) {
                    Ok(data) => self.reply(id, data, 0),
                    Err(status) => self.complete(id, 0, status),
                }
            }
        }
    }

    /// Sends `data`, or fails if the host's buffer is too small.
    fn send(&mut self, entry: &Entry, data: Vec<u8>, result: u32) -> Result<(), Status> {
        let capacity = entry.dword(8) as usize;
        if !data.is_empty() && (entry.0[39] != BY_PDUS || capacity < data.len()) {
            return Err(Status::INVALID_SGL_LENGTH);
        }
        self.reply(entry.id(), data, result);
        Ok(())
    }

    /// Sends `data`. A completion follows unless the data PDU signals success.
    fn reply(&mut self, id: u16, data: Vec<u8>, result: u32) {
        if data.is_empty() {
            return self.complete(id, result.into(), Status::SUCCESS);
        }
        // The SUCCESS flag replaces the completion, which would carry only the result and the SQ head.
        let is_all = result == 0 && self.connected.is_some_and(|connected| !connected.has_flow_control);
        let flags = flag::LAST | if is_all { flag::SUCCESS } else { 0 };
        let mut rest = [0; 16];
        rest[..2].copy_from_slice(&id.to_le_bytes());
        rest[8..12].copy_from_slice(&(data.len() as u32).to_le_bytes());
        let form = self.form;
        let digest = form.data_digest.then(|| crc32c::crc32c(&data).to_le_bytes());
        self.buffers.output.add(|out| wire::begin(out, kind::C2H_DATA, flags, &rest, &data, &form));
        self.buffers.output.add_data(data);
        if let Some(digest) = digest {
            self.buffers.output.add(|out| out.extend(digest));
        }
        if !is_all {
            self.complete(id, result.into(), Status::SUCCESS);
        }
    }

    pub(super) fn complete(&mut self, id: u16, result: u64, status: Status) {
        let mut rest = [0; 16];
        rest[..8].copy_from_slice(&result.to_le_bytes());
        let has_flow_control = self.connected.is_none_or(|connected| connected.has_flow_control);
        // Without flow control, the SQ head has the reserved value FFFFh.
        let head = if has_flow_control { self.head as u16 } else { u16::MAX };
        rest[8..10].copy_from_slice(&head.to_le_bytes());
        rest[12..14].copy_from_slice(&id.to_le_bytes());
        rest[14..].copy_from_slice(&(status.0 << 1).to_le_bytes());
        let form = self.form;
        self.buffers.output.add(|out| wire::begin(out, kind::RESPONSE, 0, &rest, &[], &form));
    }
}
