//! The admin commands (NVMe base specification 2.0, section 5).

use vm_memory::GuestMemoryMmap;

use super::pages::{
    self, ALL_NAMESPACES, DATA_BYTES_MAX, ENDURANCE_GROUP, EVENTS_MAX, NAMESPACE, PAGE_BYTES, has_handles,
};
use super::placement::{self, Placement};
use super::queue::{Entry, IO_QUEUES_MAX, Queues, Status};
use crate::attached::{Attached, DiskOptions};

mod opcode {
    pub(super) const DELETE_SUBMISSION: u8 = 0x00;
    pub(super) const CREATE_SUBMISSION: u8 = 0x01;
    pub(super) const GET_LOG: u8 = 0x02;
    pub(super) const DELETE_COMPLETION: u8 = 0x04;
    pub(super) const CREATE_COMPLETION: u8 = 0x05;
    pub(super) const IDENTIFY: u8 = 0x06;
    pub(super) const ABORT: u8 = 0x08;
    pub(super) const SET_FEATURES: u8 = 0x09;
    pub(super) const GET_FEATURES: u8 = 0x0a;
    pub(super) const EVENT: u8 = 0x0c;
    pub(super) const DIRECTIVE_RECEIVE: u8 = 0x1a;
}

/// Outcome of an admin command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done; dword 0 of its completion.
    Result(u32),
    /// It is done, with data for the guest, and dword 0 of its completion.
    Data(Vec<u8>, u32),
    /// It waits for something that does not happen.
    Never,
}

/// Features set by the guest.
pub(super) struct Admin {
    pub(super) write_cache: bool,
    /// Requested event notifications. The controller reports none.
    events: u32,
    events_waiting: u32,
    /// Events of data placement.
    pub(super) placement: Placement,
}

impl Admin {
    pub(super) fn new(options: &DiskOptions) -> Self {
        Self {
            write_cache: options.write_cache,
            events: 0,
            events_waiting: 0,
            placement: Placement::default(),
        }
    }

    /// The features after a reset, which does not touch the events of data placement.
    pub(super) fn reset(&mut self, options: &DiskOptions) {
        let placement = std::mem::take(&mut self.placement);
        *self = Self { placement, ..Self::new(options) };
    }

    pub(super) fn carry_out(
        &mut self,
        entry: &Entry,
        queues: &mut Queues,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
        options: &DiskOptions,
        guest_ns: u64,
    ) -> Result<Answer, Status> {
        let number = entry.dword(10) as u16;
        let entries = (entry.dword(10) >> 16) + 1;
        let base = entry.qword(6);
        let is_plain = || {
            if entry.dword(11) & 1 == 1 && base.is_multiple_of(PAGE_BYTES as u64) {
                Ok(())
            } else {
                Err(Status::INVALID_FIELD)
            }
        };
        match entry.opcode() {
            opcode::DELETE_SUBMISSION => queues.delete_submission(number)?,
            opcode::CREATE_SUBMISSION => {
                is_plain()?;
                queues.create_submission(number, base, entries, (entry.dword(11) >> 16) as u16)?;
            }
            opcode::GET_LOG => return get_log(entry, &self.placement, drive, options, guest_ns),
            opcode::DELETE_COMPLETION => queues.delete_completion(number)?,
            opcode::CREATE_COMPLETION => {
                is_plain()?;
                // There is one interrupt.
                if entry.dword(11) >> 16 != 0 {
                    return Err(Status::INVALID_VECTOR);
                }
                queues.create_completion(number, base, entries, entry.dword(11) & 2 != 0)?;
            }
            opcode::IDENTIFY => {
                let (structure, element) = (entry.dword(10) as u8, entry.dword(11) as u16);
                return pages::identify(drive, options, structure, element, entry.namespace())
                    .map(|page| Answer::Data(page, 0));
            }
            // It is not aborted: it is being carried out.
            opcode::ABORT => return Ok(Answer::Result(1)),
            opcode::SET_FEATURES if is_events(entry) => {
                return self.placement.set_events(entry, memory, drive).map(Answer::Result);
            }
            opcode::GET_FEATURES if is_events(entry) => {
                return self
                    .placement
                    .events(entry, drive)
                    .map(|(bytes, result)| Answer::Data(bytes, result));
            }
            opcode::DIRECTIVE_RECEIVE => {
                return placement::directives(entry, drive).map(|page| Answer::Data(page, 0));
            }
            opcode::SET_FEATURES => return self.set(entry, drive, options).map(Answer::Result),
            opcode::GET_FEATURES => return self.get(entry, drive, options).map(Answer::Result),
            opcode::EVENT if self.events_waiting == EVENTS_MAX => return Err(Status::EVENTS_EXCEEDED),
            opcode::EVENT => {
                self.events_waiting += 1;
                return Ok(Answer::Never);
            }
            _ => return Err(Status::INVALID_OPCODE),
        }
        Ok(Answer::Result(0))
    }

