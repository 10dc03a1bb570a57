//! Requests in flight in memory that the guest's machine keeps, so that another process finds them after a
//! crash (`VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD`, split rings).
//!
//! The memory has an area for each ring: a header, then an entry for each descriptor. With `used` as the
//! index of the ring's used entries in the guest's memory:
//!
//! 1. [`Inflight::take`]: the entry of the request's first descriptor gets the next number, then its flag is
//!    set.
//! 2. [`Inflight::begin_return`]: the header names the request as the last one returned. Then the device adds
//!    the used entry.
//! 3. [`Inflight::end_return`]: the flag is cleared, then the header gets `used`.
//! 4. [`Inflight::recover`], in another process: a header whose index differs from `used` belongs to a
//!    process that ended between steps 2 and 3, so step 3 is repeated. Requests whose flag is set are done
//!    again in the order of their numbers.
//!
//! Example: heads 4, 1 and 7 are taken, 1 is returned, and the process is killed. Entries 4 and 7 have their
//! flags, with the numbers 1 and 3, so the next process does 4, then 7.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};

use crate::message::InflightArea;
use crate::ring::SIZE_MAX;

/// Offsets in a ring's header: version, number of entries, last returned head, index of used entries.
const VERSION: u64 = 8;
const ENTRIES: u64 = 10;
const LAST: u64 = 12;
const USED: u64 = 14;
const HEADER_BYTES: u64 = 16;
/// Offsets in an entry: flag, next in a batch, number.
const FLAG: u64 = 0;
const BATCH: u64 = 6;
const NUMBER: u64 = 8;
const ENTRY_BYTES: u64 = 16;
const ALIGNMENT: u64 = 64;
/// Bytes behind the last ring: the first is 1 if the guest has switched the write cache off.
const TAIL_BYTES: u64 = 64;

/// Memory for requests in flight.
#[derive(Debug)]
pub struct Inflight {
    memory: GuestMemoryMmap,
    rings: u16,
    size: u16,
    /// Number of the next request of each ring.
    numbers: Vec<u64>,
}

impl Inflight {
    /// A file with memory for the rings of `asked`, and where it lies in the file.
    pub fn create(asked: InflightArea, rings_max: u16) -> Result<(OwnedFd, InflightArea), String> {
        let InflightArea { rings, size, .. } = asked;
        check(rings, size, rings_max)?;
        let bytes = area_bytes(rings, size);
        let failed = |error: &dyn std::fmt::Display| format!("no memory for requests in flight: {error}");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("strobe-inflight", flags).map_err(|error| failed(&error))?);
        file.set_len(bytes).map_err(|error| failed(&error))?;
        // Memory behind the end of a file ends the process that touches it.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|error| failed(&error))?;
        Ok((file.into(), InflightArea { bytes, offset: 0, rings, size }))
    }

    /// The memory in `file`, which a device before has used, or none.
    pub fn open(file: OwnedFd, area: InflightArea, rings_max: u16) -> Result<Self, String> {
        let InflightArea { bytes, offset, rings, size } = area;
        check(rings, size, rings_max)?;
        let needed = area_bytes(rings, size);
        let file = File::from(file);
        let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= file_bytes);
        if bytes != needed || !fits || !offset.is_multiple_of(ALIGNMENT) {
            return Err(format!(
                "requests in flight in {bytes} bytes at offset {offset} of a file of {file_bytes} bytes; {rings} rings of {size} \
                 entries take {needed} bytes"
            ));
        }
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(
                "requests in flight in a file that can shrink; it must be the one of this device".to_owned()
            );
        }
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let range = (GuestAddress(0), bytes, Some(FileOffset::new(file, offset)));
        let memory = GuestMemoryMmap::from_ranges_with_files([range])
            .map_err(|error| format!("cannot map requests in flight: {error}"))?;
        Ok(Self { memory, rings, size, numbers: vec![1; rings.into()] })
    }

    /// True if it has an area for `ring`.
    pub fn has(&self, ring: usize) -> bool {
        ring < self.rings.into()
    }

    /// Requests of `ring` that were in flight in another process, oldest first. `used` is the index of its
    /// used entries, and `size` the number of its descriptors.
    pub fn recover(&mut self, ring: usize, used: u16, size: u16) -> Result<Vec<u16>, String> {
        if size > self.size {
            return Err(format!(
                "a ring of {size} descriptors with {} entries for requests in flight",
                self.size
            ));
        }
        let at = self.area(ring)?;
        if self.load::<u16>(at + VERSION)? == 0 {
            self.store(at + VERSION, 1_u16)?;
            self.store(at + ENTRIES, self.size)?;
            self.store(at + USED, used)?;
        }
        if self.load::<u16>(at + USED)? != used {
            // The process before has added a used entry, and nothing since.
            let last = self.load::<u16>(at + LAST)?;
            self.end_return(ring, last, used)?;
        }
        let mut found = Vec::new();
        for head in 0..size {
            let entry = self.entry(ring, head)?;
            if self.load::<u8>(entry + FLAG)? != 0 {
                found.push((self.load::<u64>(entry + NUMBER)?, head));
            }
        }
        found.sort_unstable();
        self.numbers[ring] = found.last().map_or(1, |(number, _)| number.wrapping_add(1));
        Ok(found.into_iter().map(|(_, head)| head).collect())
    }

    /// Notes that the request `head` of `ring` is in flight. One that was so in another process keeps its
    /// number.
    pub fn take(&mut self, ring: usize, head: u16) -> Result<(), String> {
        let entry = self.entry(ring, head)?;
        if self.load::<u8>(entry + FLAG)? == 0 {
            self.store(entry + NUMBER, self.numbers[ring])?;
            self.numbers[ring] = self.numbers[ring].wrapping_add(1);
            self.store(entry + FLAG, 1_u8)?;
        }
        Ok(())
    }

    /// Notes that the next used entry is that of `head`.
    pub fn begin_return(&self, ring: usize, head: u16) -> Result<(), String> {
        let (at, entry) = (self.area(ring)?, self.entry(ring, head)?);
        self.store(entry + BATCH, self.load::<u16>(at + LAST)?)?;
        self.store(at + LAST, head)
    }

    /// Notes that `head` has its used entry, the one before the index `used`.
    pub fn end_return(&self, ring: usize, head: u16, used: u16) -> Result<(), String> {
        let (at, entry) = (self.area(ring)?, self.entry(ring, head)?);
        self.store(entry + FLAG, 0_u8)?;
        self.store(at + USED, used)
    }

    /// True if the guest has switched the write cache off. It says so once, and not to the process that comes
    /// next.
    pub fn is_write_through(&self) -> Result<bool, String> {
        Ok(self.load::<u8>(self.tail())? != 0)
    }

    /// Keeps whether the guest has switched the write cache off.
    pub fn set_write_through(&self, is_write_through: bool) -> Result<(), String> {
        self.store(self.tail(), u8::from(is_write_through))
    }

    fn tail(&self) -> u64 {
        u64::from(self.rings) * ring_bytes(self.size)
    }

    /// Place of the area of `ring`.
    fn area(&self, ring: usize) -> Result<u64, String> {
        if self.has(ring) {
            Ok(ring as u64 * ring_bytes(self.size))
        } else {
            Err(format!("no area for ring {ring}"))
        }
    }

    /// Place of the entry of `head`.
    fn entry(&self, ring: usize, head: u16) -> Result<u64, String> {
        if head >= self.size {
            return Err(format!("a request {head} with {} entries for requests in flight", self.size));
        }
        Ok(self.area(ring)? + HEADER_BYTES + u64::from(head) * ENTRY_BYTES)
    }

    fn load<T: vm_memory::AtomicAccess>(&self, at: u64) -> Result<T, String> {
        self.memory.load(GuestAddress(at), Ordering::Acquire).map_err(|error| error.to_string())
    }

    /// Stores `value`; another process sees stores in their order.
    fn store<T: vm_memory::AtomicAccess>(&self, at: u64, value: T) -> Result<(), String> {
        self.memory.store(value, GuestAddress(at), Ordering::Release).map_err(|error| error.to_string())
    }
}

