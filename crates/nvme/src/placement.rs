//! Flexible Data Placement (NVMe TP4146), on a drive with placement handles: its log pages, its events, and the commands
//! on reclaim units.
//!
//! There is one endurance group with one configuration. A placement identifier has the reclaim group in its top bits, as
//! many as it takes (RGIF), and below them the placement handle of the namespace, which is the reclaim unit handle with its
//! number. With one reclaim group it is the handle. The drive numbers handle h of group g as g times handles plus h.

use std::collections::VecDeque;

use strobe_nand::NandOp;
use strobe_ssd::{CommandKind, Isolation, ReclaimUnits, Simulated};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::entry::{Entry, Status};
use crate::options::Options;
use crate::pages::{DATA_BYTES_MAX, ENDURANCE_GROUP, NAMESPACE, PAGE_BYTES, Page, has_handles};

/// Type of the data placement directive.
const DIRECTIVE: u32 = 2;
const EVENT_BYTES: usize = 64;
/// Events that the log holds; the oldest leave first.
const EVENTS_MAX: usize = 63;

/// A kind of event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A handle has left a reclaim unit before it was full.
    NotFull = 0x00,
    /// A write has named a placement identifier that the namespace does not have.
    InvalidIdentifier = 0x03,
}

impl Event {
    const ALL: [Self; 2] = [Self::NotFull, Self::InvalidIdentifier];
}

/// Events that have happened, and those that the host wants to know of.
#[derive(Default)]
pub(crate) struct Placement {
    /// By handle, a bit for each of [`Event::ALL`].
    wanted: Vec<u8>,
    log: VecDeque<[u8; EVENT_BYTES]>,
}

/// A command on reclaim units.
pub(crate) enum Managed {
    /// Nothing is to be done.
    Nothing,
    /// Bytes for the host.
    Status(Vec<u8>),
    /// The reclaim units with these numbers are followed by empty ones.
    Update(Vec<u16>),
}

/// Bits of a placement identifier for the reclaim group.
fn group_bits(units: &ReclaimUnits) -> u32 {
    u16::BITS - (units.groups - 1).leading_zeros()
}

/// The identifier of a reclaim unit, of which the drive has the number `at`.
fn identifier_of(units: &ReclaimUnits, at: u16) -> u16 {
    let (group, handle) = (at / units.handles(), at % units.handles());
    group.checked_shl(u16::BITS - group_bits(units)).unwrap_or(0) | handle
}

/// The number that the drive has for a reclaim unit, if there is one with this identifier.
fn unit_of(units: &ReclaimUnits, identifier: u16) -> Option<u16> {
    (0..units.sectors_left.len() as u16).find(|&at| identifier_of(units, at) == identifier)
}

/// The handles of `drive`, or the status of a command that needs them.
fn units(drive: &dyn Simulated) -> Result<ReclaimUnits, Status> {
    drive.reclaim_units().ok_or(Status::FDP_DISABLED)
}

/// Bytes that the host sends with a command on reclaim units.
pub(crate) fn input_bytes(entry: &Entry) -> usize {
    if entry.opcode() == 0x1d && entry.dword(10) as u8 == 1 {
        2 * ((entry.dword(10) >> 16) as usize + 1)
    } else {
        0
    }
}

impl Placement {
    /// The handle of a write: the one that its directive names, 0 if it names none. An identifier that the namespace does
    /// not have counts as none and makes an event.
    pub(crate) fn handle_of(
        &mut self,
        entry: &Entry,
        now: SimTime,
        drive: &dyn Simulated,
    ) -> Result<u16, Status> {
        match entry.dword(12) >> 20 & 0xf {
            0 => return Ok(0),
            DIRECTIVE => {}
            _ => return Err(Status::INVALID_FIELD),
        }
        // A directive that is not enabled is refused.
        let units = units(drive).map_err(|_| Status::INVALID_FIELD)?;
        let identifier = (entry.dword(13) >> 16) as u16;
        if let Some(unit) = unit_of(&units, identifier) {
            return Ok(unit);
        }
        self.happened(Event::InvalidIdentifier, (0, 0), identifier, now);
        Ok(0)
    }

