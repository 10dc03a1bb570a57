//! The controller: registers, queues, and the commands in them.

use std::collections::BTreeMap;

use strobe_nvme::{After, Begun, CommandSet, Effect, Entry, Options, PAGE_BYTES, Queue, Registers, Status};
use strobe_ssd::{Command, CommandError};
use vm_memory::GuestMemoryMmap;

use super::prp::Pieces;
use super::queue::{IO_QUEUES_MAX, Queues, WrongDoorbell};
use crate::attached::{Attached, DiskOptions};

/// Commands on queues, which are those of PCI alone.
mod opcode {
    pub(super) const DELETE_SUBMISSION: u8 = 0x00;
    pub(super) const CREATE_SUBMISSION: u8 = 0x01;
    pub(super) const DELETE_COMPLETION: u8 = 0x04;
    pub(super) const CREATE_COMPLETION: u8 = 0x05;
}

/// A command that is under way.
struct Room {
    queue: u16,
    id: u16,
    /// Destination of its data.
    to: Option<Pieces>,
    result: u32,
    /// Rest of the command once the drive has answered.
    after: After,
    /// True if a flush has to follow.
    is_forced: bool,
    /// Data that the drive has read, while that flush is under way.
    read: Option<Vec<u8>>,
    /// Status unless the drive reports another one.
    status: Status,
}

pub(super) struct Controller {
    registers: Registers,
    queues: Queues,
    commands: CommandSet,
    /// By tag. Commands of before a reset have none.
    rooms: BTreeMap<u64, Room>,
    /// The flush by which the controller shuts down.
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
            rooms: BTreeMap::new(),
            last_flush: None,
        }
    }

    pub(super) fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.registers.read(address, bytes)
    }

    /// Handles a register write of the guest. Returns true if the guest is to be interrupted.
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
                self.rooms.clear();
                self.last_flush = None;
                return false;
            }
            Effect::Shutdown => {
                let tag = drive.new_tag();
                drive.send(drive.time(guest_ns), tag, &[Command::Flush], None);
                self.last_flush = Some(tag);
                return false;
            }
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

    /// Begins a command: what is refused, and what the drive has no part in, is complete at once.
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
        let mut room = Room { queue, id, to: None, result: 0, after, is_forced, read: None, status };
        let begun = match self.carry_out(queue, entry, guest_ns, memory, drive, &mut room) {
            Ok(begun) => begun,
            Err(status) => {
                room.status = status;
                drive.answer(drive.time(guest_ns), tag, Err(CommandError::Unsupported));
                self.rooms.insert(tag, room);
                return;
            }
        };
        let now = drive.time(guest_ns);
        match begun {
            Begun::Never => return,
            Begun::Done { data, result } => {
                room.result = result;
                room.after = if room.to.is_some() { After::Data(data.len()) } else { After::Nothing };
                drive.answer(now, tag, Ok(data));
            }
            Begun::Work { work, is_forced } => {
                room.is_forced = is_forced;
                room.after = work.submit(|command: Command<'_>, data| drive.send(now, tag, &[command], data));
            }
        }
        self.rooms.insert(tag, room);
    }

    /// Begins a command that is well formed, and finds where its data goes.
    fn carry_out(
        &mut self,
        queue: u16,
        entry: &Entry,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
        room: &mut Room,
    ) -> Result<Begun, Status> {
        // One of a fused pair, or with data that PRPs do not describe.
        if entry.flags() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if queue == 0 && self.manage_queue(entry)? {
            return Ok(Begun::Done { data: Vec::new(), result: 0 });
        }
        let kind = if queue == 0 { Queue::Admin } else { Queue::Io };
        let pieces = |bytes| Pieces::of(memory, entry.pointers(), bytes, PAGE_BYTES);
        let data = match self.commands.input_bytes(kind, entry)? {
            0 => Vec::new(),
            bytes => pieces(bytes)?.read(memory)?,
        };
        let now = drive.time(guest_ns);
        let begun = self.commands.begin(kind, entry, data, now, drive.target.drive_mut())?;
        room.to = match begun.output_bytes() {
            0 => None,
            bytes => Some(pieces(bytes)?),
        };
        Ok(begun)
    }

    /// Carries out a command on a queue; false if it is another one.
    fn manage_queue(&mut self, entry: &Entry) -> Result<bool, Status> {
        let number = entry.dword(10) as u16;
        let entries = (entry.dword(10) >> 16) + 1;
        let base = entry.qword(6);
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
                // There is one interrupt.
                if entry.dword(11) >> 16 != 0 {
                    return Err(Status::INVALID_VECTOR);
                }
                self.queues.create_completion(number, base, entries, entry.dword(11) & 2 != 0)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lets time pass until `guest_ns`. Returns true if the guest is to be interrupted.
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
            let (Some(mut room), Some(memory)) = (self.rooms.remove(&answer.tag), memory) else { continue };
            let now = drive.time(guest_ns);
            let result = match (answer.result, room.read.take()) {
                (Ok(data), None) if room.is_forced => {
                    (room.is_forced, room.read) = (false, Some(data));
                    let tag = drive.new_tag();
                    drive.send(now, tag, &[Command::Flush], None);
                    self.rooms.insert(tag, room);
                    continue;
                }
                (result, read) => result.map(|data| read.unwrap_or(data)),
            };
            let finished = match room.status {
                Status::SUCCESS => self.commands.finish(room.after, result, now, drive.target.drive_mut()),
                refused => Err(refused),
            };
            let written = finished.and_then(|data| room.to.map_or(Ok(()), |to| to.write(memory, &data)));
            let status = written.err().unwrap_or(Status::SUCCESS);
            match self.queues.post(memory, room.queue, room.id, room.result, status) {
                Ok(tells) => interrupts |= tells,
                Err(WrongDoorbell) => self.registers.set_fatal(),
            }
        }
        interrupts
    }
}
