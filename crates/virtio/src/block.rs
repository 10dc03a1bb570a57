//! A virtio block device: configuration space, and decoding of requests into drive commands.
//!
//! The project's kernel patches add two requests to the standard ones (virtio 1.2, section 5.2): copies
//! within the device, and writes of file system metadata. A write may also give the expected lifetime of its
//! data, which selects the placement handle.

use std::collections::BTreeMap;

use strobe_ssd::{Command, CommandError, CommandKind, DataTag, Hint, Range, Simulated};
use strobe_types::{Lba, SECTOR_BYTES};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::parts::{HEADER_BYTES, PARTS_MAX, Parts};
use crate::ring::{Chain, Returned};

mod feature {
    pub(super) const SEG_MAX: u64 = 1 << 2;
    pub(super) const RO: u64 = 1 << 5;
    pub(super) const BLK_SIZE: u64 = 1 << 6;
    pub(super) const FLUSH: u64 = 1 << 9;
    pub(super) const TOPOLOGY: u64 = 1 << 10;
    pub(super) const CONFIG_WCE: u64 = 1 << 11;
    pub(super) const MQ: u64 = 1 << 12;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const WRITE_ZEROES: u64 = 1 << 14;
    pub(super) const RING_INDIRECT_DESC: u64 = 1 << 28;
    pub(super) const RING_EVENT_IDX: u64 = 1 << 29;
    pub(super) const VERSION_1: u64 = 1 << 32;
    /// Extension: copies within the device.
    pub(super) const COPY: u64 = 1 << 60;
    /// Extension: writes marked as metadata.
    pub(super) const META: u64 = 1 << 61;
    /// Extension: writes with an expected lifetime.
    pub(super) const LIFE: u64 = 1 << 62;
}

mod kind {
    pub(super) const IN: u32 = 0;
    pub(super) const OUT: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
    /// Extension: copy within the device.
    pub(super) const COPY: u32 = 0x5343_0001;
    /// Extension: [`OUT`] of metadata.
    pub(super) const OUT_META: u32 = 0x5343_0003;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    IoError = 1,
    Unsupported = 2,
}

/// Maximum data descriptors of a request, without header and status.
const SEG_MAX: u32 = PARTS_MAX as u32 - 2;
/// Maximum entries of a copy, 24 bytes each.
const COPIES_MAX: usize = 128;
/// Maximum sectors of a discard: 2 GiB, as the kernel counts a request's bytes in 32 bits.
const DISCARD_SECTORS_MAX: u32 = (2 << 30) / SECTOR_BYTES as u32;
const WCE_OFFSET: u32 = 32;

/// In-flight request, with the guest buffers for its answer.
#[derive(Debug)]
struct InFlight {
    ring: usize,
    head: u16,
    /// Buffers for data and status. The status is their last byte.
    segments: Vec<(GuestAddress, usize)>,
    owed: usize,
}

/// Interface to the drive. Requests are submitted at the current time.
pub trait Host {
    /// Submits the request `tag`: `commands` of one kind, submitted together, with the `data` of a write.
    fn send(&mut self, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>);
    /// Completes the request `tag` without the drive.
    fn answer(&mut self, tag: u64, result: Result<Vec<u8>, CommandError>);
}

/// Properties of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Number of rings, default 1.
    pub rings: u16,
    /// Maximum ranges of one discard, 1 to 256, default 64. 0 disables discard. The drive may have a lower
    /// limit.
    pub discard_segments: u32,
    /// True to offer Copy within the device. Only patched kernels use it.
    pub copy: bool,
    /// True to offer metadata and lifetime hints of writes. Only patched kernels use them.
    pub hints: bool,
    /// True to enable the volatile write cache, the default. The guest can change this.
    pub write_cache: bool,
    /// True to refuse requests that change data.
    pub read_only: bool,
    /// Maximum data bytes of a request, unlimited by default. Larger requests fail.
    pub bytes_max: usize,
    /// Placement handles of the drive, default 1.
    pub handles: u16,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            rings: 1,
            discard_segments: 64,
            copy: false,
            hints: false,
            write_cache: true,
            read_only: false,
            bytes_max: usize::MAX,
            handles: 1,
        }
    }
}