    /// Notes an event of `handle` in `group`, if the host wants to know of it.
    fn happened(&mut self, event: Event, (group, handle): (u16, u16), identifier: u16, now: SimTime) {
        let wanted = self.wanted.get(usize::from(handle)).copied().unwrap_or(0);
        if wanted & bit_of(event) == 0 {
            return;
        }
        let mut bytes = [0; EVENT_BYTES];
        // The identifier and the namespace are valid; so is the place of the unit, if the handle has one.
        let flags = if event == Event::NotFull { 0b111 } else { 0b011 };
        bytes[..2].copy_from_slice(&[event as u8, flags]);
        bytes[2..4].copy_from_slice(&identifier.to_le_bytes());
        bytes[4..10].copy_from_slice(&(now.as_ns() / 1_000_000).to_le_bytes()[..6]);
        bytes[12..16].copy_from_slice(&NAMESPACE.to_le_bytes());
        bytes[32..34].copy_from_slice(&group.to_le_bytes());
        bytes[34..36].copy_from_slice(&handle.to_le_bytes());
        if self.log.len() == EVENTS_MAX {
            self.log.pop_front();
        }
        self.log.push_back(bytes);
    }

    /// Bytes that the host sends to set the feature "FDP events".
    pub(crate) fn events_bytes(entry: &Entry) -> usize {
        (entry.dword(11) >> 16 & 0xff) as usize
    }

    /// Sets the feature "FDP events": which events of a handle make entries in the log.
    pub(crate) fn set_events(
        &mut self,
        entry: &Entry,
        kinds: &[u8],
        drive: &dyn Simulated,
    ) -> Result<u32, Status> {
        let handle = Self::handle_asked(entry, drive)?;
        let known = |kind: &u8| Event::ALL.into_iter().find(|&event| event as u8 == *kind);
        let mut bits = 0;
        for kind in kinds {
            bits |= bit_of(known(kind).ok_or(Status::INVALID_FIELD)?);
        }
        if self.wanted.len() <= handle {
            self.wanted.resize(handle + 1, 0);
        }
        if entry.dword(12) & 1 == 1 {
            self.wanted[handle] |= bits;
        } else {
            self.wanted[handle] &= !bits;
        }
        Ok(0)
    }

    /// The feature "FDP events" of a handle: the kinds of events, and which of them the host wants to know of; and their
    /// number.
    pub(crate) fn events(&self, entry: &Entry, drive: &dyn Simulated) -> Result<(Vec<u8>, u32), Status> {
        let handle = Self::handle_asked(entry, drive)?;
        let wanted = self.wanted.get(handle).copied().unwrap_or(0);
        let most = (entry.dword(11) >> 16 & 0xff) as usize;
        let pair = |event: Event| [event as u8, u8::from(wanted & bit_of(event) != 0)];
        let bytes = Event::ALL.into_iter().take(most).flat_map(pair).collect();
        Ok((bytes, Event::ALL.len() as u32))
    }

    fn handle_asked(entry: &Entry, drive: &dyn Simulated) -> Result<usize, Status> {
        let handle = (entry.dword(11) & 0xffff) as usize;
        let has_handle = usize::from(units(drive)?.handles()) > handle;
        if has_handle { Ok(handle) } else { Err(Status::INVALID_FIELD) }
    }

