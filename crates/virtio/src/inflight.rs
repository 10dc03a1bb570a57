//! In-flight requests recorded in shared memory, so that the next device process finds them after a crash
//! (`VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD`, split rings).
//!
//! The front-end keeps the memory. Each ring has an area: a header, and an entry per descriptor. `used` is
//! the ring's used index in guest memory.
//!
//! 1. [`Inflight::take`] gives the entry of the head descriptor the next number, then sets its flag.
//! 2. [`Inflight::begin_return`] records the head as the last one returned. Then the device adds the head to
//!    the used ring.
//! 3. [`Inflight::end_return`] clears the flag, then stores `used` in the header.
//! 4. [`Inflight::recover`] runs in the next process. If the header's index differs from `used`, the old
//!    process ended between steps 2 and 3, and step 3 is repeated. Requests whose flag is set are executed
//!    again, by number.
//!
//! Example: heads 4, 1 and 7 are taken, 1 is returned, and the process is killed. Entries 4 and 7 still have
//! their flags, with the numbers 1 and 3. The next process executes 4, then 7.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};

use crate::message::InflightArea;
use crate::ring::SIZE_MAX;

/// Offsets in a ring's header: version, number of entries, last returned head, used index.
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
/// Bytes after the area of the last ring. The first byte is 1 if the guest has disabled the write cache.
const TAIL_BYTES: u64 = 64;

/// Shared memory with the in-flight requests.
#[derive(Debug)]
pub struct Inflight {
    memory: GuestMemoryMmap,
    rings: u16,
    size: u16,
    /// Next request number of each ring.
    numbers: Vec<u64>,
}

