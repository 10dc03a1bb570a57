//! The drive as an NVMe controller on PCI.
//!
//! User-Mode Linux accesses PCI by messages over a virtio device. Ring 0 carries the guest's reads and
//! writes, ring 1 buffers for interrupts. While the guest reads a register, time stands still: the answer is
//! in the ring before the kick is acknowledged. The guest does not wait for writes, so a doorbell takes no
//! time.

mod controller;
mod pci;
mod prp;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::Read as _;

use strobe_virtio::{Chain, Returned};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use self::controller::Controller;
use self::pci::{Message, Op, Space};
use crate::attached::{Attached, DiskOptions};
use crate::port::Device;

const COMMANDS: usize = 0;
const INTERRUPTS: usize = 1;
const RING_INDIRECT_DESC: u64 = 1 << 28;
const VERSION_1: u64 = 1 << 32;
const BYTES_MAX: usize = 4096;
/// Number of posted writes after which an interrupt returns their buffers to the guest.
///
/// The ring has 256 buffers. Until the guest can be interrupted, it may post further writes, fewer than a
/// queue has entries.
const POSTED_MAX: usize = 64;

pub(crate) struct Nvme {
    pub(crate) drive: Attached,
    space: Space,
    controller: Controller,
    answered: Vec<Returned>,
    posted: Vec<Returned>,
    buffers: VecDeque<(u16, GuestAddress, usize)>,
    /// True if the guest must be interrupted as soon as it waits.
    interrupts: bool,
    last_ns: u64,
}

impl Nvme {
    pub(crate) fn new(drive: Attached, options: DiskOptions) -> Self {
        Self {
            drive,
            space: Space::new(),
            controller: Controller::new(options),
            answered: Vec::new(),
            posted: Vec::new(),
            buffers: VecDeque::new(),
            interrupts: false,
            last_ns: 0,
        }
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        // Interrupts and returned buffers are due at once, at the time of the last message.
        let can_interrupt = self.interrupts && !self.buffers.is_empty();
        let own = (can_interrupt || self.posted.len() >= POSTED_MAX).then_some(self.last_ns);
        [own, self.drive.next_event()].into_iter().flatten().min()
    }

    fn carry_out(
        &mut self,
        message: Message,
        data: &[u8],
        guest_ns: u64,
        memory: &GuestMemoryMmap,
    ) -> Option<Vec<u8>> {
        let bytes = (message.bytes as usize).min(BYTES_MAX);
        match message.op {
            Op::ReadConfig => return Some(self.space.read(message.address, bytes)),
            Op::Read if message.bar == 0 => return Some(self.controller.read(message.address, bytes)),
            // Other BARs do not exist.
            Op::Read => return Some(vec![0xff; bytes]),
            Op::WriteConfig => self.space.write(message.address, &data[..bytes.min(data.len())]),
            Op::Write if message.bar == 0 => {
                let data = &data[..bytes.min(data.len())];
                self.interrupts |=
                    self.controller.write(message.address, data, guest_ns, memory, &mut self.drive);
            }
            Op::Write | Op::Other => {}
        }
        None
    }

    fn interrupt(&mut self, memory: &GuestMemoryMmap) -> Result<Option<Returned>, String> {
        let Some(message) = self.space.interrupt() else { return Ok(None) };
        let Some((head, address, bytes)) = self.buffers.pop_front() else { return Ok(None) };
        let message = &message[..message.len().min(bytes)];
        memory.write_slice(message, address).map_err(|error| format!("the guest's memory: {error}"))?;
        self.interrupts = false;
        Ok(Some(Returned { ring: INTERRUPTS, head, written: message.len() as u32 }))
    }
}

impl Device for Nvme {
    fn rings(&self) -> usize {
        2
    }

    fn offered_features(&self) -> u64 {
        RING_INDIRECT_DESC | VERSION_1
    }

    fn set_features(&mut self, _features: u64) {}

    /// False: buffers of writes return in batches, not one by one.
    fn uses_event_index(&self) -> bool {
        false
    }

    fn config_space(&self) -> Vec<u8> {
        Vec::new()
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8]) {}

    fn take(
        &mut self,
        ring: usize,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
    ) -> Result<(), String> {
        let broken = |what: &str| format!("a message of the guest to its PCI device {what}");
        let no_memory = |_| broken("uses memory that it does not have");
        self.last_ns = guest_ns;
        let head = chain.head_index();
        let response = chain.clone().writable().next().map(|part| (part.addr(), part.len() as usize));
        // On this ring the guest only provides buffers.
        if ring == INTERRUPTS {
            let (address, bytes) = response.ok_or_else(|| broken("has no space for an interrupt"))?;
            self.buffers.push_back((head, address, bytes));
            return Ok(());
        }
        let mut input = chain.clone().reader(memory).map_err(no_memory)?;
        if input.available_bytes() > Message::BYTES + BYTES_MAX {
            return Err(broken("is too long"));
        }
        let mut header = [0; Message::BYTES];
        input.read_exact(&mut header).map_err(|_| broken("has no header"))?;
        let mut data = Vec::new();
        input.read_to_end(&mut data).map_err(|_| broken("cannot be read"))?;
        let message = Message::parse(header);
        let answer = self.carry_out(message, &data, guest_ns, memory).unwrap_or_default();
        // Without a buffer for an answer, the message is a write.
        let Some((address, bytes)) = response else {
            self.posted.push(Returned { ring: COMMANDS, head, written: 0 });
            return Ok(());
        };
        let answer = &answer[..answer.len().min(bytes)];
        memory.write_slice(answer, address).map_err(|error| format!("the guest's memory: {error}"))?;
        self.answered.push(Returned { ring: COMMANDS, head, written: answer.len() as u32 });
        Ok(())
    }

    fn answered(&mut self) -> Vec<Returned> {
        std::mem::take(&mut self.answered)
    }

    fn next_event(&self) -> Option<u64> {
        Nvme::next_event(self)
    }

    fn advance(&mut self, guest_ns: u64, memory: Option<&GuestMemoryMmap>) -> Result<Vec<Returned>, String> {
        self.interrupts |= self.controller.advance(guest_ns, memory, &mut self.drive);
        let mut returned = match self.posted.len() {
            POSTED_MAX.. => std::mem::take(&mut self.posted),
            _ => Vec::new(),
        };
        if let Some(memory) = memory
            && self.interrupts
        {
            returned.extend(self.interrupt(memory)?);
        }
        Ok(returned)
    }
}
