//! The drive as a virtio block device: its configuration space, and its requests as commands of the drive.
//!
//! Beside the requests of the standard (virtio 1.2, section 5.2) there are two of our own, which the kernel patches of this
//! project use: copy ranges within the device, and write metadata of a file system. A write may say, too, how long its data
//! is expected to live, which is its placement handle.

use std::collections::BTreeMap;
use std::io::Read;

use strobe_ssd::{Command, CommandError, CommandKind, DataTag, Hint, Range};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use crate::attached::{Attached, DiskOptions};
use crate::port::Device;
use crate::ring::{Chain, Returned};

/// Feature bits.
mod feature {
    pub(super) const SEG_MAX: u64 = 1 << 2;
    pub(super) const BLK_SIZE: u64 = 1 << 6;
    pub(super) const FLUSH: u64 = 1 << 9;
    pub(super) const TOPOLOGY: u64 = 1 << 10;
    pub(super) const CONFIG_WCE: u64 = 1 << 11;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const WRITE_ZEROES: u64 = 1 << 14;
    pub(super) const RING_INDIRECT_DESC: u64 = 1 << 28;
    pub(super) const RING_EVENT_IDX: u64 = 1 << 29;
    pub(super) const VERSION_1: u64 = 1 << 32;
    /// Ours: copies within the device.
    pub(super) const COPY: u64 = 1 << 60;
    /// Ours: writes that say that they are metadata.
    pub(super) const META: u64 = 1 << 61;
    /// Ours: writes that say how long their data is expected to live.
    pub(super) const LIFE: u64 = 1 << 62;
}

/// Requests.
mod kind {
    pub(super) const IN: u32 = 0;
    pub(super) const OUT: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
    /// Ours.
    pub(super) const COPY: u32 = 0x5343_0001;
    /// Ours: [`OUT`] of metadata.
    pub(super) const OUT_META: u32 = 0x5343_0003;
}

/// Status of a completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    IoError = 1,
    Unsupported = 2,
}

/// Descriptors of one request, header and status aside: what a ring of 256 has room for.
const SEG_MAX: u32 = 254;
/// Entries of a copy, at 24 bytes each.
const COPIES_MAX: usize = 128;
/// Sectors of all ranges of a discard. The kernel counts a request's bytes in 32 bits.
const DISCARD_SECTORS_MAX: u32 = (2 << 30) / SECTOR_BYTES as u32;
/// Offset of the byte in the configuration space that turns the write cache on and off.
const WCE_OFFSET: u32 = 32;

/// Guest buffers for the answer to a request.
struct Room {
    ring: usize,
    /// The request's name in the ring.
    head: u16,
    /// Guest buffers for data; their last byte is for the status.
    segments: Vec<(GuestAddress, usize)>,
}

/// A drive as a virtio block device.
pub(crate) struct Block {
    pub(crate) drive: Attached,
    options: DiskOptions,
    write_cache: bool,
    features: u64,
    /// Placement handles of the drive.
    handles: u16,
    /// Buffers for the answers to outstanding requests, by tag.
    rooms: BTreeMap<u64, Room>,
    data: Vec<u8>,
}

impl Block {
    pub(crate) fn new(drive: Attached, options: DiskOptions) -> Self {
        let (write_cache, handles) = (options.write_cache, drive.handles());
        Self { drive, write_cache, options, features: 0, handles, rooms: BTreeMap::new(), data: Vec::new() }
    }

    /// A guest that cannot flush has no use for a cache that must be flushed.
    fn switch_cache(&mut self, is_on: bool) {
        self.write_cache = is_on;
        let waits = !self.is_forced();
        self.drive.target.drive_mut().set_write_cache(waits);
    }

    /// True if writes must be durable when they complete.
    fn is_forced(&self) -> bool {
        !self.write_cache || self.features & feature::FLUSH == 0
    }

