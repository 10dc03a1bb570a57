//! Reads over a shared bus: steps of a reader, and the choice among readers.

use super::{ArrayTiming, Carry, Class, Group, Kind, NEVER, NONE, Phase, Sending, Step};
use strobe_types::SimTime;

use crate::EventKind;

impl ArrayTiming {
    #[inline(always)]
    pub(super) fn readers_of(&self, die: u32) -> std::ops::Range<usize> {
        let first = (die * self.readers_per_die) as usize;
        first..first + self.readers_per_die as usize
    }

    #[inline(always)]
    pub(super) fn reader_at(&self, die: u32, reader: u32) -> usize {
        (die * self.readers_per_die + reader) as usize
    }

    /// Race entry of a reader. The first reader uses the entry of its die, which does nothing else then.
    #[inline(always)]
    fn reader_runner(&self, die: u32, reader: u32) -> usize {
        match reader {
            0 => 2 * die as usize,
            _ => 2 * (self.dies.len() + (die * (self.readers_per_die - 1) + reader - 1) as usize),
        }
    }

    /// Ends the array read of a further reader. Entries of further readers follow the entries of the dies.
    #[cold]
    pub(super) fn end_reader(&mut self, behind: u32) {
        let at = behind - self.dies.len() as u32;
        let others = self.readers_per_die - 1;
        self.sensed(at / others, at % others + 1);
    }

    #[inline]
    pub(super) fn begin_read(&mut self, die: u32, reader: u32, group: Group) {
        let at = self.reader_at(die, reader);
        if self.config.command_ns > 0 {
            self.readers[at].array = Some((group, Step::Commands(group.first)));
            self.request_bus(die, group.class, Carry::Command(reader));
        } else {
            self.sense(die, reader, group);
        }
        if self.overlaps_reads {
            self.hold_for_reads(die)
        } else {
            self.hold(die, Phase::Readers, group.class)
        }
    }

    #[inline]
    fn sense(&mut self, die: u32, reader: u32, group: Group) {
        let at = self.reader_at(die, reader);
        self.readers[at].array = Some((group, Step::Sensing));
        let due = self.at(self.array_ns(Kind::Read, self.ops[group.first].page));
        let runner = self.reader_runner(die, reader);
        self.race.set(runner, due);
    }

    #[inline]
    fn hold_for_reads(&mut self, die: u32) {
        let class = match self.readers_per_die {
            1 => self.readers[die as usize].class(),
            _ => self.readers[self.readers_of(die)].iter().filter_map(|reader| reader.class()).min(),
        };
        let entry = &self.dies[die as usize];
        match class {
            None => self.free(die),
            Some(class) if entry.phase == Phase::Readers && entry.class == class => {}
            Some(class) => self.hold(die, Phase::Readers, class),
        }
    }

    pub(super) fn commanded(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        let Some((group, Step::Commands(page))) = self.readers[at].array else {
            unreachable!("timing bug: arrival of a command that was not sent")
        };
        match self.ops[page].next {
            NONE => self.sense(die, reader, group),
            next => {
                self.readers[at].array = Some((group, Step::Commands(next)));
                self.request_bus(die, group.class, Carry::Command(reader));
            }
        }
    }

    #[inline]
    pub(super) fn sensed(&mut self, die: u32, reader: u32) {
        let runner = self.reader_runner(die, reader);
        self.race.set(runner, NEVER);
        let at = self.reader_at(die, reader);
        let entry = &mut self.readers[at];
        if let Some((_, step)) = &mut entry.array {
            *step = Step::Sensed;
        }
        if entry.sending.is_none() {
            self.send(die, reader);
        }
    }

