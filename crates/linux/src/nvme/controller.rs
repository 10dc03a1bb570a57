//! NVMe controller on PCI: registers, queues and commands.

use std::collections::BTreeMap;

use strobe_nvme::{After, Begun, CommandSet, Effect, Entry, Options, PAGE_BYTES, Queue, Registers, Status};
use strobe_ssd::{Command, CommandError};
use vm_memory::GuestMemoryMmap;

use super::prp::Pieces;
use super::queue::{IO_QUEUES_MAX, Queues, WrongDoorbell};
use crate::attached::{Attached, DiskOptions};

/// Queue management commands, which exist only on PCI.
mod opcode {
    pub(super) const DELETE_SUBMISSION: u8 = 0x00;
    pub(super) const CREATE_SUBMISSION: u8 = 0x01;
    pub(super) const DELETE_COMPLETION: u8 = 0x04;
    pub(super) const CREATE_COMPLETION: u8 = 0x05;
}

struct InFlight {
    queue: u16,
    id: u16,
    to: Option<Pieces>,
    result: u32,
    after: After,
    is_forced: bool,
    read: Option<Vec<u8>>,
    status: Status,
}

pub(super) struct Controller {
    registers: Registers,
    queues: Queues,
    commands: CommandSet,
    /// In-flight commands by tag. Commands from before a reset are removed.
    in_flight: BTreeMap<u64, InFlight>,
    last_flush: Option<u64>,
}

impl Controller {
    pub(super) fn new(options: DiskOptions) -> Self {
        let DiskOptions { discard_segments, copy, write_cache, number, .. } = options;
        let io_queues = IO_QUEUES_MAX;
        let options =
            Options { discard_segments, copy, write_cache, io_queues, number, ..Options::default() };
        Self {
            registers: Registers::default(),
            queues: Queues::default(),
            commands: CommandSet::new(options),
            in_flight: BTreeMap::new(),
            last_flush: None,
        }
    }

