//! What dies and buses do, when it is over, and what they do then.

use strobe_types::SimTime;

use super::{
    ArrayTiming, Class, Group, Kind, LAST, MoreErase, NEVER, NONE, Next, Op, Phase, State, Suspended,
};
use std::cmp::Reverse;

impl ArrayTiming {
    /// `op` is complete.
    #[inline]
    fn complete(&mut self, op: u32) {
        let Op { kind, block, .. } = self.ops[op];
        self.blocks[block as usize].programs -= u32::from(kind == Kind::Program);
        let waiting = self.leave_block(op);
        let token = self.ops.done(op, &mut self.ready);
        if let Some(erase) = waiting {
            // Of what waited for one thing, that issued first comes first.
            let number = self.ops[erase].number;
            let at = self.ready.partition_point(|&other| self.ops[other].number < number);
            self.ready.insert(at, erase);
        }
        self.report(token);
        self.let_ready_go();
    }

    /// `op` is in the way of no erase of its block any more; returns the erase that waited for nothing else.
    #[inline]
    fn leave_block(&mut self, op: u32) -> Option<u32> {
        let Op { block: id, number, .. } = self.ops[op];
        let block = &mut self.blocks[id as usize];
        if block.before_erase > 0 {
            let erase = block.erase.and_then(|erase| self.ops.find(erase));
            if let Some(erase) = erase.filter(|&erase| number < self.ops[erase].number) {
                block.before_erase -= 1;
                return (block.before_erase == 0 && self.ops.release(erase)).then_some(erase);
            }
        }
        let is_before = |more: &MoreErase| more.block == id && number < self.ops[more.op].number;
        let Some(at) = self.more_erases.iter().position(is_before) else {
            block.others -= 1;
            return None;
        };
        let more = &mut self.more_erases[at];
        more.before -= 1;
        if more.before > 0 {
            return None;
        }
        let erase = self.more_erases.remove(at).op;
        // All before it are complete.
        block.erase = Some(self.ops.ticket(erase));
        self.ops.release(erase).then_some(erase)
    }

    /// The last erase of `block`, if it is not complete.
    #[inline]
    pub(super) fn last_erase(&self, block: usize) -> Option<u32> {
        let more = self.more_erases.iter().rev().find(|more| more.block as usize == block);
        more.map(|more| more.op).or_else(|| self.blocks[block].erase.and_then(|erase| self.ops.find(erase)))
    }

    /// The die goes over to `phase`, which ends at `due` if that is known.
    #[inline]
    fn set_phase(&mut self, die: u32, phase: Phase, due: SimTime) {
        let entry = &mut self.dies[die as usize];
        let held = entry.current.or(entry.suspended.map(|suspended| suspended.group));
        if let Some(group) = held.filter(|_| entry.phase != Phase::Idle) {
            self.occupancy.held_ns[group.class as usize] += self.now.since(entry.since);
        }
        let is_busy = |phase: Phase| u32::from(phase != Phase::Idle);
        self.busy_dies = self.busy_dies + is_busy(phase) - is_busy(entry.phase);
        (entry.phase, entry.since) = (phase, self.now);
        self.race.set(2 * die as usize, due);
    }

    /// The die has nothing more to do with what it did.
    #[inline]
    fn free(&mut self, die: u32) {
        self.set_phase(die, Phase::Idle, NEVER);
        self.dies[die as usize].current = None;
        self.note_die(die);
    }

    /// Lets the page `die.on_bus` go over the bus.
    #[inline]
    fn request_bus(&mut self, die: u32, class: Class) {
        let channel = self.dies[die as usize].channel;
        self.channels[channel as usize].request(die, class);
        self.note_channel(channel);
    }

    /// The array of `die` begins with `group`.
    #[inline]
    fn begin_array(&mut self, die: u32, group: Group) {
        let duration = match group.kind {
            Kind::Erase => self.config.erase_ns,
            _ => self.config.program_ns,
        };
        let until = self.at(duration);
        self.set_phase(die, Phase::Array { from: self.now, until }, until);
        let entry = &mut self.dies[die as usize];
        (entry.current, entry.suspends) = (Some(group), 0);
        if self.config.cache_program || (self.may_suspend && entry.has_urgent_read()) {
            self.note_die(die);
        }
    }