    fn set(&mut self, entry: &Entry, drive: &mut Attached, options: &DiskOptions) -> Result<u32, Status> {
        let (feature, value) = (entry.dword(10), entry.dword(11));
        // Bit 31: for ever. Nothing is kept over power-off.
        if feature >> 31 == 1 {
            return Err(Status::NOT_SAVEABLE);
        }
        match feature as u8 {
            0x06 if options.write_cache => {
                self.write_cache = value & 1 == 1;
                drive.target.drive_mut().set_write_cache(self.write_cache);
                Ok(0)
            }
            // Flexible data placement can be changed only while the endurance group has no namespace.
            0x1d if has_handles(drive) => Err(Status::SEQUENCE_ERROR),
            0x07 if value as u16 == u16::MAX || value >> 16 == 0xffff => Err(Status::INVALID_FIELD),
            // As many as there are, whatever was asked for.
            0x07 => Ok(QUEUES),
            0x0b => {
                self.events = value;
                Ok(0)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn get(&self, entry: &Entry, drive: &Attached, options: &DiskOptions) -> Result<u32, Status> {
        // Bits 8 to 10: the value now.
        if entry.dword(10) >> 8 & 7 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match entry.dword(10) as u8 {
            0x06 if options.write_cache => Ok(self.write_cache.into()),
            0x07 => Ok(QUEUES),
            0x0b => Ok(self.events),
            // Enabled, in configuration 0.
            0x1d if has_handles(drive) && entry.dword(11) as u16 == ENDURANCE_GROUP => Ok(1),
            // Arbitration, power state, error recovery, coalescing, write atomicity: as they come.
            0x01 | 0x02 | 0x05 | 0x08 | 0x0a => Ok(0),
            _ => Err(Status::INVALID_FIELD),
        }
    }
}

/// Queues of each kind, which count from 0.
const QUEUES: u32 = (IO_QUEUES_MAX as u32 - 1) << 16 | (IO_QUEUES_MAX as u32 - 1);

/// True if the feature of the command is "FDP events", whose value does not fit into a dword.
fn is_events(entry: &Entry) -> bool {
    entry.dword(10) as u8 == 0x1e && entry.dword(10) >> 8 & 7 == 0 && entry.dword(10) >> 31 == 0
}

fn get_log(
    entry: &Entry,
    placement: &Placement,
    drive: &Attached,
    options: &DiskOptions,
    ns: u64,
) -> Result<Answer, Status> {
    if ![0, NAMESPACE, ALL_NAMESPACES].contains(&entry.namespace()) {
        return Err(Status::INVALID_NAMESPACE);
    }
    let dwords = u64::from(entry.dword(10) >> 16 | entry.dword(11) << 16) + 1;
    let bytes = usize::try_from(4 * dwords).unwrap_or(usize::MAX);
    if bytes > DATA_BYTES_MAX {
        return Err(Status::INVALID_FIELD);
    }
    let log = match entry.dword(10) as u8 {
        identifier @ (0x09 | 0x20..=0x23) if identifier > 0x09 || has_handles(drive) => {
            placement.log(entry, identifier, drive, options)?
        }
        identifier => pages::log(drive, options, identifier, ns)?,
    };
    let from = usize::try_from(entry.qword(12)).unwrap_or(usize::MAX);
    let Some(part) = log.get(from..).filter(|_| from.is_multiple_of(4)) else {
        return Err(Status::INVALID_FIELD);
    };
    let mut part = part.to_vec();
    part.resize(bytes, 0);
    Ok(Answer::Data(part, 0))
}