    fn send(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        loop {
            let entry = &mut self.readers[at];
            // Pages in the cache registers are sent first. Sensed pages can move there only after that.
            let Sending { page, class } = match (entry.sending, entry.array) {
                (Some(sending), _) => sending,
                (None, Some((group, Step::Sensed))) => {
                    entry.array = None;
                    Sending { page: group.first, class: group.class }
                }
                (None, _) => break,
            };
            if page == NONE {
                entry.sending = None;
                continue;
            }
            entry.sending = Some(Sending { page, class });
            let op = &self.ops[page];
            if op.transfer_ns > 0 {
                self.request_bus(die, class, Carry::Data(reader));
                if !self.overlaps_reads {
                    // The die does nothing else until the page has arrived.
                    return;
                }
                break;
            }
            // A page without a transfer is complete at once.
            entry.sending = Some(Sending { page: op.next, class });
            self.complete(page);
        }
        if self.overlaps_reads {
            self.hold_for_reads(die);
            self.mark_die(die);
        } else {
            self.free(die);
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        let Some(Sending { page, .. }) = &mut self.readers[at].sending else {
            unreachable!("timing bug: arrival of a page that was not sent")
        };
        let arrived = *page;
        *page = self.ops[arrived].next;
        self.complete(arrived);
        self.send(die, reader);
    }

    #[inline]
    pub(super) fn data_ns(&self, die: u32, reader: u32) -> u64 {
        let sending = self.readers[self.reader_at(die, reader)].sending;
        sending.map_or(0, |sending| self.ops[sending.page].transfer_ns)
    }

    #[inline(always)]
    pub(super) fn has_urgent_read(&self, die: u32) -> bool {
        self.has_read_due(die, NEVER)
    }

    #[inline(always)]
    pub(super) fn has_read_due(&self, die: u32, deadline: SimTime) -> bool {
        match self.readers_per_die {
            1 => self.dies[die as usize].queues.has_read_due(deadline),
            _ => self.readers[self.readers_of(die)].iter().any(|reader| reader.queues.has_read_due(deadline)),
        }
    }

    #[inline(always)]
    pub(super) fn first_class(&self, die: u32) -> Option<Class> {
        let class = self.dies[die as usize].queues.choice();
        match self.readers_per_die {
            1 => class,
            _ => self.first_class_of_all(die, class),
        }
    }

    fn first_class_of_all(&self, die: u32, class: Option<Class>) -> Option<Class> {
        let queues = &self.dies[die as usize].queues;
        let whole = class.map(|class| (queues.runs_out(class), class));
        let reads = self.readers[self.readers_of(die)]
            .iter()
            .filter_map(|reader| reader.queues.choice().map(|class| (reader.queues.runs_out(class), class)));
        reads.chain(whole).min().map(|(_, class)| class)
    }

    /// Free reader whose queue has the earliest deadline, and the class of its read.
    fn next_reader(&self, die: u32) -> Option<(u32, Class)> {
        let suspended = self.dies[die as usize].suspended;
        let next = |(at, reader): (u32, &super::Reader)| {
            let queues =
                if self.readers_per_die == 1 { &self.dies[die as usize].queues } else { &reader.queues };
            let class = match suspended {
                // Only host reads due by the suspended operation's deadline count.
                Some(suspended) => queues.has_read_due(suspended.deadline).then_some(Class::HostRead)?,
                None => queues.choice()?,
            };
            reader.is_free(self.config.cache_read).then(|| (queues.runs_out(class), at, class))
        };
        (0..)
            .zip(&self.readers[self.readers_of(die)])
            .filter_map(next)
            .min()
            .map(|(_, at, class)| (at, class))
    }

    #[inline(never)]
    pub(super) fn serve_readers(&mut self, die: u32) {
        // Free readers begin reads while the most urgent waiting operation of the die is a read.
        loop {
            let entry = &self.dies[die as usize];
            let (is_idle, suspended) = (entry.phase == Phase::Idle, entry.suspended);
            let wants_read = match suspended {
                Some(suspended) => self.has_read_due(die, suspended.deadline),
                None => matches!(self.first_class(die), Some(Class::HostRead | Class::BackgroundRead)),
            };
            if !wants_read {
                return match (is_idle, suspended) {
                    (true, Some(_)) => self.resume(die),
                    (true, None) => self.begin_first(die),
                    // The next operation needs the whole die, so it waits for the readers.
                    (false, _) => {}
                };
            }
            let Some((reader, class)) = self.next_reader(die) else { return };
            let group = self.take_read(die, reader, class);
            self.begin_read(die, reader, group);
        }
    }

    fn take_read(&mut self, die: u32, reader: u32, class: Class) -> Group {
        let at = self.reader_at(die, reader);
        let whole = &mut self.dies[die as usize].queues;
        let queues = match self.readers_per_die {
            1 => whole,
            _ => {
                whole.waiting -= 1;
                &mut self.readers[at].queues
            }
        };
        let group = queues.take(&mut self.ops, class, &self.config.deadline_ns);
        self.log_group(group, EventKind::FlashBegin);
        group
    }

    fn begin_first(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        if let Some(class) = entry.queues.choice() {
            let group = entry.queues.take(&mut self.ops, class, &self.config.deadline_ns);
            debug_assert!(group.kind != Kind::Read, "timing bug: a read that no reader has begun");
            self.begin(die, group);
        }
    }
}
