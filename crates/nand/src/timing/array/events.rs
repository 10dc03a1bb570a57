//! What dies and buses do, when it is over, and what they do then.

use strobe_types::SimTime;

use super::{ArrayTiming, Class, Die, Group, Kind, LAST, MoreErase, NEVER, NONE, Next, Op, Phase, Suspended};
use std::cmp::Reverse;

impl ArrayTiming {
    /// `op` is complete.
    #[inline(always)]
    fn complete(&mut self, op: u32) {
        let &Op { kind, block, .. } = &self.ops[op];
        let entry = &mut self.blocks[block as usize];
        entry.programs -= u32::from(kind == Kind::Program);
        if entry.before_erase == 0 && self.more_erases.is_empty() {
            entry.others -= 1;
            let token = self.ops.done(op, &mut self.ready);
            self.report(token);
        } else {
            self.complete_before_erase(op);
        }
        self.let_ready_go();
    }

    fn complete_before_erase(&mut self, op: u32) {
        let waiting = self.leave_block(op);
        let token = self.ops.done(op, &mut self.ready);
        if let Some(erase) = waiting {
            // Of what waited for one thing, that issued first comes first.
            let number = self.ops[erase].number();
            let at = self.ready.partition_point(|&other| self.ops[other].number() < number);
            self.ready.insert(at, erase);
        }
        self.report(token);
    }