    /// Turns a request into commands of the drive, or answers it.
    fn ask(&mut self, now: SimTime, tag: u64, Asked { kind, life, lba, data, room }: Asked<'_>) {
        let range = |bytes: usize| {
            // More than the drive has is refused by the drive.
            Range::new(lba, u32::try_from(bytes as u64 / SECTOR_BYTES).unwrap_or(u32::MAX))
        };
        match kind {
            kind::IN if !(room as u64).is_multiple_of(SECTOR_BYTES) => {
                let error =
                    CommandError::Length { op: CommandKind::Read, lba: lba.get(), bytes: room as u64 };
                self.drive.answer(now, tag, Err(error));
            }
            kind::IN => self.drive.send(now, tag, &[Command::Read { range: range(room) }], None),
            kind::OUT | kind::OUT_META => {
                let hint = if kind == kind::OUT { Hint::None } else { Hint::Metadata };
                let tag_of_data = DataTag { hint, handle: self.handle_of(life) };
                let write =
                    Command::Write { range: range(data.len()), fua: self.is_forced(), tag: tag_of_data };
                self.drive.send(now, tag, &[write], Some(data));
            }
            kind::FLUSH => self.drive.send(now, tag, &[Command::Flush], None),
            kind::DISCARD => {
                let segments = data.chunks(Segment::BYTES).map(Segment::parse);
                let ranges: Option<Vec<Range>> = segments.map(|segment| segment?.plain()).collect();
                match ranges {
                    None => self.drive.answer(now, tag, Err(CommandError::Unsupported)),
                    Some(ranges) if ranges.len() > self.options.discard_segments as usize => {
                        let error = CommandError::Ranges { op: CommandKind::Trim, ranges: ranges.len() };
                        self.drive.answer(now, tag, Err(error));
                    }
                    Some(ranges) => self.drive.send(now, tag, &[Command::Deallocate(&ranges)], None),
                }
            }
            kind::WRITE_ZEROES => match Segment::parse(data) {
                // Flag 0: the blocks may be unmapped.
                Some(Segment { range, flags: flags @ 0..=1 }) => {
                    self.drive.send(
                        now,
                        tag,
                        &[Command::WriteZeroes { range, deallocate: flags == 1 }],
                        None,
                    );
                }
                _ => self.drive.answer(now, tag, Err(CommandError::Unsupported)),
            },
            kind::COPY if self.options.copy => self.copy(now, tag, data),
            kind::GET_ID => {
                let mut serial = b"strobe".to_vec();
                serial.resize(room, 0);
                self.drive.answer(now, tag, Ok(serial));
            }
            _ => self.drive.answer(now, tag, Err(CommandError::Unsupported)),
        }
    }

    /// The placement handle of data of this expected lifetime: the lifetimes in order, the last handle taking the rest.
    fn handle_of(&self, life: u16) -> u16 {
        if self.features & feature::LIFE == 0 { 0 } else { life.min(self.handles - 1) }
    }

    fn copy(&mut self, now: SimTime, tag: u64, data: &[u8]) {
        let count = data.len().div_ceil(CopyEntry::BYTES);
        if count == 0 || count > COPIES_MAX {
            let error = CommandError::Ranges { op: CommandKind::Copy, ranges: count };
            return self.drive.answer(now, tag, Err(error));
        }
        let entries: Option<Vec<_>> = data.chunks(CopyEntry::BYTES).map(CopyEntry::parse).collect();
        let Some(entries) = entries else {
            return self.drive.answer(now, tag, Err(CommandError::Unsupported));
        };
        let sources: Vec<Range> = entries.iter().map(|entry| entry.source).collect();
        // What goes to one place after the other is one command of the drive.
        let mut commands = Vec::new();
        let mut first = 0;
        for at in 1..=entries.len() {
            let end = |entry: &CopyEntry| entry.to.saturating_add(entry.source.sectors.into());
            if entries.get(at).is_some_and(|next| next.to == end(&entries[at - 1])) {
                continue;
            }
            let destination = Lba::new(entries[first].to);
            commands.push(Command::Copy { destination, sources: &sources[first..at] });
            first = at;
        }
        self.drive.send(now, tag, &commands, None);
    }
}

impl Device for Block {
    fn rings(&self) -> usize {
        1
    }

    fn offered_features(&self) -> u64 {
        let mut features = feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::FLUSH
            | feature::TOPOLOGY
            | feature::CONFIG_WCE
            | feature::WRITE_ZEROES
            | feature::RING_INDIRECT_DESC
            | feature::RING_EVENT_IDX
            | feature::VERSION_1
            | feature::META;
        if self.options.discard_segments > 0 {
            features |= feature::DISCARD;
        }
        if self.options.copy {
            features |= feature::COPY;
        }
        if self.handles > 1 {
            features |= feature::LIFE;
        }
        features
    }

    fn set_features(&mut self, features: u64) {
        self.features = features;
        self.switch_cache(self.write_cache);
    }

    fn uses_event_index(&self) -> bool {
        self.features & feature::RING_EVENT_IDX != 0
    }

    /// The configuration space (`struct virtio_blk_config`).
    fn config_space(&self) -> Vec<u8> {
        let unit_sectors = self.drive.target.drive().geometry().sectors_per_unit();
        let limits = self.drive.target.drive().limits();
        let within = |limit: u64, most: u32| match limit {
            0 => most,
            limit => u32::try_from(limit).map_or(most, |limit| limit.min(most)),
        };
        let mut space = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.drive.target.drive().sectors().to_le_bytes());
        put(12, &SEG_MAX.to_le_bytes());
        put(20, &(SECTOR_BYTES as u32).to_le_bytes());
        put(24, &[unit_sectors.trailing_zeros() as u8]);
        put(26, &(unit_sectors as u16).to_le_bytes());
        put(WCE_OFFSET as usize, &[u8::from(self.write_cache)]);
        // One limit serves for a range and for all: that of a range, as a request of one range has both.
        let sectors = within(limits.trim_sectors, DISCARD_SECTORS_MAX);
        put(36, &within(limits.trim_range_sectors.into(), sectors).to_le_bytes());
        put(40, &within(limits.trim_ranges.into(), self.options.discard_segments).to_le_bytes());
        put(44, &unit_sectors.to_le_bytes());
        put(48, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
        space.to_vec()
    }