    /// What `die` did until now is over.
    fn end(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        match (entry.phase, entry.current) {
            (Phase::Sensing, Some(group)) => {
                self.set_phase(die, Phase::Sending, NEVER);
                self.send(die, group.first, group.class);
            }
            (Phase::Reading, Some(group)) => {
                self.complete(group.first);
                self.free(die);
            }
            (Phase::Array { until, .. }, Some(_)) if self.now < until => {
                // The transfer is over, and a read waits.
                self.race.set(2 * die as usize, until);
                self.note_die(die);
            }
            (Phase::Array { .. }, Some(group)) => {
                let next = entry.next.take();
                self.complete_group(group);
                match next {
                    None => self.free(die),
                    Some(Next { group, is_loaded: true }) => self.begin_array(die, group),
                    Some(Next { group, is_loaded: false }) => {
                        self.set_phase(die, Phase::Loading, NEVER);
                        self.dies[die as usize].current = Some(group);
                    }
                }
            }
            (Phase::Suspending, _) => {
                self.set_phase(die, Phase::Idle, NEVER);
                self.note_die(die);
            }
            (Phase::Resuming, _) => {
                let Some(Suspended { group, left_ns }) = entry.suspended else { return };
                let until = self.at(left_ns);
                self.set_phase(die, Phase::Array { from: self.now, until }, until);
                let entry = &mut self.dies[die as usize];
                (entry.current, entry.suspended) = (Some(group), None);
                self.note_die(die);
            }
            (phase, _) => unreachable!("timing bug: {phase:?} has no end of its own"),
        }
    }

    /// Sends the pages of a read from `page` on, as far as that needs no bus; then asks for it.
    fn send(&mut self, die: u32, mut page: u32, class: Class) {
        while page != NONE && self.ops[page].transfer_ns == 0 {
            let next = self.ops[page].next;
            self.complete(page);
            page = next;
        }
        if page == NONE {
            return self.free(die);
        }
        self.dies[die as usize].on_bus = page;
        self.request_bus(die, class);
    }

    fn complete_group(&mut self, group: Group) {
        let mut op = group.first;
        while op != NONE {
            let next = self.ops[op].next;
            self.complete(op);
            op = next;
        }
    }

    /// The page of `die` that is on the bus has arrived.
    fn transferred(&mut self, die: u32) {
        self.race.set(2 * die as usize + 1, NEVER);
        let channel = self.dies[die as usize].channel;
        self.channels[channel as usize].is_busy = false;
        self.note_channel(channel);
        let entry = &mut self.dies[die as usize];
        let op = entry.on_bus;
        let following = self.ops[op].next;
        entry.on_bus = following;
        if let Some(next) = &mut entry.next
            && !next.is_loaded
        {
            next.is_loaded = following == NONE;
            let class = next.group.class;
            match following {
                // A host read may wait for the suspend that had to wait for this.
                NONE => self.note_die(die),
                _ => self.request_bus(die, class),
            }
            return;
        }
        let Some(group) = entry.current else { return };
        if group.kind == Kind::Read {
            self.complete(op);
            self.send(die, following, group.class);
        } else if following == NONE {
            self.begin_array(die, group);
        } else {
            self.request_bus(die, group.class);
        }
    }

    /// Lets `die` do what it can do now.
    pub(super) fn look_at_die(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        entry.is_noted = false;
        match entry.phase {
            Phase::Idle => {
                let class = match entry.suspended {
                    Some(_) if entry.has_urgent_read() => Some(Class::HostRead),
                    Some(_) => {
                        let due = self.at(self.config.suspend.resume_ns);
                        return self.set_phase(die, Phase::Resuming, due);
                    }
                    None => entry.choice(&self.ops, &self.config.patience_ns),
                };
                if let Some(class) = class {
                    let group = entry.take(&mut self.ops, class);
                    self.begin(die, group);
                }
            }
            Phase::Array { from, until } => {
                if self.may_suspend && entry.has_urgent_read() {
                    let suspend = self.config.suspend;
                    let may_suspend = entry.suspends < suspend.most
                        && until.since(self.now.max(from)) > suspend.least_left_ns
                        && entry.next.is_none_or(|next| next.is_loaded);
                    if may_suspend && self.now < from {
                        // As soon as its page is loaded.
                        return self.race.set(2 * die as usize, from);
                    }
                    if may_suspend {
                        return self.suspend(die, until);
                    }
                }
                if self.config.cache_program {
                    self.load_ahead(die);
                }
            }
            _ => {}
        }
    }

