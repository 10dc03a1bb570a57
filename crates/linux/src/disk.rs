//! The drive as a virtio block device: its configuration space, and its requests as commands of the drive.
//!
//! Beside the requests of the standard (virtio 1.2, section 5.2) there is one of our own, which the
//! kernel patches of this project use: copy ranges within the device.

use std::io::{Read, Write};
use std::ops::Deref;

use strobe_ssd::{Command, CommandError, Engine, Hint, Range};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};
use virtio_queue::DescriptorChain;
use vm_memory::{GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use crate::record::Recorder;

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
}

/// How a request ends.
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
/// Where the byte that turns the write cache on and off is in the configuration space.
const WCE_OFFSET: u32 = 32;

/// What the guest is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Ranges that one discard may have, 1 to 256; 0: no discard at all. The drive may take fewer.
    pub discard_segments: u32,
    /// Whether to offer copies within the device.
    pub copy: bool,
    /// Whether writes may wait in a volatile cache until the guest flushes. Otherwise each is durable
    /// when it completes. The guest can change its mind.
    pub write_cache: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { discard_segments: 64, copy: true, write_cache: true }
    }
}

/// What the guest has sent, by kind; those that were refused too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Requests {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// Ranges of all discards.
    pub discard_ranges: u64,
    /// Write-zeroes requests.
    pub write_zeroes: u64,
    /// Copy requests.
    pub copy: u64,
    /// Ranges of all copies.
    pub copy_ranges: u64,
    /// Others: the serial number, and what this disk does not know.
    pub other: u64,
    /// Refused or failed.
    pub failed: u64,
}

impl Requests {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.read + self.write + self.flush + self.discard + self.write_zeroes + self.copy + self.other
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read: self.read - earlier.read,
            write: self.write - earlier.write,
            flush: self.flush - earlier.flush,
            discard: self.discard - earlier.discard,
            discard_ranges: self.discard_ranges - earlier.discard_ranges,
            write_zeroes: self.write_zeroes - earlier.write_zeroes,
            copy: self.copy - earlier.copy,
            copy_ranges: self.copy_ranges - earlier.copy_ranges,
            other: self.other - earlier.other,
            failed: self.failed - earlier.failed,
        }
    }
}

/// A request that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// When it completes, by the drive's clock.
    pub(crate) at: SimTime,
    /// Bytes written to the guest's memory.
    pub(crate) written: u32,
}

/// A drive as a virtio block device.
pub struct Disk {
    engine: Box<dyn Engine>,
    /// The drive's time at the guest's time 0.
    start: SimTime,
    options: DiskOptions,
    write_cache: bool,
    features: u64,
    requests: Requests,
    first_error: Option<String>,
    recorder: Option<Recorder>,
    data: Vec<u8>,
}

/// How a request was carried out: the status and when.
type Carried = Result<(Status, SimTime), CommandError>;

impl Disk {
    /// `engine`, which keeps contents, as a disk. The guest's time 0 is `start` for it.
    pub fn new(engine: Box<dyn Engine>, start: SimTime, options: DiskOptions) -> Self {
        Self {
            engine,
            start,
            write_cache: options.write_cache,
            options,
            features: 0,
            requests: Requests::default(),
            first_error: None,
            recorder: None,
            data: Vec::new(),
        }
    }

