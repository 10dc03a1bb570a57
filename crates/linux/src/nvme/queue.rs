//! Submission and completion queues in guest memory (NVMe base specification 2.0, section 3.3).

use std::collections::{BTreeMap, VecDeque};

use strobe_nvme::{ENTRIES_MAX, Entry, Status};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

pub(super) const IO_QUEUES_MAX: u16 = 64;
const SUBMISSION_BYTES: u64 = Entry::BYTES as u64;
const COMPLETION_BYTES: u64 = 16;

struct Submission {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
    completion: u16,
}

struct Completion {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
    phase: bool,
    interrupts: bool,
    waiting: VecDeque<Done>,
}

#[derive(Clone, Copy)]
struct Done {
    result: u32,
    submission: u16,
    id: u16,
    status: Status,
}

/// Queues by number; 0 is the admin queue.
#[derive(Default)]
pub(super) struct Queues {
    submission: BTreeMap<u16, Submission>,
    completion: BTreeMap<u16, Completion>,
}

pub(super) struct WrongDoorbell;

impl Queues {
    pub(super) fn create_completion(
        &mut self,
        number: u16,
        base: u64,
        entries: u32,
        interrupts: bool,
    ) -> Result<(), Status> {
        self.check_new(number, entries, self.completion.contains_key(&number))?;
        let queue =
            Completion { base, entries, head: 0, tail: 0, phase: true, interrupts, waiting: VecDeque::new() };
        self.completion.insert(number, queue);
        Ok(())
    }

    pub(super) fn create_submission(
        &mut self,
        number: u16,
        base: u64,
        entries: u32,
        completion: u16,
    ) -> Result<(), Status> {
        self.check_new(number, entries, self.submission.contains_key(&number))?;
        if !self.completion.contains_key(&completion) {
            return Err(Status::INVALID_COMPLETION_QUEUE);
        }
        self.submission.insert(number, Submission { base, entries, head: 0, tail: 0, completion });
        Ok(())
    }

    fn check_new(&self, number: u16, entries: u32, is_there: bool) -> Result<(), Status> {
        if number > IO_QUEUES_MAX || is_there {
            return Err(Status::INVALID_QUEUE);
        }
        if !(2..=ENTRIES_MAX).contains(&entries) {
            return Err(Status::INVALID_QUEUE_SIZE);
        }
        Ok(())
    }

    pub(super) fn delete_submission(&mut self, number: u16) -> Result<(), Status> {
        match number {
            0 => Err(Status::INVALID_QUEUE),
            _ => self.submission.remove(&number).map(drop).ok_or(Status::INVALID_QUEUE),
        }
    }

    pub(super) fn delete_completion(&mut self, number: u16) -> Result<(), Status> {
        if number == 0 || !self.completion.contains_key(&number) {
            return Err(Status::INVALID_QUEUE);
        }
        if self.submission.values().any(|queue| queue.completion == number) {
            return Err(Status::QUEUE_IN_USE);
        }
        self.completion.remove(&number);
        Ok(())
    }

    pub(super) fn ring_submission(&mut self, number: u16, tail: u32) -> Result<(), WrongDoorbell> {
        let queue = self.submission.get_mut(&number).ok_or(WrongDoorbell)?;
        if tail >= queue.entries {
            return Err(WrongDoorbell);
        }
        queue.tail = tail;
        Ok(())
    }

    pub(super) fn ring_completion(
        &mut self,
        memory: &GuestMemoryMmap,
        number: u16,
        head: u32,
    ) -> Result<bool, WrongDoorbell> {
        let Some(queue) = self.completion.get_mut(&number) else { return Err(WrongDoorbell) };
        if head >= queue.entries {
            return Err(WrongDoorbell);
        }
        queue.head = head;
        // Completions that waited for a free entry need another interrupt.
        let had_waiting = !queue.waiting.is_empty();
        self.write_waiting(memory, number).map_err(|_| WrongDoorbell)?;
        Ok(had_waiting && self.completion.get(&number).is_some_and(|queue| queue.interrupts))
    }

    /// Takes an entry from the non-empty queue with the lowest number. An error if the entry is not in
    /// memory.
    pub(super) fn fetch(&mut self, memory: &GuestMemoryMmap) -> Result<Option<(u16, Entry)>, WrongDoorbell> {
        let Some((&number, queue)) = self.submission.iter_mut().find(|(_, queue)| queue.head != queue.tail)
        else {
            return Ok(None);
        };
        let mut entry = Entry([0; Entry::BYTES]);
        let at = queue.base.checked_add(u64::from(queue.head) * SUBMISSION_BYTES).ok_or(WrongDoorbell)?;
        memory.read_slice(&mut entry.0, GuestAddress(at)).map_err(|_| WrongDoorbell)?;
        queue.head = (queue.head + 1) % queue.entries;
        Ok(Some((number, entry)))
    }

    /// Returns true if the guest wants an interrupt. Completions of deleted queues are dropped.
    pub(super) fn post(
        &mut self,
        memory: &GuestMemoryMmap,
        submission: u16,
        id: u16,
        result: u32,
        status: Status,
    ) -> Result<bool, WrongDoorbell> {
        let Some(number) = self.submission.get(&submission).map(|queue| queue.completion) else {
            return Ok(false);
        };
        let Some(queue) = self.completion.get_mut(&number) else { return Ok(false) };
        queue.waiting.push_back(Done { result, submission, id, status });
        let interrupts = queue.interrupts;
        self.write_waiting(memory, number)?;
        Ok(interrupts)
    }

    fn write_waiting(&mut self, memory: &GuestMemoryMmap, number: u16) -> Result<(), WrongDoorbell> {
        let Some(queue) = self.completion.get_mut(&number) else { return Ok(()) };
        // One entry of a ring stays free. Further completions wait until the guest's head doorbell frees
        // entries.
        while (queue.tail + 1) % queue.entries != queue.head
            && let Some(done) = queue.waiting.pop_front()
        {
            let head = self.submission.get(&done.submission).map_or(0, |queue| queue.head);
            let status = u32::from(done.status.0) << 17 | u32::from(queue.phase) << 16 | u32::from(done.id);
            let words = [done.result, 0, u32::from(done.submission) << 16 | head, status];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let at = queue.base.checked_add(u64::from(queue.tail) * COMPLETION_BYTES).ok_or(WrongDoorbell)?;
            memory.write_slice(&bytes, GuestAddress(at)).map_err(|_| WrongDoorbell)?;
            queue.tail = (queue.tail + 1) % queue.entries;
            // The phase tag is inverted each time the ring wraps around.
            queue.phase ^= queue.tail == 0;
        }
        Ok(())
    }
}