    pub(super) fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.registers.read(address, bytes)
    }

    pub(super) fn write(
        &mut self,
        address: u64,
        data: &[u8],
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
    ) -> bool {
        let mut interrupts = false;
        for (number, word) in (0_u64..).zip(data.chunks_exact(4)) {
            let Some(at) = address.checked_add(4 * number) else { break };
            let word = word.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte));
            interrupts |= self.write_word(at, word, guest_ns, memory, drive);
        }
        interrupts
    }

    fn write_word(
        &mut self,
        address: u64,
        word: u32,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
    ) -> bool {
        let rung = match self.registers.write(address, word) {
            Effect::Nothing => return false,
            Effect::Enable => {
                match self.enable() {
                    Ok(()) => self.registers.set_ready(),
                    Err(_) => self.registers.set_fatal(),
                }
                drive.target.drive_mut().set_write_cache(self.commands.write_cache());
                return false;
            }
            Effect::Reset => {
                self.queues = Queues::default();
                self.commands.reset();
                // Answers to commands from before the reset find no entry and are dropped.
                self.in_flight.clear();
                self.last_flush = None;
                return false;
            }
            Effect::Shutdown => {
                // The shutdown is complete when this flush is.
                let tag = drive.new_tag();
                drive.send(drive.time(guest_ns), tag, &[Command::Flush], None);
                self.last_flush = Some(tag);
                return false;
            }
            // Doorbells of a disabled controller are ignored.
            _ if !self.registers.is_ready() => return false,
            Effect::Completion { queue, head } => self.queues.ring_completion(memory, queue, head),
            Effect::Submission { queue, tail } => self.queues.ring_submission(queue, tail).and_then(|()| {
                while let Some((queue, entry)) = self.queues.fetch(memory)? {
                    self.begin(queue, &entry, guest_ns, memory, drive);
                }
                Ok(false)
            }),
        };
        rung.unwrap_or_else(|WrongDoorbell| {
            self.registers.set_fatal();
            false
        })
    }

    fn enable(&mut self) -> Result<(), Status> {
        let [(submissions, from), (completions, to)] = self.registers.admin().ok_or(Status::INVALID_FIELD)?;
        self.queues.create_completion(0, to, completions, true)?;
        self.queues.create_submission(0, from, submissions, 0)
    }

    /// Starts a command. Refused commands and commands without drive work complete at once.
    fn begin(
        &mut self,
        queue: u16,
        entry: &Entry,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
    ) {
        let tag = drive.new_tag();
        let (after, status) = (After::Nothing, Status::SUCCESS);
        let (id, is_forced) = (entry.id(), false);
        let mut command = InFlight { queue, id, to: None, result: 0, after, is_forced, read: None, status };
        let begun = match self.carry_out(queue, entry, guest_ns, memory, drive, &mut command) {
            Ok(begun) => begun,
            Err(status) => {
                // A refusal takes the path of an answer. Its status replaces the drive's.
                command.status = status;
                drive.answer(drive.time(guest_ns), tag, Err(CommandError::Unsupported));
                self.in_flight.insert(tag, command);
                return;
            }
        };
        let now = drive.time(guest_ns);
        match begun {
            Begun::Never => return,
            Begun::Done { data, result } => {
                command.result = result;
                command.after = if command.to.is_some() { After::Data(data.len()) } else { After::Nothing };
                drive.answer(now, tag, Ok(data));
            }
            Begun::Work { work, is_forced } => {
                command.is_forced = is_forced;
                command.after =
                    work.submit(|command: Command<'_>, data| drive.send(now, tag, &[command], data));
            }
        }
        self.in_flight.insert(tag, command);
    }

    fn carry_out(
        &mut self,
        queue: u16,
        entry: &Entry,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
        command: &mut InFlight,
    ) -> Result<Begun, Status> {
        // Fused commands and SGLs are not supported.
        if entry.flags() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if queue == 0 && self.manage_queue(entry)? {
            return Ok(Begun::Done { data: Vec::new(), result: 0 });
        }
        let kind = if queue == 0 { Queue::Admin } else { Queue::Io };
        let pieces = |bytes| Pieces::of(memory, entry.pointers(), bytes, PAGE_BYTES);
        // Host data is read when the command begins, not when the drive executes it.
        let data = match self.commands.input_bytes(kind, entry)? {
            0 => Vec::new(),
            bytes => pieces(bytes)?.read(memory)?,
        };
        let now = drive.time(guest_ns);
        let begun = self.commands.begin(kind, entry, data, now, drive.target.drive_mut())?;
        command.to = match begun.output_bytes() {
            0 => None,
            bytes => Some(pieces(bytes)?),
        };
        Ok(begun)
    }

    fn manage_queue(&mut self, entry: &Entry) -> Result<bool, Status> {
        let number = entry.dword(10) as u16;
        let entries = (entry.dword(10) >> 16) + 1;
        let base = entry.qword(6);
        // Queues must be physically contiguous (PC bit) and start at a page.
        let is_plain = || {
            if entry.dword(11) & 1 == 1 && base.is_multiple_of(PAGE_BYTES as u64) {
                Ok(())
            } else {
                Err(Status::INVALID_FIELD)
            }
        };
        match entry.opcode() {
            opcode::DELETE_SUBMISSION => self.queues.delete_submission(number)?,
            opcode::CREATE_SUBMISSION => {
                is_plain()?;
                self.queues.create_submission(number, base, entries, (entry.dword(11) >> 16) as u16)?;
            }
            opcode::DELETE_COMPLETION => self.queues.delete_completion(number)?,
            opcode::CREATE_COMPLETION => {
                is_plain()?;
                // There is one interrupt vector.
                if entry.dword(11) >> 16 != 0 {
                    return Err(Status::INVALID_VECTOR);
                }
                self.queues.create_completion(number, base, entries, entry.dword(11) & 2 != 0)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn advance(
        &mut self,
        guest_ns: u64,
        memory: Option<&GuestMemoryMmap>,
        drive: &mut Attached,
    ) -> bool {
        let mut interrupts = false;
        for answer in drive.advance(guest_ns) {
            if self.last_flush == Some(answer.tag) {
                self.registers.set_shut_down();
            }
            let (Some(mut command), Some(memory)) = (self.in_flight.remove(&answer.tag), memory) else {
                continue;
            };
            let now = drive.time(guest_ns);
            let result = match (answer.result, command.read.take()) {
                (Ok(data), None) if command.is_forced => {
                    // FUA, except of a write: the command completes only after a flush, and keeps its data
                    // until then.
                    (command.is_forced, command.read) = (false, Some(data));
                    let tag = drive.new_tag();
                    drive.send(now, tag, &[Command::Flush], None);
                    self.in_flight.insert(tag, command);
                    continue;
                }
                (result, read) => result.map(|data| read.unwrap_or(data)),
            };
            let finished = match command.status {
                Status::SUCCESS => self.commands.finish(command.after, result, now, drive.target.drive_mut()),
                refused => Err(refused),
            };
            let written = finished.and_then(|data| command.to.map_or(Ok(()), |to| to.write(memory, &data)));
            let status = written.err().unwrap_or(Status::SUCCESS);
            match self.queues.post(memory, command.queue, command.id, command.result, status) {
                Ok(tells) => interrupts |= tells,
                Err(WrongDoorbell) => self.registers.set_fatal(),
            }
        }
        interrupts
    }
}
