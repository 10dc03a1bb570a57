//! Admin commands (NVMe base specification 2.0, section 5).

use strobe_ssd::Simulated;
use strobe_types::SimTime;

use crate::begun::Begun;
use crate::entry::{Entry, Status};
use crate::options::Options;
use crate::pages::{
    self, ALL_NAMESPACES, DATA_BYTES_MAX, ENDURANCE_GROUP, EVENTS_MAX, NAMESPACE, has_handles,
};
use crate::placement::{self, Placement};

mod opcode {
    pub(super) const GET_LOG: u8 = 0x02;
    pub(super) const IDENTIFY: u8 = 0x06;
    pub(super) const ABORT: u8 = 0x08;
    pub(super) const SET_FEATURES: u8 = 0x09;
    pub(super) const GET_FEATURES: u8 = 0x0a;
    pub(super) const EVENT: u8 = 0x0c;
    pub(super) const KEEP_ALIVE: u8 = 0x18;
    pub(super) const DIRECTIVE_RECEIVE: u8 = 0x1a;
}

pub(crate) struct Admin {
    pub(crate) write_cache: bool,
    /// Asynchronous events that the host has enabled. The controller never reports one.
    events: u32,
    events_waiting: u32,
    pub(crate) keep_alive_ms: u32,
    pub(crate) placement: Placement,
}

impl Admin {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            write_cache: options.write_cache,
            events: 0,
            events_waiting: 0,
            keep_alive_ms: 0,
            placement: Placement::default(),
        }
    }

    /// Resets the features. The FDP event settings and log survive.
    pub(crate) fn reset(&mut self, options: &Options) {
        let placement = std::mem::take(&mut self.placement);
        *self = Self { placement, ..Self::new(options) };
    }

    pub(crate) fn input_bytes(&self, entry: &Entry) -> usize {
        if entry.opcode() == opcode::SET_FEATURES && is_events(entry) {
            Placement::events_bytes(entry)
        } else {
            0
        }
    }

    pub(crate) fn carry_out(
        &mut self,
        entry: &Entry,
        data: &[u8],
        now: SimTime,
        drive: &mut dyn Simulated,
        options: &Options,
    ) -> Result<Begun, Status> {
        let done = |result| Begun::Done { data: Vec::new(), result };
        let page = |data| Begun::Done { data, result: 0 };
        match entry.opcode() {
            opcode::GET_LOG => get_log(entry, &self.placement, drive, options, now).map(page),
            opcode::IDENTIFY => {
                let (structure, element) = (entry.dword(10) as u8, entry.dword(11) as u16);
                pages::identify(drive, options, structure, element, entry.namespace()).map(page)
            }
            // Result 1: not aborted. Commands start as soon as they arrive, so none can be aborted.
            opcode::ABORT => Ok(done(1)),
            opcode::SET_FEATURES if is_events(entry) => {
                self.placement.set_events(entry, data, drive).map(done)
            }
            opcode::GET_FEATURES if is_events(entry) => {
                let (data, result) = self.placement.events(entry, drive)?;
                Ok(Begun::Done { data, result })
            }
            opcode::DIRECTIVE_RECEIVE => placement::directives(entry, drive).map(page),
            opcode::SET_FEATURES => self.set(entry, drive, options).map(done),
            opcode::GET_FEATURES => self.get(entry, drive, options).map(done),
            opcode::EVENT if self.events_waiting == EVENTS_MAX => Err(Status::EVENTS_EXCEEDED),
            // No event ever occurs, so the command stays outstanding until a reset.
            opcode::EVENT => {
                self.events_waiting += 1;
                Ok(Begun::Never)
            }
            opcode::KEEP_ALIVE if options.fabrics.is_some() => Ok(done(0)),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn set(&mut self, entry: &Entry, drive: &mut dyn Simulated, options: &Options) -> Result<u32, Status> {
        let (feature, value) = (entry.dword(10), entry.dword(11));
        // Bit 31 asks to save the value, but no feature survives a power-off.
        if feature >> 31 == 1 {
            return Err(Status::NOT_SAVEABLE);
        }
        match feature as u8 {
            0x06 if options.write_cache => {
                self.write_cache = value & 1 == 1;
                // Controllers of a fabric share the drive. Each switches the cache only for its commands, not
                // for the drive.
                if options.fabrics.is_none() {
                    drive.set_write_cache(self.write_cache);
                }
                Ok(0)
            }
            // FDP can be changed only while the endurance group has no namespace.
            0x1d if has_handles(drive) => Err(Status::SEQUENCE_ERROR),
            0x07 if value as u16 == u16::MAX || value >> 16 == 0xffff => Err(Status::INVALID_FIELD),
            // Allocates all queues, regardless of the requested number.
            0x07 => Ok(queues(options)),
            0x0b => {
                self.events = value;
                Ok(0)
            }
            0x0f if options.fabrics.is_some() => {
                self.keep_alive_ms = value;
                Ok(0)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn get(&self, entry: &Entry, drive: &dyn Simulated, options: &Options) -> Result<u32, Status> {
        // Bits 8 to 10: only the current value can be read.
        if entry.dword(10) >> 8 & 7 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match entry.dword(10) as u8 {
            0x06 if options.write_cache => Ok(self.write_cache.into()),
            0x07 => Ok(queues(options)),
            0x0b => Ok(self.events),
            0x0f if options.fabrics.is_some() => Ok(self.keep_alive_ms),
            // FDP is enabled, in configuration 0.
            0x1d if has_handles(drive) && entry.dword(11) as u16 == ENDURANCE_GROUP => Ok(1),
            // Arbitration, power state, error recovery, coalescing and write atomicity have fixed defaults.
            0x01 | 0x02 | 0x05 | 0x08 | 0x0a => Ok(0),
            _ => Err(Status::INVALID_FIELD),
        }
    }
}

/// Submission and completion queue counts, zero-based.
fn queues(options: &Options) -> u32 {
    let most = u32::from(options.io_queues) - 1;
    most << 16 | most
}

/// True if the command accesses the feature "FDP events", whose value does not fit into a dword.
fn is_events(entry: &Entry) -> bool {
    entry.dword(10) as u8 == 0x1e && entry.dword(10) >> 8 & 7 == 0 && entry.dword(10) >> 31 == 0
}

fn get_log(
    entry: &Entry,
    placement: &Placement,
    drive: &dyn Simulated,
    options: &Options,
    now: SimTime,
) -> Result<Vec<u8>, Status> {
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
        identifier => pages::log(drive, options, identifier, now)?,
    };
    let from = usize::try_from(entry.qword(12)).unwrap_or(usize::MAX);
    // The offset must be inside the log. Bytes beyond the end of the log are zeros.
    let Some(part) = log.get(from..).filter(|_| from.is_multiple_of(4)) else {
        return Err(Status::INVALID_FIELD);
    };
    let mut part = part.to_vec();
    part.resize(bytes, 0);
    Ok(part)
}