    /// `op` is in the way of no erase of its block any more; returns the erase that waited for nothing else.
    fn leave_block(&mut self, op: u32) -> Option<u32> {
        let (id, number) = (self.ops[op].block, self.ops[op].number());
        let block = &mut self.blocks[id as usize];
        if block.before_erase > 0 {
            let erase = block.erase.and_then(|erase| self.ops.find(erase));
            if let Some(erase) = erase.filter(|&erase| number < self.ops[erase].number()) {
                block.before_erase -= 1;
                return (block.before_erase == 0 && self.ops.release(erase)).then_some(erase);
            }
        }
        let is_before = |more: &MoreErase| more.block == id && number < self.ops[more.op].number();
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

    /// The die goes over to `phase`, which ends at `due` if that is known; if it is not idle then, it is held for
    /// `class`.
    #[inline(always)]
    fn set_phase(&mut self, die: u32, phase: Phase, class: Class, due: SimTime) {
        let entry = &mut self.dies[die as usize];
        if entry.phase != Phase::Idle {
            self.occupancy.held_ns[entry.class as usize] += self.now.since(entry.since);
        }
        (entry.phase, entry.class, entry.since) = (phase, class, self.now);
        self.race.set(2 * die as usize, due);
    }

    /// The die has nothing more to do with what it did.
    fn free(&mut self, die: u32) {
        self.set_phase(die, Phase::Idle, Class::HostRead, NEVER);
        self.dies[die as usize].current = None;
        self.note_die(die);
    }

    /// The array is at work from now on for `duration_ns`.
    fn work(&mut self, die: u32, group: Group, duration_ns: u64) {
        let until = self.at(duration_ns);
        self.set_phase(die, Phase::Array, group.class, until);
        let entry = &mut self.dies[die as usize];
        (entry.current, entry.from, entry.until) = (Some(group), self.now, until);
    }

    /// Lets the page `die.on_bus` go over the bus.
    #[inline]
    fn request_bus(&mut self, die: u32, class: Class) {
        let channel = self.dies[die as usize].channel;
        self.channels[channel as usize].request(die, class);
        self.note_channel(channel);
    }

    /// The array of `die` begins with `group`.
    fn begin_array(&mut self, die: u32, group: Group) {
        let duration = match group.kind {
            Kind::Erase => self.config.erase_ns,
            _ => self.config.program_ns,
        };
        self.work(die, group, duration);
        let entry = &mut self.dies[die as usize];
        entry.suspends = 0;
        if self.config.cache_program || (self.may_suspend && entry.has_urgent_read()) {
            self.note_die(die);
        }
    }

    /// What `die` did until now is over. If time `goes_on` when nothing is reported, dies choose before anybody asks for
    /// more.
    #[inline(always)]
    fn end(&mut self, die: u32, goes_on: bool) {
        let entry = &mut self.dies[die as usize];
        let is_done = match entry.phase {
            Phase::Reading => true,
            Phase::Array => entry.until <= self.now && entry.next.is_none(),
            _ => false,
        };
        match entry.current {
            Some(group) if is_done && goes_on && self.can_hurry => self.end_alone(die, group),
            Some(group) if is_done => {
                self.free(die);
                self.complete_group(group);
            }
            _ => self.end_phase(die),
        }
    }

    /// The same, without detours if this is all that happens now: then the die, which needs no bus of others, can choose
    /// at once.
    #[inline(always)]
    fn end_alone(&mut self, die: u32, group: Group) {
        let entry = &mut self.dies[die as usize];
        self.occupancy.held_ns[entry.class as usize] += self.now.since(entry.since);
        (entry.phase, entry.current) = (Phase::Idle, None);
        self.complete_group(group);
        let runner = 2 * die as usize;
        let is_all = self.reported.is_empty()
            && self.race.first_but(runner) > self.now
            && self.later.peek().is_none_or(|Reverse((time, ..))| *time > self.now);
        let entry = &mut self.dies[die as usize];
        if is_all
            && entry.suspended.is_none()
            && let Some(class) = entry.choice()
        {
            let group = entry.take(&mut self.ops, class, &self.config.patience_ns);
            if self.ops[group.first].next != NONE {
                self.race.set(runner, NEVER);
            }
            return self.begin(die, group);
        }
        self.race.set(runner, NEVER);
        self.note_die(die);
    }

    /// [`ArrayTiming::end`] of what goes on in another way.
    fn end_phase(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        match (entry.phase, entry.current) {
            (Phase::Sensing, Some(group)) => {
                self.set_phase(die, Phase::Sending, group.class, NEVER);
                self.send(die, group.first, group.class);
            }
            (Phase::Array, Some(_)) if self.now < entry.until => {
                // The transfer is over, and a read waits.
                let until = entry.until;
                self.race.set(2 * die as usize, until);
                self.note_die(die);
            }
            (Phase::Array, Some(group)) => {
                let next = entry.next.take();
                self.complete_group(group);
                match next {
                    None => self.free(die),
                    Some(Next { group, is_loaded: true }) => self.begin_array(die, group),
                    Some(Next { group, is_loaded: false }) => {
                        self.set_phase(die, Phase::Loading, group.class, NEVER);
                        self.dies[die as usize].current = Some(group);
                    }
                }
            }
            (Phase::Suspending, _) => {
                self.set_phase(die, Phase::Idle, Class::HostRead, NEVER);
                self.note_die(die);
            }
            (Phase::Resuming, _) => {
                let Some(Suspended { group, left_ns }) = entry.suspended.take() else { return };
                self.work(die, group, left_ns);
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

    #[inline(always)]
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

    /// Lets dies, then channels, do what they can, until there is nothing more to look at.
    pub(super) fn look_at_noted(&mut self) {
        loop {
            // What is noted meanwhile is looked at in the next round.
            while !self.noted_dies.is_empty() {
                for word in 0..self.noted_dies.begin() {
                    for die in self.noted_dies.take(word) {
                        self.look_at_die(die);
                    }
                }
                if !self.noted_channels.is_empty() {
                    break;
                }
            }
            if self.noted_channels.is_empty() {
                return;
            }
            for word in 0..self.noted_channels.begin() {
                for channel in self.noted_channels.take(word) {
                    self.look_at_channel(channel);
                }
            }
        }
    }

    /// Lets `die` do what it can do now.
    #[inline(always)]
    fn look_at_die(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        match entry.phase {
            Phase::Idle if entry.suspended.is_none() => {
                if let Some(class) = entry.choice() {
                    let group = entry.take(&mut self.ops, class, &self.config.patience_ns);
                    self.begin(die, group);
                }
            }
            Phase::Idle => self.look_at_suspended(die),
            Phase::Array => self.look_at_array(die),
            _ => {}
        }
    }

    /// The same while something is suspended: reads first, then it goes on.
    fn look_at_suspended(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        if entry.has_urgent_read() {
            let group = entry.take(&mut self.ops, Class::HostRead, &self.config.patience_ns);
            return self.begin(die, group);
        }
        if let Some(Suspended { group, .. }) = entry.suspended {
            let due = self.at(self.config.suspend.resume_ns);
            self.set_phase(die, Phase::Resuming, group.class, due);
        }
    }

    /// The same while the array is at work: something may be suspended, or loaded ahead.
    fn look_at_array(&mut self, die: u32) {
        let entry = &self.dies[die as usize];
        let Die { from, until, .. } = *entry;
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

    fn suspend(&mut self, die: u32, until: SimTime) {
        self.occupancy.suspends += 1;
        let (class, due) = (self.dies[die as usize].class, self.at(self.config.suspend.suspend_ns));
        self.set_phase(die, Phase::Suspending, class, due);
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
        let choice = entry.choice();
        let Some(class) =
            choice.filter(|class| matches!(class, Class::HostProgram | Class::BackgroundProgram))
        else {
            return;
        };
        let group = entry.take(&mut self.ops, class, &self.config.patience_ns);
        let is_loaded = self.page_transfer_ns == 0;
        let entry = &mut self.dies[die as usize];
        entry.next = Some(Next { group, is_loaded });
        entry.on_bus = group.first;
        if !is_loaded {
            self.request_bus(die, class);
        }
    }

    /// `die`, which is idle, begins with `group`.
    #[inline(always)]
    fn begin(&mut self, die: u32, group: Group) {
        let op = &self.ops[group.first];
        if self.owns_bus && op.next == NONE {
            // A single operation of a die that has its bus to itself: when it ends is known at once.
            let transfer_ns = op.transfer_ns;
            return self.begin_alone(die, group, transfer_ns);
        }
        self.begin_on_bus(die, group);
    }

    fn begin_on_bus(&mut self, die: u32, group: Group) {
        match group.kind {
            Kind::Read => {
                let due = self.at(self.config.read_ns);
                self.set_phase(die, Phase::Sensing, group.class, due);
                self.dies[die as usize].current = Some(group);
            }
            Kind::Program if self.page_transfer_ns > 0 => {
                self.set_phase(die, Phase::Loading, group.class, NEVER);
                let entry = &mut self.dies[die as usize];
                (entry.current, entry.on_bus) = (Some(group), group.first);
                self.request_bus(die, group.class);
            }
            _ => self.begin_array(die, group),
        }
    }

    #[inline(always)]
    fn begin_alone(&mut self, die: u32, group: Group, transfer_ns: u64) {
        let now = self.now;
        let (phase, from, until) = match group.kind {
            Kind::Read => (Phase::Reading, now, now + self.config.read_ns.saturating_add(transfer_ns)),
            Kind::Erase => (Phase::Array, now, now + self.config.erase_ns),
            _ => (Phase::Array, now + transfer_ns, now + transfer_ns + self.config.program_ns),
        };
        let (from, until) = (from.min(LAST), until.min(LAST));
        self.race.set(2 * die as usize, until);
        let entry = &mut self.dies[die as usize];
        (entry.phase, entry.class, entry.since) = (phase, group.class, now);
        (entry.current, entry.from, entry.until) = (Some(group), from, until);
        if self.may_suspend && phase == Phase::Array {
            entry.suspends = 0;
            if entry.has_urgent_read() {
                self.note_die(die);
            }
        }
    }

    /// Lets the bus of `channel` carry something, if it is free and somebody waits.
    fn look_at_channel(&mut self, channel: u32) {
        let entry = &mut self.channels[channel as usize];
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

    /// Goes on to `time`, at which something ends or comes; see [`ArrayTiming::end`].
    #[inline(always)]
    pub(super) fn pass(&mut self, time: SimTime, goes_on: bool) {
        self.now = time;
        loop {
            let (first, due) = self.race.first();
            if due > time {
                break;
            }
            match first % 2 {
                0 => self.end((first / 2) as u32, goes_on),
                _ => self.transferred((first / 2) as u32),
            }
        }
        while let Some(&Reverse((due, _, op))) = self.later.peek()
            && due <= time
        {
            self.later.pop();
            if self.ops.release(op) {
                self.ready.push(op);
                self.let_all_ready_go();
            }
        }
    }
}
