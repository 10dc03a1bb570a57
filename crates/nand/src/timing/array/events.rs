//! Events of dies and buses: the end of an activity, and the choice of the next.

use strobe_types::SimTime;

use super::{ArrayTiming, Carry, Class, Die, Group, Kind, LAST, NEVER, NONE, Next, Op, Phase, Suspended};
use crate::EventKind;
use std::cmp::Reverse;

impl ArrayTiming {
    #[inline(always)]
    fn set_phase(&mut self, die: u32, phase: Phase, class: Class, due: SimTime) {
        self.hold(die, phase, class);
        self.race.set(2 * die as usize, due);
    }

    /// Accounts the elapsed time to the class that held the die; the scheduled end does not change.
    #[inline(always)]
    pub(super) fn hold(&mut self, die: u32, phase: Phase, class: Class) {
        let entry = &mut self.dies[die as usize];
        if entry.phase != Phase::Idle {
            self.occupancy.held_ns[entry.class as usize] += self.now.since(entry.since);
        }
        (entry.phase, entry.class, entry.since) = (phase, class, self.now);
    }

    pub(super) fn free(&mut self, die: u32) {
        self.set_phase(die, Phase::Idle, Class::HostRead, NEVER);
        self.dies[die as usize].current = None;
        self.mark_die(die);
    }

    fn work(&mut self, die: u32, group: Group, duration_ns: u64) {
        let until = self.at(duration_ns);
        self.set_phase(die, Phase::Array, group.class, until);
        let entry = &mut self.dies[die as usize];
        (entry.current, entry.from, entry.until) = (Some(group), self.now, until);
    }

    #[inline]
    pub(super) fn request_bus(&mut self, die: u32, class: Class, what: Carry) {
        let channel = self.dies[die as usize].channel;
        let deadline = self.at(self.config.deadline_ns[class as usize]);
        self.channels[channel as usize].request(die, class, what, deadline);
        self.mark_channel(channel);
    }

    fn begin_array(&mut self, die: u32, group: Group) {
        let duration = self.array_ns(group.kind, self.ops[group.first].page);
        self.work(die, group, duration);
        let entry = &mut self.dies[die as usize];
        (entry.began, entry.suspends) = (entry.from, 0);
        if self.config.cache_program || (self.may_suspend && self.has_urgent_read(die)) {
            self.mark_die(die);
        }
    }

    /// With `until`, the fast path may also serve the next operations up to that time, unless something is
    /// reported.
    #[inline(always)]
    fn end(&mut self, die: u32, until: Option<SimTime>) {
        let Some(entry) = self.dies.get_mut(die as usize) else { return self.end_reader(die) };
        let is_done = match entry.phase {
            Phase::Reading => true,
            Phase::Array => entry.until <= self.now && entry.next.is_none(),
            _ => false,
        };
        match (entry.current, until) {
            (Some(group), Some(until)) if is_done && self.can_hurry => self.end_alone(die, group, until),
            (Some(group), _) if is_done => {
                self.free(die);
                self.complete_group(group);
            }
            _ => self.end_phase(die),
        }
    }

    /// Fast path: the die chooses its next operation at once, and time jumps to the end of that operation.
    /// Returns when another event comes first.
    #[inline(always)]
    fn end_alone(&mut self, die: u32, mut group: Group, until: SimTime) {
        let runner = 2 * die as usize;
        let others = self.race.first_but(runner);
        loop {
            let entry = &mut self.dies[die as usize];
            self.occupancy.held_ns[entry.class as usize] += self.now.since(entry.since);
            (entry.phase, entry.current) = (Phase::Idle, None);
            self.complete_group(group);
            // The completion may have started a delay that expires before the other events.
            let others = self.later.peek().map_or(others, |Reverse((time, ..))| others.min(*time));
            // The die continues alone only if nothing is reported, due at this instant, or suspended.
            let entry = &mut self.dies[die as usize];
            let is_all = self.reported.is_empty() && others > self.now && entry.suspended.is_none();
            let Some(class) = entry.queues.choice().filter(|_| is_all) else {
                self.race.set(runner, NEVER);
                return self.mark_die(die);
            };
            group = entry.queues.take(&mut self.ops, class, &self.config.deadline_ns);
            let &Op { next, more, .. } = &self.ops[group.first];
            // Planes that share array time take turns on the bus, which the fast path does not model.
            if next != NONE {
                self.race.set(runner, NEVER);
                return self.begin_on_bus(die, group);
            }
            let is_disturbed = self.may_suspend && entry.queues.has_urgent_read();
            if more > 0 && !is_disturbed && self.is_served() {
                self.pass_over(die, &mut group, until.min(others));
            }
            let due = self.set_alone(die, group);
            // Another event is due first, or a marked die or channel has to be served.
            if due > until || due >= others || !self.is_served() {
                return self.race.set(runner, due);
            }
            self.now = due;
        }
    }