    /// The log page `identifier` of the endurance group that the command names.
    pub(crate) fn log(
        &self,
        entry: &Entry,
        identifier: u8,
        drive: &dyn Simulated,
        options: &Options,
    ) -> Result<Vec<u8>, Status> {
        let units = units(drive)?;
        if entry.dword(11) >> 16 != u32::from(ENDURANCE_GROUP) {
            return Err(Status::INVALID_FIELD);
        }
        Ok(match identifier {
            0x09 => endurance(drive),
            0x20 => configurations(&units, options),
            0x21 => usage(&units),
            0x22 => statistics(drive),
            // Of the host or, without that bit, of the controller, which reports none.
            _ if entry.dword(10) >> 8 & 1 == 1 => self.event_log(),
            _ => Page::new(EVENT_BYTES).0,
        })
    }

    fn event_log(&self) -> Vec<u8> {
        let mut page = Page::new(EVENT_BYTES);
        page.put(0, &(self.log.len() as u32).to_le_bytes());
        page.0.extend(self.log.iter().flatten());
        page.0
    }

    /// Decodes I/O Management Receive and Send; `None` for other commands.
    pub(crate) fn manage(
        &self,
        entry: &Entry,
        list: &[u8],
        drive: &dyn Simulated,
    ) -> Result<Option<Managed>, Status> {
        let (opcode, operation) = (entry.opcode(), entry.dword(10) as u8);
        if ![0x12, 0x1d].contains(&opcode) {
            return Ok(None);
        }
        if entry.namespace() != NAMESPACE {
            return Err(Status::INVALID_NAMESPACE);
        }
        let units = units(drive)?;
        match (opcode, operation) {
            (_, 0) => Ok(Some(Managed::Nothing)),
            (0x12, 1) => {
                let bytes = 4 * (u64::from(entry.dword(11)) + 1);
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if bytes > DATA_BYTES_MAX {
                    return Err(Status::INVALID_FIELD);
                }
                let mut status = status(&units);
                status.resize(bytes, 0);
                Ok(Some(Managed::Status(status)))
            }
            (0x1d, 1) => {
                let identifiers = list.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
                let numbers: Option<Vec<u16>> = identifiers.map(|named| unit_of(&units, named)).collect();
                let numbers = numbers.filter(|numbers| numbers.len() <= units.sectors_left.len());
                Ok(Some(Managed::Update(numbers.ok_or(Status::INVALID_HANDLE_LIST)?)))
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Gives `handles` empty units.
    pub(crate) fn update(
        &mut self,
        handles: &[u16],
        now: SimTime,
        drive: &mut dyn Simulated,
    ) -> Result<(), Status> {
        for &handle in handles {
            let units = units(drive)?;
            let is_begun =
                units.sectors_left.get(usize::from(handle)).is_some_and(|&left| left < units.unit_sectors);
            let begun = drive.begin_unit(now, handle);
            begun.map_err(|error| Status::of(&error))?;
            if is_begun {
                let at = (handle / units.handles(), handle % units.handles());
                self.happened(Event::NotFull, at, identifier_of(&units, handle), now);
            }
        }
        Ok(())
    }
}

fn bit_of(event: Event) -> u8 {
    1 << Event::ALL.iter().position(|&known| known == event).unwrap_or(0)
}

/// Reclaim unit handle status: for each handle in each group, its identifier and the sectors left in its unit.
fn status(units: &ReclaimUnits) -> Vec<u8> {
    let mut page = Page::new(16 + 32 * units.sectors_left.len());
    page.put(14, &(units.sectors_left.len() as u16).to_le_bytes());
    for (number, left) in (0_u16..).zip(&units.sectors_left) {
        let at = 16 + 32 * usize::from(number);
        // No time limit of the unit.
        page.put(at, &identifier_of(units, number).to_le_bytes())
            .put(at + 2, &(number % units.handles()).to_le_bytes())
            .put(at + 8, &left.to_le_bytes());
    }
    page.0
}

/// The only configuration.
fn configurations(units: &ReclaimUnits, options: &Options) -> Vec<u8> {
    const HEADER: usize = 16;
    let handles = usize::from(units.handles());
    let bytes = (64 + 4 * handles).next_multiple_of(8);
    let mut page = Page::new(HEADER + bytes);
    page.put(4, &((HEADER + bytes) as u32).to_le_bytes());
    page.put(HEADER, &(bytes as u16).to_le_bytes());
    // Valid; whether there is a volatile write cache; bits of an identifier for the reclaim group.
    page.put(HEADER + 2, &[0x80 | u8::from(options.write_cache) << 4 | group_bits(units) as u8]);
    page.put(HEADER + 4, &u32::from(units.groups).to_le_bytes());
    page.put(HEADER + 8, &(handles as u16).to_le_bytes());
    // Counted from 0.
    page.put(HEADER + 10, &(units.sectors_left.len() as u16 - 1).to_le_bytes());
    page.put(HEADER + 12, &1_u32.to_le_bytes());
    page.put(HEADER + 16, &(units.unit_sectors * SECTOR_BYTES).to_le_bytes());
    let isolation = match units.isolation {
        Isolation::Initial => 1,
        Isolation::Persistent => 2,
    };
    for handle in 0..handles {
        page.put(HEADER + 64 + 4 * handle, &[isolation]);
    }
    page.0
}

/// Use of the handles: the namespace has all of them.
fn usage(units: &ReclaimUnits) -> Vec<u8> {
    let handles = usize::from(units.handles());
    let mut page = Page::new(8 + 8 * handles);
    page.put(0, &(handles as u16).to_le_bytes());
    for handle in 0..handles {
        page.put(8 + 8 * handle, &[1]);
    }
    page.0
}

/// Bytes that the host wrote, bytes programmed and bytes erased.
fn counters(drive: &dyn Simulated) -> [u64; 3] {
    let (stats, geometry) = (drive.stats(), drive.geometry());
    let (page, block) = (u64::from(geometry.page_bytes()), u64::from(geometry.pages_per_block()));
    let programmed = stats.nand.total(NandOp::Program) * page;
    let written = stats.host.bytes(CommandKind::Write) + stats.host.bytes(CommandKind::Copy);
    [written, programmed, stats.nand.total(NandOp::Erase) * page * block]
}

fn statistics(drive: &dyn Simulated) -> Vec<u8> {
    let mut page = Page::new(64);
    for (at, counter) in (0..).zip(counters(drive)) {
        page.put(16 * at, &counter.to_le_bytes());
    }
    page.0
}

/// Endurance group information, in units of 10⁹ bytes. No estimate of the endurance is reported.
fn endurance(drive: &dyn Simulated) -> Vec<u8> {
    const UNIT: u64 = 1_000_000_000;
    let host = drive.stats().host;
    let [written, programmed, _] = counters(drive);
    let mut page = Page::new(512);
    page.put(3, &[100, 10]);
    let changes =
        [CommandKind::Write, CommandKind::WriteZeroes, CommandKind::Copy].map(|kind| host.commands(kind));
    let numbers = [
        (48, host.bytes(CommandKind::Read).div_ceil(UNIT)),
        (64, written.div_ceil(UNIT)),
        (80, programmed.div_ceil(UNIT)),
        (96, host.commands(CommandKind::Read)),
        (112, changes.iter().sum()),
        (160, drive.sectors() * SECTOR_BYTES),
    ];
    for (at, number) in numbers {
        page.put(at, &number.to_le_bytes());
    }
    page.0
}

/// Directives: Identify, and data placement, which is enabled and stays so.
pub(crate) fn directives(entry: &Entry, drive: &dyn Simulated) -> Result<Vec<u8>, Status> {
    // Return Parameters of the Identify directive.
    if !has_handles(drive) || entry.dword(11) & 0xffff != 0x0001 {
        return Err(Status::INVALID_FIELD);
    }
    let bytes = 4 * (u64::from(entry.dword(10)) + 1);
    let mut page = Page::new(PAGE_BYTES);
    page.put(0, &[0b101]).put(32, &[0b101]).put(64, &[0b100]);
    page.0.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(page.0)
}