/// A virtio block device.
#[derive(Debug)]
pub struct Block {
    options: BlockOptions,
    write_cache: bool,
    features: u64,
    /// Buffers of in-flight requests, by tag.
    in_flight: BTreeMap<u64, InFlight>,
    owed: usize,
    data: Vec<u8>,
}

impl Block {
    /// Creates a device before its driver starts.
    pub fn new(options: BlockOptions) -> Self {
        let write_cache = options.write_cache;
        Self { options, write_cache, features: 0, in_flight: BTreeMap::new(), owed: 0, data: Vec::new() }
    }

    /// True if writes must be durable on completion: the write cache is off, or the guest cannot flush.
    pub fn is_forced(&self) -> bool {
        !self.write_cache || self.features & feature::FLUSH == 0
    }

    /// Number of in-flight requests.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Data bytes of in-flight requests, in both directions.
    pub fn owed_bytes(&self) -> usize {
        self.owed
    }

    /// True if an in-flight request has this tag.
    pub fn is_used(&self, tag: u64) -> bool {
        self.in_flight.contains_key(&tag)
    }

    fn ask(&self, host: &mut dyn Host, tag: u64, Asked { kind, life, lba, data, capacity }: Asked<'_>) {
        let range = |bytes: usize| {
            // A size above 32 bits saturates: the drive refuses a range beyond its end.
            Range::new(lba, u32::try_from(bytes as u64 / SECTOR_BYTES).unwrap_or(u32::MAX))
        };
        match kind {
            kind::OUT | kind::OUT_META | kind::DISCARD | kind::WRITE_ZEROES | kind::COPY
                if self.options.read_only =>
            {
                // The standard requires an I/O error from a read-only device, not "unsupported".
                host.answer(tag, Err(CommandError::Medium("the device is read-only".to_owned())));
            }
            kind::IN if !(capacity as u64).is_multiple_of(SECTOR_BYTES) => {
                let error =
                    CommandError::Length { op: CommandKind::Read, lba: lba.get(), bytes: capacity as u64 };
                host.answer(tag, Err(error));
            }
            kind::IN => host.send(tag, &[Command::Read { range: range(capacity) }], None),
            kind::OUT | kind::OUT_META => {
                let hint = if kind == kind::OUT { Hint::None } else { Hint::Metadata };
                let tag_of_data = DataTag { hint, handle: self.handle_of(life) };
                let write =
                    Command::Write { range: range(data.len()), fua: self.is_forced(), tag: tag_of_data };
                host.send(tag, &[write], Some(data));
            }
            kind::FLUSH => host.send(tag, &[Command::Flush], None),
            kind::DISCARD => {
                let segments = data.chunks(Segment::BYTES).map(Segment::parse);
                let ranges: Option<Vec<Range>> = segments.map(|segment| segment?.plain()).collect();
                match ranges {
                    None => host.answer(tag, Err(CommandError::Unsupported)),
                    Some(ranges) if ranges.len() > self.options.discard_segments as usize => {
                        let error = CommandError::Ranges { op: CommandKind::Trim, ranges: ranges.len() };
                        host.answer(tag, Err(error));
                    }
                    Some(ranges) => host.send(tag, &[Command::Deallocate(&ranges)], None),
                }
            }
            kind::WRITE_ZEROES => match Segment::parse(data) {
                // Bit 0 of the flags allows deallocation.
                Some(Segment { range, flags: flags @ 0..=1 }) => {
                    host.send(tag, &[Command::WriteZeroes { range, deallocate: flags == 1 }], None);
                }
                _ => host.answer(tag, Err(CommandError::Unsupported)),
            },
            kind::COPY if self.options.copy => copy(host, tag, data),
            kind::GET_ID => {
                let mut serial = b"strobe".to_vec();
                serial.resize(capacity, 0);
                host.answer(tag, Ok(serial));
            }
            _ => host.answer(tag, Err(CommandError::Unsupported)),
        }
    }