    /// Writes down every request from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// The record, if there is one.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.recorder.take()
    }

    /// The drive.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The drive.
    pub fn engine_mut(&mut self) -> &mut dyn Engine {
        &mut *self.engine
    }

    /// Gives the drive back.
    pub fn into_engine(self) -> Box<dyn Engine> {
        self.engine
    }

    /// What the guest has sent so far.
    pub fn requests(&self) -> Requests {
        self.requests
    }

    /// The first error of the drive that the guest has seen.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// The drive's time at `guest_ns`.
    pub fn time(&self, guest_ns: u64) -> SimTime {
        self.start + guest_ns
    }

    /// The guest's time at the drive's time `at`.
    pub(crate) fn guest_ns(&self, at: SimTime) -> u64 {
        at.since(self.start)
    }

    pub(crate) fn offered_features(&self) -> u64 {
        let mut features = feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::FLUSH
            | feature::TOPOLOGY
            | feature::CONFIG_WCE
            | feature::WRITE_ZEROES
            | feature::RING_INDIRECT_DESC
            | feature::RING_EVENT_IDX
            | feature::VERSION_1;
        if self.options.discard_segments > 0 {
            features |= feature::DISCARD;
        }
        if self.options.copy {
            features |= feature::COPY;
        }
        features
    }

    pub(crate) fn set_features(&mut self, features: u64) {
        self.features = features;
    }

    pub(crate) fn uses_event_index(&self) -> bool {
        self.features & feature::RING_EVENT_IDX != 0
    }

    /// The configuration space (`struct virtio_blk_config`).
    pub(crate) fn config_space(&self) -> [u8; 64] {
        let unit_sectors = self.engine.geometry().sectors_per_unit();
        let limits = self.engine.limits();
        let within = |limit: u64, most: u32| match limit {
            0 => most,
            limit => u32::try_from(limit).map_or(most, |limit| limit.min(most)),
        };
        let mut space = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.engine.sectors().to_le_bytes());
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
        space
    }

    /// The guest writes to the configuration space: to what can be written, the write cache's switch.
    pub(crate) fn set_config(&mut self, offset: u32, bytes: &[u8]) {
        if let (WCE_OFFSET, [cache]) = (offset, bytes) {
            self.write_cache = *cache != 0;
        }
    }

    /// Carries out the request of `chain`, which arrives at `guest_ns`. Fails only if the guest breaks
    /// the rules of the ring.
    pub(crate) fn execute<M>(
        &mut self,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: DescriptorChain<M>,
    ) -> Result<Done, String>
    where
        M: Clone + Deref<Target = GuestMemoryMmap>,
    {
        let broken = |what: &str| format!("a request of the guest {what}");
        let mut input = chain.clone().reader(memory).map_err(|_| broken("names memory it does not have"))?;
        let mut output = chain.writer(memory).map_err(|_| broken("names memory it does not have"))?;
        let mut header = [0; 16];
        input.read_exact(&mut header).map_err(|_| broken("has no header"))?;
        let room = output.available_bytes().checked_sub(1).ok_or_else(|| broken("has no status"))?;
        // Descriptors may name the same memory many times.
        let memory_bytes = memory.iter().fold(0, |sum: u64, region| sum.saturating_add(region.len()));
        if room.max(input.available_bytes()) as u64 > memory_bytes {
            return Err(broken("has more data than its memory"));
        }
        let mut end = output.split_at(room).map_err(|_| broken("has no status"))?;
        let [k0, k1, k2, k3, _, _, _, _, sector @ ..] = header;
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let lba = Lba::new(u64::from_le_bytes(sector));

        let now = self.start + guest_ns;
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let is_read = matches!(kind, kind::IN | kind::GET_ID);
        if is_read {
            data.resize(room, 0);
        } else {
            data.resize(input.available_bytes(), 0);
            input.read_exact(&mut data).map_err(|_| broken("has less data than it says"))?;
        }
        let carried = self.carry_out(now, kind, lba, &mut data);
        let (status, at) = match carried {
            Ok(done) => done,
            Err(error) => {
                if self.first_error.is_none() {
                    self.first_error = Some(error.to_string());
                }
                (Status::IoError, now)
            }
        };
        self.requests.failed += u64::from(status != Status::Ok);
        let mut written = 1;
        if is_read && status == Status::Ok {
            output.write_all(&data).map_err(|_| broken("has no room for what it reads"))?;
            written += data.len() as u32;
        }
        end.write_all(&[status as u8]).map_err(|_| broken("has no status"))?;
        self.data = data;
        Ok(Done { at, written })
    }

    fn carry_out(&mut self, now: SimTime, kind: u32, lba: Lba, data: &mut [u8]) -> Carried {
        match kind {
            kind::IN => {
                self.requests.read += 1;
                let range = range_of(lba, data)?;
                self.command(now, &Command::Read { range }, data)
            }
            kind::OUT => {
                self.requests.write += 1;
                let range = range_of(lba, data)?;
                let fua = !self.write_cache || self.features & feature::FLUSH == 0;
                self.command(now, &Command::Write { range, fua, hint: Hint::None }, data)
            }
            kind::FLUSH => {
                self.requests.flush += 1;
                self.command(now, &Command::Flush, &mut [])
            }
            kind::DISCARD => self.discard(now, data),
            kind::WRITE_ZEROES => {
                let carried = self.write_zeroes(now, data);
                self.settled(carried)
            }
            kind::COPY if self.options.copy => {
                let carried = self.copy(now, data);
                self.settled(carried)
            }
            kind::GET_ID => {
                self.requests.other += 1;
                let serial = b"strobe";
                let length = serial.len().min(data.len());
                data[..length].copy_from_slice(&serial[..length]);
                Ok((Status::Ok, now))
            }
            _ => {
                self.requests.other += 1;
                Ok((Status::Unsupported, now))
            }
        }
    }

    fn command(&mut self, now: SimTime, command: &Command<'_>, data: &mut [u8]) -> Carried {
        if let Some(recorder) = &mut self.recorder {
            recorder.command(now, command);
        }
        let at = self.engine.command_bytes(now, command, data)?;
        Ok((Status::Ok, at))
    }

    fn discard(&mut self, now: SimTime, data: &[u8]) -> Carried {
        self.requests.discard += 1;
        let mut ranges = Vec::with_capacity(data.len() / Segment::BYTES);
        for segment in data.chunks(Segment::BYTES) {
            match Segment::parse(segment) {
                Some(Segment { range, flags: 0 }) => ranges.push(range),
                _ => return Ok((Status::Unsupported, now)),
            }
        }
        self.requests.discard_ranges += ranges.len() as u64;
        if ranges.len() > self.options.discard_segments as usize {
            return Ok((Status::IoError, now));
        }
        self.command(now, &Command::Deallocate(&ranges), &mut [])
    }

    /// Without a write cache the guest sends no flushes: what is done is durable when it completes. Writes ask for
    /// it one by one, other changes by a flush of ours.
    fn settled(&mut self, carried: Carried) -> Carried {
        match carried {
            Ok((Status::Ok, at)) if !self.write_cache => self.command(at, &Command::Flush, &mut []),
            carried => carried,
        }
    }

    fn write_zeroes(&mut self, now: SimTime, data: &[u8]) -> Carried {
        self.requests.write_zeroes += 1;
        // Flag 0: the blocks may be unmapped.
        match Segment::parse(data) {
            Some(Segment { range, flags: flags @ 0..=1 }) => {
                self.command(now, &Command::WriteZeroes { range, deallocate: flags == 1 }, &mut [])
            }
            _ => Ok((Status::Unsupported, now)),
        }
    }

    fn copy(&mut self, now: SimTime, data: &[u8]) -> Carried {
        self.requests.copy += 1;
        if data.is_empty() || data.len() > COPIES_MAX * CopyEntry::BYTES {
            return Ok((Status::IoError, now));
        }
        let mut entries = Vec::with_capacity(data.len() / CopyEntry::BYTES);
        for entry in data.chunks(CopyEntry::BYTES) {
            match CopyEntry::parse(entry) {
                Some(entry) => entries.push(entry),
                None => return Ok((Status::Unsupported, now)),
            }
        }
        self.requests.copy_ranges += entries.len() as u64;
        // What goes to one place after the other is one command of the drive.
        let (mut done, mut sources) = (now, Vec::new());
        let mut rest = &entries[..];
        while let Some(first) = rest.first() {
            sources.clear();
            let mut end = first.to;
            let together = rest.iter().take_while(|entry| {
                let follows = entry.to == end;
                end = entry.to.saturating_add(entry.source.sectors.into());
                follows
            });
            sources.extend(together.map(|entry| entry.source));
            let command = Command::Copy { destination: Lba::new(first.to), sources: &sources };
            let (_, at) = self.command(now, &command, &mut [])?;
            done = done.max(at);
            rest = &rest[sources.len()..];
        }
        Ok((Status::Ok, done))
    }
}

fn range_of(lba: Lba, data: &[u8]) -> Result<Range, CommandError> {
    // More than the drive has is refused by the drive.
    let sectors = u32::try_from(data.len() as u64 / SECTOR_BYTES).unwrap_or(u32::MAX);
    Ok(Range::new(lba, sectors))
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
