//! Flexible Data Placement (FDP, NVMe TP4146) on a drive with placement handles: log pages, events and commands
//! on reclaim units.
//!
//! The drive has one endurance group with one configuration. The top bits of a placement identifier (RGIF
//! bits) are the reclaim group. The bits below are the namespace's placement handle, which equals the reclaim
//! unit handle. With one reclaim group, the identifier is the handle. The drive numbers handle h of group g
//! as g × handles + h.

use std::collections::VecDeque;

use strobe_nand::NandOp;
use strobe_ssd::{CommandKind, Isolation, ReclaimUnits, Simulated};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::entry::{Entry, Status};
use crate::options::Options;
use crate::pages::{DATA_BYTES_MAX, ENDURANCE_GROUP, NAMESPACE, PAGE_BYTES, Page, has_handles};

const DIRECTIVE: u32 = 2;
const EVENT_BYTES: usize = 64;
/// Capacity of the event log. The oldest events are dropped first.
const EVENTS_MAX: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A handle moved to a new reclaim unit before the old one was full.
    NotFull = 0x00,
    /// A write named an unknown placement identifier.
    InvalidIdentifier = 0x03,
}

impl Event {
    const ALL: [Self; 2] = [Self::NotFull, Self::InvalidIdentifier];
}

#[derive(Default)]
pub(crate) struct Placement {
    /// Enabled events by handle, a bit for each of [`Event::ALL`].
    wanted: Vec<u8>,
    log: VecDeque<[u8; EVENT_BYTES]>,
}

pub(crate) enum Managed {
    Nothing,
    /// Reclaim unit handle status for the host.
    Status(Vec<u8>),
    Update(Vec<u16>),
}

fn group_bits(units: &ReclaimUnits) -> u32 {
    u16::BITS - (units.groups - 1).leading_zeros()
}

fn identifier_of(units: &ReclaimUnits, at: u16) -> u16 {
    let (group, handle) = (at / units.handles(), at % units.handles());
    group.checked_shl(u16::BITS - group_bits(units)).unwrap_or(0) | handle
}

fn unit_of(units: &ReclaimUnits, identifier: u16) -> Option<u16> {
    (0..units.sectors_left.len() as u16).find(|&at| identifier_of(units, at) == identifier)
}

fn units(drive: &dyn Simulated) -> Result<ReclaimUnits, Status> {
    drive.reclaim_units().ok_or(Status::FDP_DISABLED)
}

pub(crate) fn input_bytes(entry: &Entry) -> usize {
    if entry.opcode() == 0x1d && entry.dword(10) as u8 == 1 {
        2 * ((entry.dword(10) >> 16) as usize + 1)
    } else {
        0
    }
}

impl Placement {
    /// Returns the handle number in a write's directive, or 0 without a directive.
    ///
    /// An unknown placement identifier selects handle 0, and is logged if the event is enabled.
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
        // Without FDP, the directive is not enabled, and naming it is an invalid field.
        let units = units(drive).map_err(|_| Status::INVALID_FIELD)?;
        let identifier = (entry.dword(13) >> 16) as u16;
        if let Some(unit) = unit_of(&units, identifier) {
            return Ok(unit);
        }
        self.happened(Event::InvalidIdentifier, (0, 0), identifier, now);
        Ok(0)
    }

    fn happened(&mut self, event: Event, (group, handle): (u16, u16), identifier: u16, now: SimTime) {
        // Only events that the host has enabled for the handle are logged.
        let wanted = self.wanted.get(usize::from(handle)).copied().unwrap_or(0);
        if wanted & bit_of(event) == 0 {
            return;
        }
        let mut bytes = [0; EVENT_BYTES];
        // Valid fields: identifier, namespace and, for [`Event::NotFull`], the location.
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

    pub(crate) fn events_bytes(entry: &Entry) -> usize {
        (entry.dword(11) >> 16 & 0xff) as usize
    }

    /// Sets the feature "FDP events" of a handle.
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

    /// Returns the event types of a handle with their enabled flags, and their number.
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
            // Host events if the bit is set, else controller events, of which none are reported.
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

    /// Decodes I/O Management Receive and Send. Returns `None` for other commands.
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
            // Receive: status of the reclaim unit handles.
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
            // Send: update of reclaim unit handles.
            (0x1d, 1) => {
                let identifiers = list.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
                let numbers: Option<Vec<u16>> = identifiers.map(|named| unit_of(&units, named)).collect();
                let numbers = numbers.filter(|numbers| numbers.len() <= units.sectors_left.len());
                Ok(Some(Managed::Update(numbers.ok_or(Status::INVALID_HANDLE_LIST)?)))
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    pub(crate) fn update(
        &mut self,
        handles: &[u16],
        now: SimTime,
        drive: &mut dyn Simulated,
    ) -> Result<(), Status> {
        for &handle in handles {
            // A handle that leaves a partly written reclaim unit is an event. Leaving an empty unit is none.
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

/// Identifier and sectors left of each handle in each group.
fn status(units: &ReclaimUnits) -> Vec<u8> {
    let mut page = Page::new(16 + 32 * units.sectors_left.len());
    page.put(14, &(units.sectors_left.len() as u16).to_le_bytes());
    for (number, left) in (0_u16..).zip(&units.sectors_left) {
        let at = 16 + 32 * usize::from(number);
        // Reclaim units have no time limit.
        page.put(at, &identifier_of(units, number).to_le_bytes())
            .put(at + 2, &(number % units.handles()).to_le_bytes())
            .put(at + 8, &left.to_le_bytes());
    }
    page.0
}

fn configurations(units: &ReclaimUnits, options: &Options) -> Vec<u8> {
    const HEADER: usize = 16;
    let handles = usize::from(units.handles());
    let bytes = (64 + 4 * handles).next_multiple_of(8);
    let mut page = Page::new(HEADER + bytes);
    page.put(4, &((HEADER + bytes) as u32).to_le_bytes());
    page.put(HEADER, &(bytes as u16).to_le_bytes());
    // Flags: configuration valid, volatile write cache, number of reclaim group bits.
    page.put(HEADER + 2, &[0x80 | u8::from(options.write_cache) << 4 | group_bits(units) as u8]);
    page.put(HEADER + 4, &u32::from(units.groups).to_le_bytes());
    page.put(HEADER + 8, &(handles as u16).to_le_bytes());
    // Maximum placement identifiers, zero-based.
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

/// Returns the handle usage page: the namespace has all handles.
fn usage(units: &ReclaimUnits) -> Vec<u8> {
    let handles = usize::from(units.handles());
    let mut page = Page::new(8 + 8 * handles);
    page.put(0, &(handles as u16).to_le_bytes());
    for handle in 0..handles {
        page.put(8 + 8 * handle, &[1]);
    }
    page.0
}

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

/// Endurance group log. Data units are 10⁹ bytes. No endurance estimate is reported.
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

/// Returns the Identify directive's parameters. Data placement is always enabled.
pub(crate) fn directives(entry: &Entry, drive: &dyn Simulated) -> Result<Vec<u8>, Status> {
    // Only Return Parameters of the Identify directive is supported.
    if !has_handles(drive) || entry.dword(11) & 0xffff != 0x0001 {
        return Err(Status::INVALID_FIELD);
    }
    let bytes = 4 * (u64::from(entry.dword(10)) + 1);
    let mut page = Page::new(PAGE_BYTES);
    page.put(0, &[0b101]).put(32, &[0b101]).put(64, &[0b100]);
    page.0.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(page.0)
}
