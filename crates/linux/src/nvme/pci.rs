//! PCI function: configuration space and access messages (`include/uapi/linux/virtio_pcidev.h`).

pub(super) const BAR_BYTES: u32 = 1 << 14;
const SPACE_BYTES: usize = 256;
const BAR: usize = 0x10;
const COMMAND: usize = 0x04;
const INTERRUPT_LINE: usize = 0x3c;
const MSI: usize = 0x50;
const MSI_CONTROL: usize = MSI + 2;
const MSI_ADDRESS: usize = MSI + 4;
const MSI_DATA: usize = MSI + 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    ReadConfig,
    WriteConfig,
    Read,
    Write,
    Other,
}

const OP_MSI: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) op: Op,
    pub(super) bar: u8,
    pub(super) bytes: u32,
    pub(super) address: u64,
}

impl Message {
    pub(super) const BYTES: usize = 16;

    pub(super) fn parse(bytes: [u8; Self::BYTES]) -> Self {
        let [op, bar, _, _, s0, s1, s2, s3, address @ ..] = bytes;
        let op = match op {
            1 => Op::ReadConfig,
            2 => Op::WriteConfig,
            3 => Op::Read,
            4 => Op::Write,
            _ => Op::Other,
        };
        let bytes = u32::from_le_bytes([s0, s1, s2, s3]);
        Self { op, bar, bytes, address: u64::from_le_bytes(address) }
    }
}

pub(super) struct Space([u8; SPACE_BYTES]);

impl Space {
    pub(super) fn new() -> Self {
        let mut space = Self([0; SPACE_BYTES]);
        // Unassigned vendor and device. The driver matches the class: storage, NVM Express.
        space.put(0x00, &0x5354_u16.to_le_bytes());
        space.put(0x02, &0x0001_u16.to_le_bytes());
        // Capability list present.
        space.put(0x06, &0x0010_u16.to_le_bytes());
        space.put(0x08, &[1, 0x02, 0x08, 0x01]);
        space.put(0x2c, &0x5354_u16.to_le_bytes());
        space.put(0x2e, &0x0001_u16.to_le_bytes());
        space.put(0x34, &[MSI as u8]);
        space.put(MSI, &[0x05, 0]);
        space.put(MSI_CONTROL, &0x0080_u16.to_le_bytes());
        space
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        let from = usize::try_from(address).unwrap_or(usize::MAX);
        (0..bytes)
            .map(|at| from.checked_add(at).and_then(|at| self.0.get(at)).copied().unwrap_or(0xff))
            .collect()
    }

    pub(super) fn write(&mut self, address: u64, data: &[u8]) {
        for (at, &byte) in data.iter().enumerate() {
            let Some(at) = usize::try_from(address).ok().and_then(|from| from.checked_add(at)) else {
                return;
            };
            let writable = match at {
                // Memory space, bus master, interrupt disable.
                COMMAND => 0x06,
                0x05 => 0x04,
                BAR..0x14 => !(BAR_BYTES - 1).to_le_bytes()[at - BAR],
                INTERRUPT_LINE => 0xff,
                MSI_CONTROL => 0x01,
                MSI_ADDRESS => 0xfc,
                _ if (MSI_ADDRESS..MSI_DATA + 2).contains(&at) => 0xff,
                _ => 0,
            };
            let Some(here) = self.0.get_mut(at) else { return };
            *here = *here & !writable | byte & writable;
        }
    }

    pub(super) fn interrupt(&self) -> Option<Vec<u8>> {
        if self.0[MSI_CONTROL] & 1 == 0 {
            return None;
        }
        let address = [&self.0[MSI_ADDRESS..MSI_ADDRESS + 8]];
        let data = &self.0[MSI_DATA..MSI_DATA + 2];
        Some([&[OP_MSI, 0, 0, 0, 2, 0, 0, 0], address[0], data].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(space: &Space, at: u64) -> u32 {
        u32::from_le_bytes(space.read(at, 4).try_into().expect("four bytes"))
    }

    #[test]
    fn a_guest_finds_the_class_the_size_of_the_bar_and_the_interrupt() {
        let mut space = Space::new();
        assert_eq!(word(&space, 0x08) >> 8, 0x01_0802, "NVM Express");
        space.write(0x10, &u32::MAX.to_le_bytes());
        assert_eq!(!word(&space, 0x10) + 1, BAR_BYTES);
        space.write(0x10, &0xf000_4000_u32.to_le_bytes());
        assert_eq!(word(&space, 0x10), 0xf000_4000);
        space.write(0x14, &u32::MAX.to_le_bytes());
        assert_eq!(word(&space, 0x14), 0, "no other BAR");
        assert_eq!(space.read(0x34, 1), [0x50]);
        assert_eq!(space.interrupt(), None);
        space.write(0x54, &0x000a_0000_u64.to_le_bytes());
        space.write(0x5c, &[37, 0]);
        space.write(0x52, &[0x81, 0]);
        assert_eq!(space.interrupt().expect("enabled")[8..], [0, 0, 10, 0, 0, 0, 0, 0, 37, 0]);
        assert_eq!(space.read(255, 3), [0, 0xff, 0xff]);
        assert_eq!(space.read(u64::MAX, 2), [0xff, 0xff]);
        space.write(u64::MAX, &[1, 2]);
    }
}