/// Refuses rings that a device does not have.
fn check(rings: u16, size: u16, rings_max: u16) -> Result<(), String> {
    if (1..=rings_max).contains(&rings) && (1..=SIZE_MAX).contains(&size) {
        return Ok(());
    }
    Err(format!(
        "requests in flight of {rings} rings of {size} descriptors; up to {rings_max} rings of {SIZE_MAX} are taken"
    ))
}

fn ring_bytes(size: u16) -> u64 {
    (HEADER_BYTES + u64::from(size) * ENTRY_BYTES).next_multiple_of(ALIGNMENT)
}

fn area_bytes(rings: u16, size: u16) -> u64 {
    u64::from(rings) * ring_bytes(size) + TAIL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of a process, and that of one after it.
    fn again(file: &OwnedFd, area: InflightArea) -> Inflight {
        Inflight::open(file.try_clone().expect("another of it"), area, 64).expect("it is the device's own")
    }

    #[test]
    fn a_process_that_ends_anywhere_leaves_what_is_in_flight() {
        let asked = InflightArea { bytes: 0, offset: 0, rings: 2, size: 8 };
        let (file, area) = Inflight::create(asked, 64).expect("memory");
        assert_eq!(area.bytes, 2 * 192 + 64);
        let mut first = again(&file, area);
        assert_eq!(first.recover(1, 40, 8), Ok(Vec::new()), "nothing was in flight");
        for head in [4, 1, 7] {
            first.take(1, head).expect("a descriptor of the ring");
        }
        first.begin_return(1, 1).expect("it is in flight");
        // The used entry was not added.
        assert_eq!(again(&file, area).recover(1, 40, 8), Ok(vec![4, 1, 7]));
        // It was added, and the process ended.
        let mut second = again(&file, area);
        assert_eq!(second.recover(1, 41, 8), Ok(vec![4, 7]));
        second.begin_return(1, 4).expect("it is in flight");
        second.end_return(1, 4, 42).expect("it is in flight");
        second.take(1, 4).expect("a descriptor of the ring");
        assert_eq!(again(&file, area).recover(1, 42, 8), Ok(vec![7, 4]), "the oldest first");
        assert_eq!(again(&file, area).recover(0, 0, 8), Ok(Vec::new()), "another ring");
        assert!(
            second.take(1, 8).is_err() && second.take(2, 0).is_err() && second.recover(1, 42, 16).is_err()
        );
    }
}