impl Inflight {
    /// Creates a file for the rings of `asked`. Returns it with its layout.
    pub fn create(asked: InflightArea, rings_max: u16) -> Result<(OwnedFd, InflightArea), String> {
        let InflightArea { rings, size, .. } = asked;
        check(rings, size, rings_max)?;
        let bytes = area_bytes(rings, size);
        let failed = |error: &dyn std::fmt::Display| format!("no memory for in-flight requests: {error}");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("strobe-inflight", flags).map_err(|error| failed(&error))?);
        file.set_len(bytes).map_err(|error| failed(&error))?;
        // The seals fix the file's size: an access beyond the end of a shrunk file would kill the process.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|error| failed(&error))?;
        Ok((file.into(), InflightArea { bytes, offset: 0, rings, size }))
    }

    /// Maps the memory in `file`, which is new or was used by an earlier process.
    pub fn open(file: OwnedFd, area: InflightArea, rings_max: u16) -> Result<Self, String> {
        let InflightArea { bytes, offset, rings, size } = area;
        check(rings, size, rings_max)?;
        let needed = area_bytes(rings, size);
        let file = File::from(file);
        let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= file_bytes);
        if bytes != needed || !fits || !offset.is_multiple_of(ALIGNMENT) {
            return Err(format!(
                "in-flight requests in {bytes} bytes at offset {offset} of a file of {file_bytes} bytes; {rings} rings of {size} \
                 entries take {needed} bytes"
            ));
        }
        // Without this seal, the front-end could shrink the file and kill this process.
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(
                "in-flight requests in a file that can shrink; use the file from this device".to_owned()
            );
        }
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let range = (GuestAddress(0), bytes, Some(FileOffset::new(file, offset)));
        let memory = GuestMemoryMmap::from_ranges_with_files([range])
            .map_err(|error| format!("cannot map in-flight requests: {error}"))?;
        Ok(Self { memory, rings, size, numbers: vec![1; rings.into()] })
    }

    /// True if there is an area for `ring`.
    pub fn has(&self, ring: usize) -> bool {
        ring < self.rings.into()
    }

    /// Returns the requests of `ring` left in flight by another process, oldest first.
    ///
    /// `used` is the used index of the ring, `size` its number of descriptors.
    pub fn recover(&mut self, ring: usize, used: u16, size: u16) -> Result<Vec<u16>, String> {
        if size > self.size {
            return Err(format!(
                "a ring of {size} descriptors with {} entries for in-flight requests",
                self.size
            ));
        }
        let at = self.area(ring)?;
        // Version 0 marks an area that no process has used.
        if self.load::<u16>(at + VERSION)? == 0 {
            self.store(at + VERSION, 1_u16)?;
            self.store(at + ENTRIES, self.size)?;
            self.store(at + USED, used)?;
        }
        if self.load::<u16>(at + USED)? != used {
            // The old process ended after it added a used entry and before step 3.
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

    /// Records request `head` of `ring` as in flight. A request from an earlier process keeps its number.
    pub fn take(&mut self, ring: usize, head: u16) -> Result<(), String> {
        let entry = self.entry(ring, head)?;
        if self.load::<u8>(entry + FLAG)? == 0 {
            // The number is stored before the flag, so a request with a set flag has a valid number.
            self.store(entry + NUMBER, self.numbers[ring])?;
            self.numbers[ring] = self.numbers[ring].wrapping_add(1);
            self.store(entry + FLAG, 1_u8)?;
        }
        Ok(())
    }

    /// Records that the next used entry will be `head`. Call this before adding the entry.
    pub fn begin_return(&self, ring: usize, head: u16) -> Result<(), String> {
        let (at, entry) = (self.area(ring)?, self.entry(ring, head)?);
        self.store(entry + BATCH, self.load::<u16>(at + LAST)?)?;
        self.store(at + LAST, head)
    }

    /// Records that the used entry of `head` was added and the used index is now `used`.
    pub fn end_return(&self, ring: usize, head: u16, used: u16) -> Result<(), String> {
        let (at, entry) = (self.area(ring)?, self.entry(ring, head)?);
        self.store(entry + FLAG, 0_u8)?;
        self.store(at + USED, used)
    }

    /// True if the guest has disabled the write cache. The guest does not repeat this to a new process.
    pub fn is_write_through(&self) -> Result<bool, String> {
        Ok(self.load::<u8>(self.tail())? != 0)
    }

    /// Records the write cache switch of the guest.
    pub fn set_write_through(&self, is_write_through: bool) -> Result<(), String> {
        self.store(self.tail(), u8::from(is_write_through))
    }

    fn tail(&self) -> u64 {
        u64::from(self.rings) * ring_bytes(self.size)
    }

    fn area(&self, ring: usize) -> Result<u64, String> {
        if self.has(ring) {
            Ok(ring as u64 * ring_bytes(self.size))
        } else {
            Err(format!("no area for ring {ring}"))
        }
    }

    fn entry(&self, ring: usize, head: u16) -> Result<u64, String> {
        if head >= self.size {
            return Err(format!("request {head} with {} entries for in-flight requests", self.size));
        }
        Ok(self.area(ring)? + HEADER_BYTES + u64::from(head) * ENTRY_BYTES)
    }

    fn load<T: vm_memory::AtomicAccess>(&self, at: u64) -> Result<T, String> {
        self.memory.load(GuestAddress(at), Ordering::Acquire).map_err(|error| error.to_string())
    }

    /// Release order: another process sees the stores in program order.
    fn store<T: vm_memory::AtomicAccess>(&self, at: u64, value: T) -> Result<(), String> {
        self.memory.store(value, GuestAddress(at), Ordering::Release).map_err(|error| error.to_string())
    }
}

fn check(rings: u16, size: u16, rings_max: u16) -> Result<(), String> {
    if (1..=rings_max).contains(&rings) && (1..=SIZE_MAX).contains(&size) {
        return Ok(());
    }
    Err(format!(
        "in-flight requests of {rings} rings of {size} descriptors; up to {rings_max} rings of {SIZE_MAX} are allowed"
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
        // The used entry was added, and the process ended.
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
