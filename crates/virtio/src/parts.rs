use vm_memory::{Bytes as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use crate::ring::Chain;

pub(crate) const HEADER_BYTES: usize = 16;

/// Maximum descriptors of a request, including header and status, as in a ring of 256.
pub const PARTS_MAX: usize = 256;

/// Buffers of a request. Their descriptors are read once, because a running guest could change them between
/// two reads.
pub(crate) struct Parts {
    pub(crate) readable: Vec<(GuestAddress, usize)>,
    pub(crate) writable: Vec<(GuestAddress, usize)>,
}

impl Parts {
    /// Returns the buffers of `chain`. Fails unless they lie in `memory` and include a readable header and a
    /// writable status byte.
    pub(crate) fn of(memory: &GuestMemoryMmap, chain: Chain<'_>) -> Result<Self, String> {
        let mut parts = Self { readable: Vec::new(), writable: Vec::new() };
        for (count, part) in chain.enumerate() {
            if count == PARTS_MAX {
                return Err(format!("has more than {PARTS_MAX} buffers"));
            }
            let bytes = part.len() as usize;
            if !memory.check_range(part.addr(), bytes) {
                return Err("uses memory it does not have".to_owned());
            }
            let list = if part.is_write_only() { &mut parts.writable } else { &mut parts.readable };
            list.push((part.addr(), bytes));
        }
        if parts.readable_bytes() < HEADER_BYTES {
            return Err("has no header".to_owned());
        }
        if parts.writable_bytes() == 0 {
            return Err("has no status".to_owned());
        }
        // Several descriptors may name the same memory. Without this limit, their sum could exceed the
        // guest's memory.
        let memory_bytes = memory.iter().fold(0, |sum: u64, region| sum.saturating_add(region.len()));
        if (parts.writable_bytes() - 1).max(parts.readable_bytes() - HEADER_BYTES) as u64 > memory_bytes {
            return Err("has more data than its memory".to_owned());
        }
        Ok(parts)
    }

    pub(crate) fn readable_bytes(&self) -> usize {
        self.readable.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn writable_bytes(&self) -> usize {
        self.writable.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.readable_bytes() - HEADER_BYTES + self.writable_bytes() - 1
    }

    /// Fills `buffer` with the first readable bytes.
    pub(crate) fn read(&self, memory: &GuestMemoryMmap, mut buffer: &mut [u8]) -> Result<(), String> {
        for &(address, bytes) in &self.readable {
            let (part, rest) = buffer.split_at_mut(bytes.min(buffer.len()));
            memory.read_slice(part, address).map_err(|error| error.to_string())?;
            buffer = rest;
        }
        Ok(())
    }
}