    /// The guest writes to the configuration space: to what can be written, the write cache's switch.
    fn set_config(&mut self, offset: u32, bytes: &[u8]) {
        if let (WCE_OFFSET, [cache]) = (offset, bytes) {
            self.switch_cache(*cache != 0);
        }
    }

    fn take(
        &mut self,
        ring: usize,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
    ) -> Result<(), String> {
        let broken = |what: &str| format!("a request of the guest {what}");
        let mut input = chain.clone().reader(memory).map_err(|_| broken("names memory it does not have"))?;
        let output = chain.clone().writer(memory).map_err(|_| broken("names memory it does not have"))?;
        let mut header = [0; 16];
        input.read_exact(&mut header).map_err(|_| broken("has no header"))?;
        let room = output.available_bytes().checked_sub(1).ok_or_else(|| broken("has no status"))?;
        // Descriptors may name the same memory many times.
        let memory_bytes = memory.iter().fold(0, |sum: u64, region| sum.saturating_add(region.len()));
        if room.max(input.available_bytes()) as u64 > memory_bytes {
            return Err(broken("has more data than its memory"));
        }
        // The priority, of which only the lower half is one, is not used.
        let [k0, k1, k2, k3, _, _, l0, l1, sector @ ..] = header;
        let life = u16::from_le_bytes([l0, l1]);
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let lba = Lba::new(u64::from_le_bytes(sector));
        let (mut room_for_data, bytes) = (std::mem::take(&mut self.data), input.available_bytes());
        // Kept from request to request, as filling it with zeros first takes longer than what follows.
        if room_for_data.len() < bytes {
            room_for_data.resize(bytes, 0);
        }
        let data = &mut room_for_data[..bytes];
        input.read_exact(data).map_err(|_| broken("has less data than it says"))?;

        let tag = self.drive.new_tag();
        let head = chain.head_index();
        let segments = chain.writable().map(|part| (part.addr(), part.len() as usize)).collect();
        self.rooms.insert(tag, Room { ring, head, segments });
        self.ask(self.drive.time(guest_ns), tag, Asked { kind, life, lba, data, room });
        self.data = room_for_data;
        Ok(())
    }

    fn next_event(&self) -> Option<u64> {
        self.drive.next_event()
    }

    /// Writes completions due by then to the guest's memory, in order. Before the guest's driver has set up a
    /// ring, completions of older work are dropped: their ring is gone.
    fn advance(&mut self, guest_ns: u64, memory: Option<&GuestMemoryMmap>) -> Result<Vec<Returned>, String> {
        let returned = self.drive.advance(guest_ns).into_iter().filter_map(|answer| {
            let room = self.rooms.remove(&answer.tag)?;
            Some(give(&room, memory?, answer.result))
        });
        returned.collect()
    }
}

/// A request as it lies in the guest's memory.
struct Asked<'a> {
    kind: u32,
    /// Expected lifetime of written data, as of fcntl(2).
    life: u16,
    lba: Lba,
    data: &'a [u8],
    /// Bytes that the guest expects.
    room: usize,
}

/// Writes the answer to a request to where the guest expects it.
fn give(
    room: &Room,
    memory: &GuestMemoryMmap,
    result: Result<Vec<u8>, CommandError>,
) -> Result<Returned, String> {
    let (data, status) = match result {
        Ok(data) => (data, Status::Ok),
        Err(CommandError::Unsupported) => (Vec::new(), Status::Unsupported),
        Err(_) => (Vec::new(), Status::IoError),
    };
    let written = data.len() as u32 + 1;
    let end: usize = room.segments.iter().map(|(_, bytes)| bytes).sum();
    // The status is the last byte of the room; what lies between it and the data stays as it is.
    let mut at = 0;
    for &(address, bytes) in &room.segments {
        let part = data.len().saturating_sub(at).min(bytes);
        let put = |bytes: &[u8], address| {
            memory.write_slice(bytes, address).map_err(|error| format!("the guest's memory: {error}"))
        };
        put(&data[at.min(data.len())..][..part], address)?;
        at += bytes;
        if at == end && bytes > 0 {
            put(&[status as u8], GuestAddress(address.0 + bytes as u64 - 1))?;
        }
    }
    Ok(Returned { ring: room.ring, head: room.head, written })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A range of a discard or of write zeroes.
struct Segment {
    range: Range,
    flags: u32,
}

impl Segment {
    const BYTES: usize = 16;

    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::BYTES {
            return None;
        }
        let range = Range::new(Lba::new(u64_at(bytes, 0)?), u32_at(bytes, 8)?);
        Some(Self { range, flags: u32_at(bytes, 12)? })
    }

    /// The range, if it has no flags.
    fn plain(self) -> Option<Range> {
        (self.flags == 0).then_some(self.range)
    }
}

/// An entry of a copy.
struct CopyEntry {
    source: Range,
    to: u64,
}

impl CopyEntry {
    const BYTES: usize = 24;

    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::BYTES || u32_at(bytes, 20)? != 0 {
            return None;
        }
        let source = Range::new(Lba::new(u64_at(bytes, 0)?), u32_at(bytes, 16)?);
        Some(Self { source, to: u64_at(bytes, 8)? })
    }
}
