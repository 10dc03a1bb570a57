//! Virtqueues and the guest's memory.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vm_memory::{
    Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap,
};

use crate::message::Region;

/// Maximum descriptors of a ring. User-Mode Linux uses 256, QEMU 128.
pub const SIZE_MAX: u16 = 1024;

/// Page size. An available ring of [`SIZE_MAX`] entries fits into a page.
const PAGE_BYTES: u64 = 4096;

/// Descriptor chain of a request.
pub type Chain<'a> = DescriptorChain<&'a GuestMemoryMmap>;

/// Completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Ring of the request.
    pub ring: usize,
    /// Head descriptor.
    pub head: u16,
    /// Bytes written to the guest's memory.
    pub written: u32,
}

/// Memory of the guest, as shared by the front-end.
#[derive(Debug, Default)]
pub struct Memory {
    mapped: Option<GuestMemoryMmap>,
    regions: Vec<Region>,
}

impl Memory {
    /// Maps the guest's memory from the file of each region.
    pub fn map(&mut self, regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<(), String> {
        if regions.len() != files.len() {
            return Err(format!("{} regions of memory with {} files", regions.len(), files.len()));
        }
        let mapped = regions.iter().zip(files).map(|(region, file)| {
            let file = File::from(file);
            // An access beyond the end of a mapped file would kill the process.
            let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
            if region.offset.checked_add(region.bytes).is_none_or(|end| end > file_bytes) {
                return Err(format!(
                    "a region of {} bytes at offset {} of a file of {file_bytes} bytes",
                    region.bytes, region.offset
                ));
            }
            let file = FileOffset::new(file, region.offset);
            let bytes = usize::try_from(region.bytes).map_err(|error| error.to_string())?;
            GuestRegionMmap::from_range(GuestAddress(region.guest), bytes, Some(file))
                .map_err(|error| format!("cannot map the guest's memory: {error}"))
        });
        let mut mapped = mapped.collect::<Result<Vec<_>, _>>()?;
        // The front-end may list regions in any order.
        mapped.sort_by_key(|region| region.start_addr());
        self.mapped = Some(GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?);
        self.regions = regions;
        Ok(())
    }

    /// Mapped memory; `None` before [`Memory::map`].
    pub fn mapped(&self) -> Option<&GuestMemoryMmap> {
        self.mapped.as_ref()
    }

    fn guest_address(&self, user: u64) -> Result<GuestAddress, String> {
        let region = self
            .regions
            .iter()
            .find(|region| user.checked_sub(region.user).is_some_and(|into| into < region.bytes));
        match region {
            Some(region) => Ok(GuestAddress(region.guest + (user - region.user))),
            None => Err(format!("a ring at {user:#x}, outside of the guest's memory")),
        }
    }
}

/// A ring of a device.
#[derive(Debug)]
pub struct Ring {
    queue: Queue,
}

impl Ring {
    /// Creates a ring before its setup.
    pub fn new() -> Result<Self, String> {
        Ok(Self { queue: Queue::new(SIZE_MAX).map_err(|error| error.to_string())? })
    }

    /// Number of descriptors.
    pub fn size(&self) -> u16 {
        self.queue.size()
    }

    /// Sets the number of descriptors: a power of two up to [`SIZE_MAX`].
    pub fn set_size(&mut self, size: u32) -> Result<(), String> {
        let refused = |reason: &dyn std::fmt::Display| {
            format!("a ring of {size} descriptors; a power of two up to {SIZE_MAX} is required: {reason}")
        };
        let count = u16::try_from(size).map_err(|error| refused(&error))?;
        self.queue.try_set_size(count).map_err(|error| refused(&error))
    }

    /// Sets the addresses of descriptor table, used ring and available ring, in the front-end's address space.
    pub fn set_addresses(
        &mut self,
        memory: &Memory,
        [descriptors, used, available]: [u64; 3],
    ) -> Result<(), String> {
        let refused = |error| format!("invalid ring addresses: {error}");
        self.queue.try_set_desc_table_address(memory.guest_address(descriptors)?).map_err(refused)?;
        self.queue.try_set_used_ring_address(memory.guest_address(used)?).map_err(refused)?;
        self.queue.try_set_avail_ring_address(memory.guest_address(available)?).map_err(refused)
    }