    fn suspend(&mut self, die: u32, until: SimTime) {
        self.occupancy.suspends += 1;
        self.set_phase(die, Phase::Suspending, self.at(self.config.suspend.suspend_ns));
        let entry = &mut self.dies[die as usize];
        entry.suspends += 1;
        let left_ns = until.since(self.now);
        entry.suspended = entry.current.take().map(|group| Suspended { group, left_ns });
    }

    /// Cache program: loads the next page while the array programs.
    fn load_ahead(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        let is_program = entry.current.is_some_and(|group| group.kind == Kind::Program);
        if !is_program || entry.next.is_some() {
            return;
        }
        let choice = entry.choice(&self.ops, &self.config.patience_ns);
        let Some(class) =
            choice.filter(|class| matches!(class, Class::HostProgram | Class::BackgroundProgram))
        else {
            return;
        };
        let group = entry.take(&mut self.ops, class);
        self.run_group(group);
        let is_loaded = self.page_transfer_ns == 0;
        let entry = &mut self.dies[die as usize];
        entry.next = Some(Next { group, is_loaded });
        entry.on_bus = group.first;
        if !is_loaded {
            self.request_bus(die, class);
        }
    }

    fn run_group(&mut self, group: Group) {
        let mut op = group.first;
        while op != NONE {
            self.ops[op].state = State::Running;
            op = self.ops[op].next;
        }
    }

    /// `die`, which is idle, begins with `group`.
    fn begin(&mut self, die: u32, group: Group) {
        self.run_group(group);
        if self.owns_bus && self.ops[group.first].next == NONE {
            return self.begin_alone(die, group);
        }
        match group.kind {
            Kind::Read => {
                let due = self.at(self.config.read_ns);
                self.set_phase(die, Phase::Sensing, due);
                self.dies[die as usize].current = Some(group);
            }
            Kind::Program if self.page_transfer_ns > 0 => {
                self.set_phase(die, Phase::Loading, NEVER);
                let entry = &mut self.dies[die as usize];
                (entry.current, entry.on_bus) = (Some(group), group.first);
                self.request_bus(die, group.class);
            }
            _ => self.begin_array(die, group),
        }
    }

    /// [`ArrayTiming::begin`] of a single operation of a die that has its bus to itself: when it ends is known at once.
    fn begin_alone(&mut self, die: u32, group: Group) {
        let transfer_ns = self.ops[group.first].transfer_ns;
        let (phase, due) = match group.kind {
            Kind::Read => {
                let until = self.at(self.config.read_ns.saturating_add(transfer_ns));
                (Phase::Reading, until)
            }
            Kind::Erase => return self.begin_array(die, group),
            _ => {
                let from = self.at(transfer_ns);
                let until = (from + self.config.program_ns).min(LAST);
                (Phase::Array { from, until }, until)
            }
        };
        self.set_phase(die, phase, due);
        let entry = &mut self.dies[die as usize];
        entry.current = Some(group);
        if group.kind == Kind::Read {
            return;
        }
        entry.suspends = 0;
        if self.may_suspend && entry.has_urgent_read() {
            self.note_die(die);
        }
    }

    /// Lets the bus of `channel` carry something, if it is free and somebody waits.
    pub(super) fn look_at_channel(&mut self, channel: u32) {
        let entry = &mut self.channels[channel as usize];
        entry.is_noted = false;
        if entry.is_busy {
            return;
        }
        let Some(die) = entry.next() else { return };
        entry.is_busy = true;
        let op = self.dies[die as usize].on_bus;
        let due = self.at(self.ops[op].transfer_ns);
        self.race.set(2 * die as usize + 1, due);
    }

    /// The next instant at which something ends or comes.
    #[inline]
    pub(super) fn next_instant(&self) -> SimTime {
        let first = self.race.first().1;
        self.later.peek().map_or(first, |Reverse((time, ..))| first.min(*time))
    }

    /// Goes on to `time`, at which something ends or comes.
    pub(super) fn pass(&mut self, time: SimTime) {
        self.now = time;
        loop {
            let (first, due) = self.race.first();
            if due > time {
                break;
            }
            match first % 2 {
                0 => self.end((first / 2) as u32),
                _ => self.transferred((first / 2) as u32),
            }
        }
        while let Some(&Reverse((due, _, op))) = self.later.peek()
            && due <= time
        {
            self.later.pop();
            if self.ops.release(op) {
                self.ready.push(op);
                self.let_ready_go();
            }
        }
    }
}