    /// Returns the placement handle of an expected lifetime. The last handle also takes all longer lifetimes.
    fn handle_of(&self, life: u16) -> u16 {
        if self.features & feature::LIFE == 0 { 0 } else { life.min(self.options.handles - 1) }
    }
    /// Offered feature bits.
    pub fn offered_features(&self) -> u64 {
        let options = &self.options;
        let writes = !options.read_only;
        let always = feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::FLUSH
            | feature::TOPOLOGY
            | feature::CONFIG_WCE
            | feature::RING_INDIRECT_DESC
            | feature::RING_EVENT_IDX
            | feature::VERSION_1;
        [
            (options.read_only, feature::RO),
            (options.rings > 1, feature::MQ),
            (writes, feature::WRITE_ZEROES),
            (writes && options.discard_segments > 0, feature::DISCARD),
            (writes && options.copy, feature::COPY),
            (options.hints, feature::META),
            (options.hints && options.handles > 1, feature::LIFE),
        ]
        .into_iter()
        .filter(|(is_offered, _)| *is_offered)
        .fold(always, |features, (_, feature)| features | feature)
    }

    /// Sets the feature bits negotiated by the guest.
    pub fn set_features(&mut self, features: u64) {
        self.features = features;
    }

    /// True if notifications are suppressed by event indexes.
    pub fn uses_event_index(&self) -> bool {
        self.features & feature::RING_EVENT_IDX != 0
    }

    /// Returns the configuration space for `drive` (`struct virtio_blk_config`).
    pub fn config_space(&self, drive: &dyn Simulated) -> Vec<u8> {
        let (unit_sectors, limits) = (drive.geometry().sectors_per_unit(), drive.limits());
        let within = |limit: u64, most: u32| match limit {
            0 => most,
            limit => u32::try_from(limit).map_or(most, |limit| limit.min(most)),
        };
        let mut space = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &drive.sectors().to_le_bytes());
        put(12, &SEG_MAX.to_le_bytes());
        put(20, &(SECTOR_BYTES as u32).to_le_bytes());
        put(24, &[unit_sectors.trailing_zeros() as u8]);
        put(26, &(unit_sectors as u16).to_le_bytes());
        put(WCE_OFFSET as usize, &[u8::from(self.write_cache)]);
        if self.options.rings > 1 {
            put(34, &self.options.rings.to_le_bytes());
        }
        // The configuration space has a limit per range but none for the sum of all ranges. Report the
        // smaller limit of the drive, so a request with one range is within both.
        let sectors = within(limits.trim_sectors, DISCARD_SECTORS_MAX);
        put(36, &within(limits.trim_range_sectors.into(), sectors).to_le_bytes());
        put(40, &within(limits.trim_ranges.into(), self.options.discard_segments).to_le_bytes());
        put(44, &unit_sectors.to_le_bytes());
        put(48, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
        space.to_vec()
    }

    /// True if the volatile write cache is enabled.
    pub fn has_write_cache(&self) -> bool {
        self.write_cache
    }

    /// Switches the write cache.
    pub fn set_write_cache(&mut self, is_on: bool) {
        self.write_cache = is_on;
    }

    /// Handles a write to the configuration space. Only the write cache switch is writable.
    pub fn set_config(&mut self, offset: u32, bytes: &[u8]) {
        if let (WCE_OFFSET, [cache]) = (offset, bytes) {
            self.write_cache = *cache != 0;
        }
    }

