//! The ring through which the guest's requests come, and where its memory is.

use std::fs::File;
use std::os::fd::OwnedFd;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

use crate::disk::{Disk, Done};
use crate::vhost::Region;

/// Descriptors that a ring may have; User-Mode Linux uses 256.
const SIZE_MAX: u16 = 1024;

/// A request that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Its name in the ring.
    pub(crate) head: u16,
    pub(crate) done: Done,
}

/// The only ring of the disk.
pub(crate) struct Ring {
    memory: Option<GuestMemoryMmap>,
    regions: Vec<Region>,
    queue: Queue,
}

impl Ring {
    pub(crate) fn new() -> Result<Self, String> {
        let queue = Queue::new(SIZE_MAX).map_err(|error| error.to_string())?;
        Ok(Self { memory: None, regions: Vec::new(), queue })
    }

    /// Maps the guest's memory: each region is a part of the file that came with it.
    pub(crate) fn map(&mut self, regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<(), String> {
        if regions.len() != files.len() {
            return Err(format!("{} regions of memory with {} files", regions.len(), files.len()));
        }
        let mapped = regions.iter().zip(files).map(|(region, file)| {
            let file = FileOffset::new(File::from(file), region.offset);
            let bytes = usize::try_from(region.bytes).map_err(|error| error.to_string())?;
            GuestRegionMmap::from_range(GuestAddress(region.guest), bytes, Some(file))
                .map_err(|error| format!("cannot map the guest's memory: {error}"))
        });
        let mapped = mapped.collect::<Result<Vec<_>, _>>()?;
        self.memory = Some(GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?);
        self.regions = regions;
        Ok(())
    }

    /// Rings are named by the guest's own addresses.
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

    pub(crate) fn set_size(&mut self, size: u32) -> Result<(), String> {
        let size = u16::try_from(size).map_err(|_| format!("a ring of {size} descriptors"))?;
        self.queue.try_set_size(size).map_err(|error| format!("a ring of {size} descriptors: {error}"))
    }

    pub(crate) fn set_addresses(
        &mut self,
        descriptors: u64,
        used: u64,
        available: u64,
    ) -> Result<(), String> {
        let refused = |error| format!("a ring at wrong addresses: {error}");
        self.queue.try_set_desc_table_address(self.guest_address(descriptors)?).map_err(refused)?;
        self.queue.try_set_used_ring_address(self.guest_address(used)?).map_err(refused)?;
        self.queue.try_set_avail_ring_address(self.guest_address(available)?).map_err(refused)
    }

    pub(crate) fn set_base(&mut self, base: u32) {
        self.queue.set_next_avail(base as u16);
        self.queue.set_next_used(base as u16);
    }

    pub(crate) fn enable(&mut self, enable: bool, event_index: bool) {
        self.queue.set_event_idx(event_index);
        self.queue.set_ready(enable);
    }

    /// Takes every request that waits and has `disk` carry it out at `guest_ns`.
    pub(crate) fn take_all(&mut self, disk: &mut Disk, guest_ns: u64) -> Result<Vec<Taken>, String> {
        let memory = self.memory.as_ref().ok_or("a request before the memory is known")?;
        let mut taken = Vec::new();
        loop {
            // Kicks while we look are not needed; after the last look they are.
            self.queue.disable_notification(memory).map_err(|error| error.to_string())?;
            loop {
                let chain = self.queue.iter(memory).map_err(|error| error.to_string())?.next();
                let Some(chain) = chain else { break };
                let head = chain.head_index();
                taken.push(Taken { head, done: disk.execute(guest_ns, memory, chain)? });
            }
            if !self.queue.enable_notification(memory).map_err(|error| error.to_string())? {
                return Ok(taken);
            }
        }
    }

    /// Gives a request back; returns whether the guest wants to be told.
    pub(crate) fn give_back(&mut self, head: u16, written: u32) -> Result<bool, String> {
        let memory = self.memory.as_ref().ok_or("a request before the memory is known")?;
        self.queue.add_used(memory, head, written).map_err(|error| error.to_string())?;
        self.queue.needs_notification(memory).map_err(|error| error.to_string())
    }
}
