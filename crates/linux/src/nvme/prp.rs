//! Physical region pages (PRP): addresses of a command's data (NVMe base specification 2.0, section 4.1.1).

use strobe_nvme::Status;
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces(Vec<(u64, usize)>);

impl Pieces {
    pub(super) fn of(
        memory: &GuestMemoryMmap,
        [first, second]: [u64; 2],
        bytes: usize,
        page_bytes: usize,
    ) -> Result<Self, Status> {
        let offset = (first % page_bytes as u64) as usize;
        let mut pieces = Self(Vec::new());
        if !offset.is_multiple_of(4) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        // Only the first entry may start within a page.
        let here = bytes.min(page_bytes - offset);
        pieces.0.push((first, here));
        let mut left = bytes - here;
        if left == 0 {
            return Ok(pieces);
        }
        // For at most two pages, the second entry is an address and not a list.
        if left <= page_bytes {
            return pieces.and(second, left, page_bytes);
        }
        // PRP list. If it continues, the last entry of a page is the address of the next page.
        let (mut list, mut at) = (second, (second % page_bytes as u64) as usize);
        if !at.is_multiple_of(8) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        while left > 0 {
            let entry: u64 =
                memory.read_obj(GuestAddress(list)).map_err(|_| Status::DATA_TRANSFER).map(u64::from_le)?;
            if at + 8 == page_bytes && left > page_bytes {
                if !entry.is_multiple_of(page_bytes as u64) {
                    return Err(Status::INVALID_PRP_OFFSET);
                }
                (list, at) = (entry, 0);
                continue;
            }
            let here = left.min(page_bytes);
            pieces = pieces.and(entry, here, page_bytes)?;
            left -= here;
            (list, at) = (list.checked_add(8).ok_or(Status::DATA_TRANSFER)?, at + 8);
        }
        Ok(pieces)
    }

    fn and(mut self, page: u64, bytes: usize, page_bytes: usize) -> Result<Self, Status> {
        if !page.is_multiple_of(page_bytes as u64) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        self.0.push((page, bytes));
        Ok(self)
    }

    pub(super) fn read(&self, memory: &GuestMemoryMmap) -> Result<Vec<u8>, Status> {
        let mut data = vec![0; self.0.iter().map(|(_, bytes)| bytes).sum()];
        let mut rest = &mut data[..];
        for &(address, bytes) in &self.0 {
            let (part, behind) = rest.split_at_mut(bytes);
            memory.read_slice(part, GuestAddress(address)).map_err(|_| Status::DATA_TRANSFER)?;
            rest = behind;
        }
        Ok(data)
    }

    pub(super) fn write(&self, memory: &GuestMemoryMmap, data: &[u8]) -> Result<(), Status> {
        let mut rest = data;
        for &(address, bytes) in &self.0 {
            let (part, behind) = rest.split_at(bytes.min(rest.len()));
            memory.write_slice(part, GuestAddress(address)).map_err(|_| Status::DATA_TRANSFER)?;
            rest = behind;
        }
        Ok(())
    }
}
