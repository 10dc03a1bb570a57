//! Reads over a shared bus: activities of a reader, and the order of several readers.

use super::{ArrayTiming, Carry, Class, Group, Kind, NEVER, NONE, Phase, Sending, Step};
use crate::EventKind;

impl ArrayTiming {
    /// Range of the readers of `die` in `readers`.
    #[inline(always)]
    pub(super) fn readers_of(&self, die: u32) -> std::ops::Range<usize> {
        let first = (die * self.readers_per_die) as usize;
        first..first + self.readers_per_die as usize
    }

    #[inline(always)]
    pub(super) fn reader_at(&self, die: u32, reader: u32) -> usize {
        (die * self.readers_per_die + reader) as usize
    }

    /// Index in the race of the end of the array's work for `reader` of `die`. The first reader shares the
    /// die's entry, because a die does nothing else meanwhile.
    #[inline(always)]
    fn reader_runner(&self, die: u32, reader: u32) -> usize {
        match reader {
            0 => 2 * die as usize,
            _ => 2 * (self.dies.len() + (die * (self.readers_per_die - 1) + reader - 1) as usize),
        }
    }

    /// The array has read what a reader has asked for that is not the first of its die: these stand behind the dies.
    #[cold]
    pub(super) fn end_reader(&mut self, behind: u32) {
        let at = behind - self.dies.len() as u32;
        let others = self.readers_per_die - 1;
        self.sensed(at / others, at % others + 1);
    }

    /// `reader` of `die` begins to read `group`.
    #[inline]
    pub(super) fn begin_read(&mut self, die: u32, reader: u32, group: Group) {
        let at = self.reader_at(die, reader);
        if self.config.command_ns > 0 {
            self.readers[at].array = Some((group, Step::Commands(group.first)));
            self.request_bus(die, group.class, Carry::Command(reader));
        } else {
            self.sense(die, reader, group);
        }
        if self.reads_beside { self.hold_for_reads(die) } else { self.hold(die, Phase::Readers, group.class) }
    }

    /// The array begins to read `group` for `reader`.
    #[inline]
    fn sense(&mut self, die: u32, reader: u32, group: Group) {
        let at = self.reader_at(die, reader);
        self.readers[at].array = Some((group, Step::Sensing));
        let due = self.at(self.array_ns(Kind::Read, self.ops[group.first].page));
        let runner = self.reader_runner(die, reader);
        self.race.set(runner, due);
    }

    /// The die is held for the most urgent of what its readers do; it is free if they do nothing.
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

    /// The command that `reader` of `die` had on the bus has arrived.
    pub(super) fn commanded(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        let Some((group, Step::Commands(page))) = self.readers[at].array else {
            unreachable!("timing bug: a command that nobody has sent")
        };
        match self.ops[page].next {
            NONE => self.sense(die, reader, group),
            next => {
                self.readers[at].array = Some((group, Step::Commands(next)));
                self.request_bus(die, group.class, Carry::Command(reader));
            }
        }
    }

    /// The array has read what `reader` of `die` has asked for.
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

    /// Lets what the page registers of `reader` hold move to the cache registers, which are free, and go over the bus; or
    /// the rest of what is in the cache registers.
    fn send(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        loop {
            let entry = &mut self.readers[at];
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
                if !self.reads_beside {
                    return;
                }
                break;
            }
            entry.sending = Some(Sending { page: op.next, class });
            self.complete(page);
        }
        if self.reads_beside {
            self.hold_for_reads(die);
            self.note_die(die);
        } else {
            self.free(die);
        }
    }

    /// The page that `reader` of `die` had on the bus has arrived.
    #[inline]
    pub(super) fn sent(&mut self, die: u32, reader: u32) {
        let at = self.reader_at(die, reader);
        let Some(Sending { page, .. }) = &mut self.readers[at].sending else {
            unreachable!("timing bug: a page that nobody has sent")
        };
        let arrived = *page;
        *page = self.ops[arrived].next;
        self.complete(arrived);
        self.send(die, reader);
    }

    /// Bus time of the next transfer from `reader` of `die`, in ns.
    #[inline]
    pub(super) fn data_ns(&self, die: u32, reader: u32) -> u64 {
        let sending = self.readers[self.reader_at(die, reader)].sending;
        sending.map_or(0, |sending| self.ops[sending.page].transfer_ns)
    }

    /// True if a host read waits: programs and erases are suspended for it.
    #[inline(always)]
    pub(super) fn has_urgent_read(&self, die: u32) -> bool {
        match self.readers_per_die {
            1 => self.dies[die as usize].queues.has_urgent_read(),
            _ => self.readers[self.readers_of(die)].iter().any(|reader| reader.queues.has_urgent_read()),
        }
    }

    /// The class of the operation whose patience runs out first, of all that wait for `die` or one of its planes.
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

    /// The reader of `die` that is free and has the read whose patience runs out first, with the class of that; while
    /// something is suspended only host reads count.
    fn next_reader(&self, die: u32) -> Option<(u32, Class)> {
        let is_suspended = self.dies[die as usize].suspended.is_some();
        let next = |(at, reader): (u32, &super::Reader)| {
            let queues =
                if self.readers_per_die == 1 { &self.dies[die as usize].queues } else { &reader.queues };
            let class = if is_suspended {
                queues.has_urgent_read().then_some(Class::HostRead)?
            } else {
                queues.choice()?
            };
            reader.is_free(self.config.cache_read).then(|| (queues.runs_out(class), at, class))
        };
        (0..)
            .zip(&self.readers[self.readers_of(die)])
            .filter_map(next)
            .min()
            .map(|(_, at, class)| (at, class))
    }

    /// Lets `die`, on which reads may begin beside others, do what it can do now.
    #[inline(never)]
    pub(super) fn look_at_readers(&mut self, die: u32) {
        loop {
            let entry = &self.dies[die as usize];
            let (is_idle, is_suspended) = (entry.phase == Phase::Idle, entry.suspended.is_some());
            let wants_read = if is_suspended {
                self.has_urgent_read(die)
            } else {
                matches!(self.first_class(die), Some(Class::HostRead | Class::BackgroundRead))
            };
            if !wants_read {
                return match (is_idle, is_suspended) {
                    (true, true) => self.resume(die),
                    (true, false) => self.begin_first(die),
                    // The next one takes the whole die.
                    (false, _) => {}
                };
            }
            let Some((reader, class)) = self.next_reader(die) else { return };
            let group = self.take_read(die, reader, class);
            self.begin_read(die, reader, group);
        }
    }

    /// Takes the next read of `class` out of the queue of `reader`.
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
        let group = queues.take(&mut self.ops, class, &self.config.patience_ns);
        self.log_group(group, EventKind::FlashBegin);
        group
    }

    /// `die`, which is idle, begins with what is first in its own queues.
    fn begin_first(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        if let Some(class) = entry.queues.choice() {
            let group = entry.queues.take(&mut self.ops, class, &self.config.patience_ns);
            debug_assert!(group.kind != Kind::Read, "timing bug: a read that no reader has begun");
            self.begin(die, group);
        }
    }
}
