//! The controller: registers, queues, and the commands in them.

use std::collections::BTreeMap;

use strobe_ssd::{Command, CommandError};
use vm_memory::GuestMemoryMmap;

use super::admin::{Admin, Answer};
use super::io::{self, Asked};
use super::pages::PAGE_BYTES;
use super::placement::Managed;
use super::prp::Pieces;
use super::queue::{Entry, Queues, Status, WrongDoorbell};
use super::registers::{Effect, Registers};
use crate::attached::{Attached, DiskOptions};

/// A command that is under way.
struct Room {
    queue: u16,
    id: u16,
    /// Destination of its data.
    to: Option<Pieces>,
    result: u32,
    /// Placement handles that get empty reclaim units when it is done.
    update: Vec<u16>,
    /// Status unless the drive reports another one.
    status: Status,
}

pub(super) struct Controller {
    options: DiskOptions,
    registers: Registers,
    queues: Queues,
    admin: Admin,
    /// By tag. Commands of before a reset have none.
    rooms: BTreeMap<u64, Room>,
    /// The flush by which the controller shuts down.
    last_flush: Option<u64>,
}

impl Controller {
    pub(super) fn new(options: DiskOptions) -> Self {
        let admin = Admin::new(&options);
        Self {
            options,
            registers: Registers::default(),
            queues: Queues::default(),
            admin,
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
                drive.target.drive_mut().set_write_cache(self.admin.write_cache);
                return false;
            }
            Effect::Reset => {
                self.queues = Queues::default();
                self.admin.reset(&self.options);
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
        let mut room =
            Room { queue, id: entry.id(), to: None, result: 0, update: Vec::new(), status: Status::SUCCESS };
        let begun = match queue {
            _ if entry.is_unusual() => Err(Status::INVALID_FIELD),
            0 => self.begin_admin(tag, entry, guest_ns, memory, drive, &mut room),
            _ => self.begin_io(tag, entry, guest_ns, memory, drive, &mut room),
        };
        match begun {
            Ok(true) => {}
            Ok(false) => return,
            Err(status) => {
                room.status = status;
                drive.answer(drive.time(guest_ns), tag, Err(CommandError::Unsupported));
            }
        }
        self.rooms.insert(tag, room);
    }

    /// Begins an admin command. Returns true if it will be answered.
    fn begin_admin(
        &mut self,
        tag: u64,
        entry: &Entry,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
        room: &mut Room,
    ) -> Result<bool, Status> {
        let Self { admin, queues, options, .. } = self;
        let data = match admin.carry_out(entry, queues, memory, drive, options, guest_ns)? {
            Answer::Never => return Ok(false),
            Answer::Result(result) => {
                room.result = result;
                Vec::new()
            }
            Answer::Data(data, result) => {
                room.result = result;
                room.to = Some(Pieces::of(memory, entry.pointers(), data.len(), PAGE_BYTES)?);
                data
            }
        };
        drive.answer(drive.time(guest_ns), tag, Ok(data));
        Ok(true)
    }

    fn begin_io(
        &mut self,
        tag: u64,
        entry: &Entry,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        drive: &mut Attached,
        room: &mut Room,
    ) -> Result<bool, Status> {
        let now = drive.time(guest_ns);
        match self.admin.placement.manage(entry, memory, drive)? {
            None => {}
            Some(Managed::Nothing) => {
                drive.answer(now, tag, Ok(Vec::new()));
                return Ok(true);
            }
            Some(Managed::Status(bytes, to)) => {
                room.to = Some(to);
                drive.answer(now, tag, Ok(bytes));
                return Ok(true);
            }
            Some(Managed::Update(handles)) => {
                // What has been written belongs to the units of before, also what is still in the write buffer.
                room.update = handles;
                drive.send(now, tag, &[Command::Flush], None);
                return Ok(true);
            }
        }
        let mut asked = io::parse(entry, memory, &self.options, self.admin.write_cache)?;
        if let Asked::Write { tag, .. } = &mut asked {
            tag.handle = self.admin.placement.handle_of(entry, guest_ns, drive)?;
        }
        let mut send = |command: Command<'_>, data| drive.send(now, tag, &[command], data);
        match asked {
            Asked::Nothing => drive.answer(now, tag, Ok(Vec::new())),
            Asked::Flush => send(Command::Flush, None),
            Asked::Read { range, to } => {
                room.to = Some(to);
                send(Command::Read { range }, None);
            }
            Asked::Write { range, fua, tag, data } => {
                send(Command::Write { range, fua, tag }, Some(&data));
            }
            Asked::WriteZeroes { range, deallocate } => {
                send(Command::WriteZeroes { range, deallocate }, None);
            }
            Asked::Deallocate(ranges) => send(Command::Deallocate(&ranges), None),
            Asked::Copy { destination, sources } => {
                send(Command::Copy { destination, sources: &sources }, None);
            }
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
            let (Some(room), Some(memory)) = (self.rooms.remove(&answer.tag), memory) else { continue };
            let status = match (answer.result, &room.to) {
                (Err(_), _) if room.status != Status::SUCCESS => room.status,
                (Err(error), _) => Status::of(&error),
                (Ok(_), _) if !room.update.is_empty() => {
                    let updated = self.admin.placement.update(&room.update, guest_ns, drive);
                    updated.err().unwrap_or(Status::SUCCESS)
                }
                (Ok(data), Some(to)) => to.write(memory, &data).err().unwrap_or(Status::SUCCESS),
                (Ok(_), None) => Status::SUCCESS,
            };
            match self.queues.post(memory, room.queue, room.id, room.result, status) {
                Ok(tells) => interrupts |= tells,
                Err(WrongDoorbell) => self.registers.set_fatal(),
            }
        }
        interrupts
    }
}