    fn pass_over(&mut self, die: u32, group: &mut Group, until: SimTime) {
        let op = &self.ops[group.first];
        let command_ns = if group.kind == Kind::Read { self.config.command_ns } else { 0 };
        let array_ns = self.array_ns(group.kind, op.page).saturating_add(command_ns);
        let page_ns = array_ns.saturating_add(op.transfer_ns);
        // Skips the pages of a train that end before `until`. The last page is never skipped, because other
        // operations may wait for it.
        let pages = (until.since(self.now).saturating_sub(1) / page_ns).min(u64::from(op.more));
        if pages == 0 {
            return;
        }
        self.occupancy.held_ns[group.class as usize] += pages * page_ns;
        self.now = self.now + pages * page_ns;
        self.complete_pages(group.first, pages as u32);
        *group = self.dies[die as usize].queues.take(&mut self.ops, group.class, &self.config.deadline_ns);
    }

    fn end_phase(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        match (entry.phase, entry.current) {
            (Phase::Readers, _) => self.sensed(die, 0),
            (Phase::Array, Some(_)) if self.now < entry.until => {
                // The page of the program is loaded, and a host read waits for a suspend.
                let until = entry.until;
                self.race.set(2 * die as usize, until);
                self.mark_die(die);
            }
            (Phase::Array, Some(group)) => {
                // Cache program: a loaded page starts at once, an incomplete load continues in the
                // foreground.
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
                self.mark_die(die);
            }
            (Phase::Resuming, _) => {
                let Some(Suspended { group, left_ns, .. }) = entry.suspended.take() else { return };
                self.work(die, group, left_ns);
                self.mark_die(die);
            }
            (phase, _) => unreachable!("timing bug: phase {phase:?} cannot end"),
        }
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

    fn transferred(&mut self, die: u32) {
        self.race.set(2 * die as usize + 1, NEVER);
        let entry = &self.dies[die as usize];
        let (channel, carried) = (entry.channel, entry.carried);
        self.channels[channel as usize].is_busy = false;
        self.mark_channel(channel);
        match carried {
            Carry::Load => self.loaded(die),
            Carry::Command(reader) => self.commanded(die, reader),
            Carry::Data(reader) => self.sent(die, reader),
        }
    }

    fn loaded(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        let &Op { next: following, kind, class, .. } = &self.ops[entry.loads];
        // A word line crosses the bus as separate flash pages.
        if self.parts > 1 && kind == Kind::Program {
            entry.parts_loaded += 1;
            if entry.parts_loaded < self.parts {
                return self.request_bus(die, class, Carry::Load);
            }
            entry.parts_loaded = 0;
        }
        entry.loads = following;
        if let Some(next) = &mut entry.next
            && !next.is_loaded
        {
            next.is_loaded = following == NONE;
            let class = next.group.class;
            match following {
                // This load has delayed a suspend, and a host read may wait for that suspend.
                NONE => self.mark_die(die),
                _ => self.request_bus(die, class, Carry::Load),
            }
            return;
        }
        let Some(group) = entry.current else { return };
        match following {
            NONE => self.begin_array(die, group),
            _ => self.request_bus(die, group.class, Carry::Load),
        }
    }

    pub(super) fn serve_marked(&mut self) {
        loop {
            // Dies marked while a round runs are served in the next round.
            while !self.marked_dies.is_empty() {
                for word in 0..self.marked_dies.begin() {
                    for die in self.marked_dies.take(word) {
                        self.serve_die(die);
                    }
                }
                if !self.marked_channels.is_empty() {
                    break;
                }
            }
            if self.marked_channels.is_empty() {
                // Issue in order (`in_order.rs`): once the operation in the slot has begun, the next one
                // enters the slot, perhaps for an idle die.
                if self.fill_slot() {
                    continue;
                }
                return;
            }
            for word in 0..self.marked_channels.begin() {
                for channel in self.marked_channels.take(word) {
                    self.serve_channel(channel);
                }
            }
        }
    }

    #[inline(always)]
    fn serve_die(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        match entry.phase {
            Phase::Idle | Phase::Readers if self.overlaps_reads => self.serve_readers(die),
            Phase::Idle if entry.suspended.is_none() => {
                if let Some(class) = entry.queues.choice() {
                    let group = entry.queues.take(&mut self.ops, class, &self.config.deadline_ns);
                    self.begin(die, group);
                }
            }
            Phase::Idle => self.serve_suspended(die),
            Phase::Array => self.serve_array(die),
            _ => {}
        }
    }

    fn serve_suspended(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        // Host reads due by the deadline of the suspended operation come first, then its resume.
        if entry.suspended.is_some_and(|suspended| entry.queues.has_read_due(suspended.deadline)) {
            let group = entry.queues.take(&mut self.ops, Class::HostRead, &self.config.deadline_ns);
            return self.begin(die, group);
        }
        self.resume(die);
    }

    pub(super) fn resume(&mut self, die: u32) {
        if let Some(Suspended { group, .. }) = self.dies[die as usize].suspended {
            self.log_group(group, EventKind::Resumed);
            let due = self.at(self.config.suspend.resume_ns);
            self.set_phase(die, Phase::Resuming, group.class, due);
        }
    }

    fn serve_array(&mut self, die: u32) {
        let entry = &self.dies[die as usize];
        let Die { from, until, .. } = *entry;
        if self.may_suspend
            && let Some(group) = entry.current
            && self.has_read_due(die, self.resume_by(die, group.class))
        {
            // No suspend beyond `suspend.most`, shortly before the end, or in the middle of a load.
            let suspend = self.config.suspend;
            let may_suspend = entry.suspends < suspend.most
                && until.since(self.now.max(from)) > suspend.least_left_ns
                && entry.next.is_none_or(|next| next.is_loaded);
            if may_suspend && self.now < from {
                // Suspend as soon as the page is loaded.
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

    /// Latest deadline of a host read that takes precedence over the operation of `class`.
    fn resume_by(&self, die: u32, class: Class) -> SimTime {
        let deadlines = &self.config.deadline_ns;
        match deadlines[class as usize] {
            // Any read waiting now takes precedence, until `suspend.most` suspends.
            0 => self.at(deadlines[Class::HostRead as usize]),
            deadline_ns => (self.dies[die as usize].began + deadline_ns).min(LAST),
        }
    }

    fn suspend(&mut self, die: u32, until: SimTime) {
        self.occupancy.suspends += 1;
        let (class, due) = (self.dies[die as usize].class, self.at(self.config.suspend.suspend_ns));
        self.set_phase(die, Phase::Suspending, class, due);
        let entry = &mut self.dies[die as usize];
        entry.suspends += 1;
        let left_ns = until.since(self.now);
        if let Some(group) = entry.current.take() {
            let deadline = self.resume_by(die, group.class);
            self.dies[die as usize].suspended = Some(Suspended { group, left_ns, deadline });
            self.log_group(group, EventKind::Suspended);
        }
    }

    fn load_ahead(&mut self, die: u32) {
        let entry = &self.dies[die as usize];
        let is_program = entry.current.is_some_and(|group| group.kind == Kind::Program);
        if !is_program || entry.next.is_some() {
            return;
        }
        // Cache program loads only if the most urgent waiting operation is a program.
        let choice = self.first_class(die);
        let Some(class) =
            choice.filter(|class| matches!(class, Class::HostProgram | Class::BackgroundProgram))
        else {
            return;
        };
        let entry = &mut self.dies[die as usize];
        let group = entry.queues.take(&mut self.ops, class, &self.config.deadline_ns);
        let is_loaded = self.ops[group.first].transfer_ns == 0;
        entry.next = Some(Next { group, is_loaded });
        entry.loads = group.first;
        self.log_group(group, EventKind::FlashBegin);
        if !is_loaded {
            self.request_bus(die, class, Carry::Load);
        }
    }

    #[inline(always)]
    pub(super) fn begin(&mut self, die: u32, group: Group) {
        self.log_group(group, EventKind::FlashBegin);
        if self.owns_bus && self.ops[group.first].next == NONE {
            // A single operation on an unshared bus: its end is known now.
            let due = self.set_alone(die, group);
            return self.race.set(2 * die as usize, due);
        }
        self.begin_on_bus(die, group);
    }

    #[inline(never)]
    fn begin_on_bus(&mut self, die: u32, group: Group) {
        if group.kind == Kind::Read {
            return self.begin_read(die, 0, group);
        }
        if self.ops[group.first].transfer_ns == 0 {
            return self.begin_array(die, group);
        }
        self.set_phase(die, Phase::Loading, group.class, NEVER);
        let entry = &mut self.dies[die as usize];
        (entry.current, entry.loads) = (Some(group), group.first);
        self.request_bus(die, group.class, Carry::Load);
    }

    #[inline(always)]
    fn set_alone(&mut self, die: u32, group: Group) -> SimTime {
        let now = self.now;
        let &Op { transfer_ns, page, .. } = &self.ops[group.first];
        // The bus is not shared, so the whole schedule is known now.
        let (phase, from, until) = match group.kind {
            Kind::Read => {
                let on_bus = self.config.command_ns + transfer_ns;
                (Phase::Reading, now, now + self.array_ns(Kind::Read, page).saturating_add(on_bus))
            }
            Kind::Erase => {
                let from = now + transfer_ns;
                (Phase::Array, from, from + self.array_ns(Kind::Erase, page))
            }
            _ => {
                let from = now + transfer_ns;
                (Phase::Array, from, from + self.array_ns(Kind::Program, page))
            }
        };
        let (from, until) = (from.min(LAST), until.min(LAST));
        let entry = &mut self.dies[die as usize];
        (entry.phase, entry.class, entry.since) = (phase, group.class, now);
        (entry.current, entry.from, entry.until) = (Some(group), from, until);
        if self.may_suspend && phase == Phase::Array {
            (entry.began, entry.suspends) = (from, 0);
            // A host read may have waited since before this operation began.
            if entry.queues.has_urgent_read() {
                self.mark_die(die);
            }
        }
        until
    }

    fn serve_channel(&mut self, channel: u32) {
        let entry = &mut self.channels[channel as usize];
        if entry.is_busy {
            return;
        }
        let Some((die, what)) = entry.next() else { return };
        entry.is_busy = true;
        let entry = &mut self.dies[die as usize];
        entry.carried = what;
        let loads = entry.loads;
        let transfer_ns = match what {
            Carry::Load if self.parts > 1 && self.ops[loads].kind == Kind::Program => self.part_transfer_ns,
            Carry::Load => self.ops[loads].transfer_ns,
            Carry::Command(_) => self.config.command_ns,
            Carry::Data(reader) => self.data_ns(die, reader),
        };
        if self.log.is_on() {
            self.log_transfer(channel, die, what, transfer_ns);
        }
        let due = self.at(transfer_ns);
        self.race.set(2 * die as usize + 1, due);
    }

    #[inline]
    pub(super) fn next_instant(&self) -> SimTime {
        let first = self.race.first().1;
        self.later.peek().map_or(first, |Reverse((time, ..))| first.min(*time))
    }

    #[inline(always)]
    pub(super) fn pass(&mut self, time: SimTime, until: Option<SimTime>) {
        self.now = time;
        loop {
            let (first, due) = self.race.first();
            if due > time {
                break;
            }
            match first % 2 {
                0 => self.end((first / 2) as u32, until),
                _ => self.transferred((first / 2) as u32),
            }
        }
        // Delays expire after activities, in issue order.
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