    /// Handles a request from `ring`, identified by `tag`. Returns an error if the guest violates the
    /// protocol.
    pub fn take(
        &mut self,
        ring: usize,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
        tag: u64,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let broken = |what: &str| format!("a request of the guest {what}");
        let head = chain.head_index();
        let parts = Parts::of(memory, chain).map_err(|what| broken(&what))?;
        // Reuse the buffer: zeroing a new one would dominate the cost of a request.
        let mut buffer = std::mem::take(&mut self.data);
        let (has_too_much, bytes) = (parts.data_bytes() > self.options.bytes_max, parts.readable_bytes());
        // A request above the limit is answered without its data: read only the header.
        let wanted = if has_too_much { HEADER_BYTES } else { bytes };
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        parts.read(memory, &mut buffer[..wanted]).map_err(|_| broken("has less data than announced"))?;
        let Some((header, data)) = buffer[..wanted].split_first_chunk::<HEADER_BYTES>() else {
            return Err(broken("has no header"));
        };
        // The upper half of the priority field is the expected lifetime. The priority is unused.
        let &[k0, k1, k2, k3, _, _, l0, l1, ref sector @ ..] = header;
        let asked = Asked {
            kind: u32::from_le_bytes([k0, k1, k2, k3]),
            life: u16::from_le_bytes([l0, l1]),
            lba: Lba::new(u64::from_le_bytes(*sector)),
            data,
            capacity: parts.writable_bytes() - 1,
        };
        let owed = if has_too_much { 0 } else { parts.data_bytes() };
        // Register the request before it reaches the host, which may complete it at once.
        self.owed += owed;
        self.in_flight.insert(tag, InFlight { ring, head, segments: parts.writable, owed });
        if has_too_much {
            let error = CommandError::Length {
                op: CommandKind::Write,
                lba: asked.lba.get(),
                bytes: (bytes + asked.capacity) as u64,
            };
            host.answer(tag, Err(error));
        } else {
            self.ask(host, tag, asked);
        }
        self.data = buffer;
        Ok(())
    }

    /// Writes the answer to the request `tag` into the guest's memory.
    ///
    /// `None` if the request is unknown, or if `memory` is `None` because the ring is gone.
    pub fn finish(
        &mut self,
        tag: u64,
        result: Result<Vec<u8>, CommandError>,
        memory: Option<&GuestMemoryMmap>,
    ) -> Option<Result<Returned, String>> {
        let in_flight = self.in_flight.remove(&tag)?;
        self.owed -= in_flight.owed;
        Some(give(&in_flight, memory?, result))
    }
}

fn copy(host: &mut dyn Host, tag: u64, data: &[u8]) {
    let count = data.len().div_ceil(CopyEntry::BYTES);
    if count == 0 || count > COPIES_MAX {
        let error = CommandError::Ranges { op: CommandKind::Copy, ranges: count };
        return host.answer(tag, Err(error));
    }
    let entries: Option<Vec<_>> = data.chunks(CopyEntry::BYTES).map(CopyEntry::parse).collect();
    let Some(entries) = entries else {
        return host.answer(tag, Err(CommandError::Unsupported));
    };
    let sources: Vec<Range> = entries.iter().map(|entry| entry.source).collect();
    // A drive command has one destination: entries whose destinations follow each other share a command.
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
    host.send(tag, &commands, None);
}

struct Asked<'a> {
    kind: u32,
    /// Expected lifetime of the written data, as in fcntl(2).
    life: u16,
    lba: Lba,
    data: &'a [u8],
    /// Bytes of data that the guest can receive.
    capacity: usize,
}

fn give(
    in_flight: &InFlight,
    memory: &GuestMemoryMmap,
    result: Result<Vec<u8>, CommandError>,
) -> Result<Returned, String> {
    let (data, status) = match result {
        Ok(data) => (data, Status::Ok),
        Err(CommandError::Unsupported) => (Vec::new(), Status::Unsupported),
        Err(_) => (Vec::new(), Status::IoError),
    };
    let written = data.len() as u32 + 1;
    let end: usize = in_flight.segments.iter().map(|(_, bytes)| bytes).sum();
    // The status goes into the last byte of the buffers. Bytes between data and status stay unchanged.
    let mut at = 0;
    for &(address, bytes) in &in_flight.segments {
        let part = data.len().saturating_sub(at).min(bytes);
        let put = |bytes: &[u8], address| {
            memory.write_slice(bytes, address).map_err(|error| format!("the guest's memory: {error}"))
        };
        put(&data[at.min(data.len())..][..part], address)?;
        at += bytes;
        if at == end && bytes > 0 {
            let last =
                address.0.checked_add(bytes as u64 - 1).ok_or("the guest's memory ends before the status")?;
            put(&[status as u8], GuestAddress(last))?;
        }
    }
    Ok(Returned { ring: in_flight.ring, head: in_flight.head, written })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

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

    fn plain(self) -> Option<Range> {
        (self.flags == 0).then_some(self.range)
    }
}

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