    /// Sets the index of the next available and used entry.
    pub fn set_base(&mut self, base: u32) {
        self.queue.set_next_avail(base as u16);
        self.queue.set_next_used(base as u16);
    }

    /// Index of the next available entry.
    pub fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Reads the used index from the guest's memory.
    pub fn used(&self, memory: &GuestMemoryMmap) -> Result<u16, String> {
        let used = self.queue.used_idx(memory, Ordering::Acquire).map_err(|error| error.to_string())?;
        Ok(used.0)
    }

    /// Continues at used index `used`, with `again` requests left in flight by an earlier process.
    pub fn resume(&mut self, used: u16, again: u16) {
        self.queue.set_next_used(used);
        // Every entry before the next available one is either used or in flight.
        self.queue.set_next_avail(used.wrapping_add(again));
    }

    /// Starts or stops the ring. With `event_index`, each side publishes the index at which it wants a
    /// notification.
    pub fn enable(&mut self, enable: bool, event_index: bool) {
        self.queue.set_event_idx(event_index);
        self.queue.set_ready(enable);
    }

    /// Passes waiting requests to `take` until it returns false.
    ///
    /// Returns true if the ring is empty; the guest then notifies the device of the next request.
    pub fn take_all(
        &mut self,
        memory: &Memory,
        take: &mut dyn FnMut(&GuestMemoryMmap, Chain<'_>) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let memory = memory.mapped().ok_or("a request before the guest's memory is set")?;
        loop {
            // Notifications are disabled during the scan. Enabling them reports requests that arrived since,
            // so none is missed.
            self.queue.disable_notification(memory).map_err(|error| error.to_string())?;
            loop {
                let chain = self.queue.iter(memory).map_err(|error| error.to_string())?.next();
                let Some(chain) = chain else { break };
                // Notifications stay disabled: the caller scans again when it can accept a request.
                if !take(memory, chain)? {
                    return Ok(false);
                }
            }
            if !self.queue.enable_notification(memory).map_err(|error| error.to_string())? {
                return Ok(true);
            }
        }
    }

    /// Passes the requests `heads`, taken by an earlier process, to `take` until it returns false.
    ///
    /// Returns the number of requests passed, and true if `take` accepts another.
    pub fn take_again(
        &mut self,
        memory: &Memory,
        heads: &[u16],
        take: &mut dyn FnMut(&GuestMemoryMmap, Chain<'_>) -> Result<bool, String>,
    ) -> Result<(usize, bool), String> {
        let memory = memory.mapped().ok_or("a request before the guest's memory is set")?;
        // The guest may have reused the available-ring entries of these requests. A private available ring
        // lists the heads, in a page after the guest's memory.
        let at = memory.last_addr().0.checked_add(1).map(|end| end.next_multiple_of(PAGE_BYTES));
        let at = GuestAddress(at.ok_or("the guest's memory ends at the last address")?);
        let page =
            GuestRegionMmap::from_range(at, PAGE_BYTES as usize, None).map_err(|error| error.to_string())?;
        let memory = memory.insert_region(Arc::new(page)).map_err(|error| error.to_string())?;
        let entries: Vec<u8> =
            [0, heads.len() as u16].iter().chain(heads).flat_map(|entry| entry.to_le_bytes()).collect();
        memory.write_slice(&entries, at).map_err(|error| error.to_string())?;
        let mut queue = Queue::new(SIZE_MAX).map_err(|error| error.to_string())?;
        queue.set_size(self.queue.size());
        queue
            .try_set_desc_table_address(GuestAddress(self.queue.desc_table()))
            .map_err(|error| error.to_string())?;
        queue.try_set_avail_ring_address(at).map_err(|error| error.to_string())?;
        queue.set_ready(true);
        let mut count = 0;
        for chain in queue.iter(&memory).map_err(|error| error.to_string())? {
            count += 1;
            if !take(&memory, chain)? {
                return Ok((count, false));
            }
        }
        Ok((count, true))
    }

    /// Index of the next used entry.
    pub fn next_used(&self) -> u16 {
        self.queue.next_used()
    }

    /// Returns a request to the guest. True if the guest wants a notification.
    pub fn give_back(&mut self, memory: &GuestMemoryMmap, returned: Returned) -> Result<bool, String> {
        let added = self.queue.add_used(memory, returned.head, returned.written);
        added.map_err(|error| error.to_string())?;
        self.queue.needs_notification(memory).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use proptest::prelude::*;
    use strobe_ssd::{Command, CommandError, DriveConfig, Target};
    use strobe_types::SimTime;
    use vm_memory::{Bytes as _, GuestAddress};

    use super::*;
    use crate::block::{Block, BlockOptions, Host};

    const MEMORY_BYTES: u64 = 1 << 16;
    const SIZE: u16 = 16;
    const TABLE: u64 = 0;
    const AVAILABLE: u64 = 0x1000;
    const USED: u64 = 0x2000;
    const HEADERS: u64 = 0x3000;
    const STATUS: u64 = 0x3800;
    const DATA: u64 = 0x4000;

    struct Disk {
        block: Block,
        target: Target,
        tag: u64,
    }

    struct At<'a>(&'a mut Target, SimTime);

    impl Host for At<'_> {
        fn send(&mut self, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>) {
            self.0.submit(self.1, tag, commands, data);
        }

        fn answer(&mut self, tag: u64, result: Result<Vec<u8>, CommandError>) {
            self.0.answer(self.1, tag, result);
        }
    }

    impl Disk {
        fn take(&mut self, now: u64, memory: &GuestMemoryMmap, chain: Chain<'_>) -> Result<(), String> {
            self.tag += 1;
            self.block.take(0, memory, chain, self.tag, &mut At(&mut self.target, SimTime::from_ns(now)))
        }

        fn next_event(&self) -> Option<u64> {
            self.target.next_event().map(SimTime::as_ns)
        }

        fn advance(&mut self, now: u64, memory: &GuestMemoryMmap) -> Result<Vec<Returned>, String> {
            let mut answers = Vec::new();
            self.target.advance(SimTime::from_ns(now), &mut answers);
            let finish =
                |answer: strobe_ssd::Answer| self.block.finish(answer.tag, answer.result, Some(memory));
            answers.into_iter().filter_map(finish).collect()
        }
    }

    fn all() -> BlockOptions {
        BlockOptions { copy: true, hints: true, ..BlockOptions::default() }
    }

    fn disk(options: BlockOptions) -> Disk {
        let config = serde_json::json!({
            "nand": {
                "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 64, "pages_per_block": 32,
                "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
                "endurance_pe": 1000, "data": "bytes",
            },
            "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700, "copy_mode": "logical" },
            "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
        });
        let config: DriveConfig = serde_json::from_value(config).expect("a configuration");
        let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        Disk { block: Block::new(options), target: Target::new(drive), tag: 0 }
    }

    fn ring() -> (Ring, Memory) {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(MEMORY_BYTES).expect("memory");
        let (mut ring, mut memory) = (Ring::new().expect("a ring"), Memory::default());
        let region = Region { guest: 0, bytes: MEMORY_BYTES, user: 0, offset: 0 };
        memory.map(vec![region], vec![OwnedFd::from(file)]).expect("maps");
        ring.set_size(SIZE.into()).expect("a size");
        ring.set_addresses(&memory, [TABLE, USED, AVAILABLE]).expect("addresses");
        ring.enable(true, false);
        (ring, memory)
    }

    #[test]
    fn regions_come_in_any_order() {
        let (high, low) = (1 << 20, 0);
        let region = |guest, user| Region { guest, bytes: PAGE_BYTES, user, offset: 0 };
        let files = ["high", "low"].map(|text| {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(PAGE_BYTES).expect("memory");
            std::os::unix::fs::FileExt::write_all_at(&file, text.as_bytes(), 0).expect("written");
            OwnedFd::from(file)
        });
        let mut memory = Memory::default();
        memory.map(vec![region(high, 4096), region(low, 0)], Vec::from(files)).expect("maps");
        let mapped = memory.mapped().expect("mapped");
        let first = |at| mapped.read_obj::<u8>(GuestAddress(at)).expect("read");
        assert_eq!([first(high), first(low)], *b"hl");
        assert_eq!(memory.guest_address(4096 + 8), Ok(GuestAddress(high + 8)));
    }

    fn take_all(ring: &mut Ring, memory: &Memory, disk: &mut Disk, now: u64) -> Result<(), String> {
        ring.take_all(memory, &mut |memory, chain| disk.take(now, memory, chain).map(|()| true)).map(drop)
    }

    fn give_back(ring: &mut Ring, memory: &Memory, disk: &mut Disk, now: u64) -> Result<bool, String> {
        let memory = memory.mapped().expect("mapped");
        let mut tell = false;
        for returned in disk.advance(now, memory)? {
            tell |= ring.give_back(memory, returned)?;
        }
        Ok(tell)
    }

    fn any_descriptor() -> impl Strategy<Value = Descriptor> {
        let length = prop_oneof![2 => 0..8192_u32, 1 => any::<u32>()];
        let address = prop_oneof![4 => 0..MEMORY_BYTES, 1 => any::<u64>()];
        (address, length, 0..8_u16, prop_oneof![8 => 0..SIZE, 1 => any::<u16>()])
    }

    type Descriptor = (u64, u32, u16, u16);
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;

    /// Header, data buffers, and true if the guest receives the data.
    type Asked = (u64, Vec<(u64, u32)>, bool);

    fn request() -> impl Strategy<Value = Asked> {
        let bytes =
            prop_oneof![3 => Just(16_u32), 1 => Just(48), 1 => Just(512), 1 => Just(4096), 1 => 0..5000_u32];
        let data = proptest::collection::vec(((0..2000_u64).prop_map(|at| DATA + 16 * at), bytes), 0..3);
        (0..16_u64, data, any::<bool>())
    }

    fn lay_out(requests: &[Asked]) -> (Vec<Descriptor>, Vec<u16>) {
        let (mut table, mut heads): (Vec<Descriptor>, _) = (Vec::new(), Vec::new());
        for (header, data, is_read) in requests {
            let mut own = vec![(HEADERS + 16 * header, 16, 0)];
            own.extend(
                data.iter().map(|&(address, bytes)| (address, bytes, if *is_read { WRITE } else { 0 })),
            );
            own.push((STATUS, 1, WRITE));
            if table.len() + own.len() > usize::from(SIZE) {
                break;
            }
            heads.push(table.len() as u16);
            let last = own.len() - 1;
            for (at, (address, bytes, flags)) in own.into_iter().enumerate() {
                let more = if at < last { NEXT } else { 0 };
                table.push((address, bytes, flags | more, table.len() as u16 + 1));
            }
        }
        table.resize(usize::from(SIZE), (0, 0, 0, 0));
        (table, heads)
    }

    fn put(memory: &GuestMemoryMmap, at: u64, bytes: &[u8]) {
        memory.write_slice(bytes, GuestAddress(at)).expect("in memory");
    }

    fn put_table(memory: &GuestMemoryMmap, table: &[Descriptor]) {
        for (at, (address, length, flags, next)) in (0..).zip(table) {
            put(memory, TABLE + 16 * at, &address.to_le_bytes());
            put(memory, TABLE + 16 * at + 8, &length.to_le_bytes());
            put(memory, TABLE + 16 * at + 12, &flags.to_le_bytes());
            put(memory, TABLE + 16 * at + 14, &next.to_le_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        #[test]
        fn no_ring_of_a_guest_panics(
            requests in proptest::collection::vec(request(), 1..6),
            faults in proptest::collection::vec((0..SIZE, any_descriptor()), 0..2),
            heads_more in proptest::collection::vec(any::<u16>(), 0..2),
            count in prop_oneof![20 => Just(None), 1 => any::<u16>().prop_map(Some)],
            segments in proptest::collection::vec((0..15_000_u64, 0..64_u32, 0..3_u32), 16),
            write_cache in any::<bool>(),
        ) {
            let mut disk = disk(BlockOptions { write_cache, ..all() });
            disk.block.set_features(u64::MAX);
            let (mut ring, shared) = ring();
            let memory = shared.mapped().expect("memory").clone();
            // Data of discards and copies.
            let segments = segments.iter().flat_map(|(sector, count, flags)| {
                [&sector.to_le_bytes()[..], &count.to_le_bytes(), &flags.to_le_bytes()].concat()
            });
            put(&memory, DATA, &segments.collect::<Vec<_>>().repeat(128));
            for (at, kind) in (0..16).zip([0_u32, 1, 4, 8, 11, 13, 0x5343_0001, 99].into_iter().cycle()) {
                let sector = if at < 14 { at * 100 } else { u64::MAX - at };
                put(&memory, HEADERS + 16 * at, &[&kind.to_le_bytes()[..], &[at as u8; 4], &sector.to_le_bytes()].concat());
            }
            let (mut table, mut heads) = lay_out(&requests);
            for (at, fault) in faults {
                table[usize::from(at)] = fault;
            }
            heads.extend(heads_more);
            put_table(&memory, &table);
            for (at, head) in (0..).zip(&heads) {
                put(&memory, AVAILABLE + 4 + 2 * at, &head.to_le_bytes());
            }
            put(&memory, AVAILABLE + 2, &count.unwrap_or(heads.len() as u16).to_le_bytes());
            // Requests may fail. Completed ones can always be returned.
            let _ = take_all(&mut ring, &shared, &mut disk, 1000);
            while let Some(next) = disk.next_event() {
                prop_assert!(next >= 1000);
                let _ = give_back(&mut ring, &shared, &mut disk, next);
            }
        }

        #[test]
        fn no_place_of_a_ring_panics(size in any::<u32>(), places in any::<[u64; 3]>(), base in any::<u32>()) {
            let (mut ring, memory) = ring();
            let _ = ring.set_size(size);
            let places = [places[0] % (2 * MEMORY_BYTES), places[1], places[2] % (2 * MEMORY_BYTES)];
            let _ = ring.set_addresses(&memory, places);
            ring.set_base(base);
            let _ = take_all(&mut ring, &memory, &mut disk(all()), 0);
        }
    }

    #[test]
    fn a_read_reaches_the_guest_when_it_is_complete_and_one_larger_than_the_memory_is_refused() {
        let request = |length: u32| {
            let mut disk = disk(all());
            let (mut ring, shared) = ring();
            let memory = shared.mapped().expect("memory").clone();
            put(&memory, HEADERS, &[0; 16]);
            // A read into the same memory many times.
            let mut table = vec![(HEADERS, 16, NEXT, 1)];
            table.extend((2..10).map(|next| (DATA, length, NEXT | WRITE, next)));
            table.push((STATUS, 1, WRITE, 0));
            put_table(&memory, &table);
            put(&memory, AVAILABLE, &[0, 0, 1, 0, 0, 0]);
            put(&memory, DATA, &[7; 512]);
            put(&memory, STATUS, &[9]);
            take_all(&mut ring, &shared, &mut disk, 0)?;
            Ok::<_, String>((ring, shared, disk, memory))
        };
        let byte = |memory: &GuestMemoryMmap, at| memory.read_obj::<u8>(GuestAddress(at)).expect("memory");
        let (mut ring, shared, mut disk, memory) = request(512).expect("a good request");
        let event = disk.next_event().expect("on its way");
        assert!(!give_back(&mut ring, &shared, &mut disk, event - 1).expect("not yet"));
        assert_eq!((byte(&memory, DATA), byte(&memory, STATUS)), (7, 9));
        while let Some(event) = disk.next_event() {
            give_back(&mut ring, &shared, &mut disk, event).expect("complete, or not yet");
        }
        assert_eq!((byte(&memory, DATA), byte(&memory, STATUS)), (0, 0), "zeros were read, and all is well");
        let used = |at| memory.read_obj::<u32>(GuestAddress(USED + at)).expect("memory");
        assert_eq!((used(4), used(8)), (0, 8 * 512 + 1), "its name, and the bytes written");
        assert_eq!(disk.next_event(), None);
        assert!(request(0x8000).err().expect("too large").contains("more data than its memory"));
    }
}
