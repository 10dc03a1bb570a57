use super::reader::Reading;
use super::{Ahead, Carry, Doing, Group, HOST_READ, Kind, Model, Op, State};

impl Model {
    fn reader_of(&self, op: usize) -> usize {
        if self.config.readers > 1 { self.ops[op].target.plane as usize } else { 0 }
    }

    pub(super) fn line(&self, op: usize) -> (usize, usize) {
        let reader = if self.ops[op].kind == Kind::Read { self.reader_of(op) } else { 0 };
        (self.ops[op].class, reader)
    }

    /// First operation of each queue of `die`, the earliest deadline first, then in issue order. While an
    /// operation is suspended only host reads due by its deadline.
    fn heads(&self, die: usize) -> Vec<usize> {
        let mut heads: Vec<usize> = Vec::new();
        for &op in &self.dies[die].queue {
            let suspended = self.dies[die].suspended.as_ref();
            let counts = suspended.is_none_or(|&(.., deadline)| self.is_read_due(op, deadline));
            if counts && heads.iter().all(|&other| self.line(other) != self.line(op)) {
                heads.push(op);
            }
        }
        heads.sort_by_key(|&op| (self.ops[op].ready_at + self.config.deadline_ns[self.ops[op].class], op));
        heads
    }

    fn is_read_due(&self, op: usize, deadline: u64) -> bool {
        let Op { class, ready_at, .. } = self.ops[op];
        class == HOST_READ && ready_at + self.config.deadline_ns[HOST_READ] <= deadline
    }

    fn deadline(&self, die: usize, group: &Group) -> u64 {
        match self.config.deadline_ns[self.ops[group[0]].class] {
            0 => self.now + self.config.deadline_ns[HOST_READ],
            deadline_ns => self.dies[die].began + deadline_ns,
        }
    }

    fn take(&mut self, die: usize, head: usize) -> Group {
        let in_line = |op: &usize| self.line(*op) == self.line(head);
        let line: Vec<usize> = self.dies[die].queue.iter().copied().filter(in_line).collect();
        let mut group: Group = Vec::new();
        for op in line {
            let entry = &self.ops[op];
            let fits = group.iter().all(|&other| {
                let other = &self.ops[other];
                (other.kind, other.target.page, other.target.slc)
                    == (entry.kind, entry.target.page, entry.target.slc)
                    && other.target.plane != entry.target.plane
            });
            if !fits {
                break;
            }
            group.push(op);
        }
        self.dies[die].queue.retain(|op| !group.contains(op));
        for &op in &group {
            self.ops[op].state = State::Running;
        }
        group
    }

    pub(crate) fn start(&mut self) {
        loop {
            let mut is_new = false;
            for die in 0..self.dies.len() {
                is_new |= self.serve_die(die);
            }
            for bus in 0..self.buses.len() {
                is_new |= self.serve_bus(bus);
            }
            if !is_new {
                return;
            }
        }
    }

    fn serve_die(&mut self, die: usize) -> bool {
        let entry = &self.dies[die];
        match entry.doing.clone() {
            Doing::Nothing => self.serve_free(die),
            Doing::Array { group, until } => {
                let is_loading =
                    entry.ahead.as_ref().is_some_and(|ahead| ahead.loaded < self.loads(&ahead.group));
                let left = until - self.now;
                let may_suspend =
                    entry.suspends < self.config.most && left > self.config.least_left_ns && !is_loading;
                let deadline = self.deadline(die, &group);
                let has_host_read = entry.queue.iter().any(|&op| self.is_read_due(op, deadline));
                if has_host_read && may_suspend {
                    self.suspends += 1;
                    let entry = &mut self.dies[die];
                    entry.suspends += 1;
                    entry.suspended = Some((group, left, deadline));
                    entry.doing = Doing::Suspending { until: self.now + self.config.suspend_ns };
                    return true;
                }
                self.load_ahead(die, &group)
            }
            _ => false,
        }
    }

    fn serve_free(&mut self, die: usize) -> bool {
        let mut is_new = false;
        while self.begin_read(die) {
            is_new = true;
        }
        if self.reads(die) {
            return is_new;
        }
        match self.heads(die).first() {
            Some(&first) => self.begin(die, first),
            None if self.dies[die].suspended.is_some() => {
                self.dies[die].doing = Doing::Resuming { until: self.now + self.config.resume_ns };
            }
            None => return is_new,
        }
        true
    }

    fn begin_read(&mut self, die: usize) -> bool {
        let heads = self.heads(die);
        if heads.first().is_none_or(|&first| self.ops[first].kind != Kind::Read) {
            return false;
        }
        let can_begin = |&&op: &&usize| {
            let reader = &self.dies[die].readers[self.reader_of(op)];
            self.ops[op].kind == Kind::Read
                && matches!(reader.reading, Reading::Nothing)
                && (self.config.cache_read || reader.sending.is_none())
        };
        let Some(&read) = heads.iter().find(can_begin) else { return false };
        let (reader, class) = (self.reader_of(read), self.ops[read].class);
        self.overlapped += u64::from(self.reads(die));
        let group = self.take(die, read);
        if self.config.command_ns > 0 {
            self.request(die, class, Carry::Command(reader));
            self.dies[die].readers[reader].reading = Reading::Commands { group, at: 0 };
        } else {
            self.sense(die, reader, group);
        }
        true
    }

    fn sense(&mut self, die: usize, reader: usize, group: Group) {
        let until = self.now + self.array_ns(&group);
        self.dies[die].readers[reader].reading = Reading::Sensing { group, until };
    }

    fn load_ahead(&mut self, die: usize, running: &Group) -> bool {
        let programs = self.ops[running[0]].kind == Kind::Program;
        if !self.config.cache_program || !programs || self.dies[die].ahead.is_some() {
            return false;
        }
        let Some(&head) = self.heads(die).first() else { return false };
        if self.ops[head].kind != Kind::Program {
            return false;
        }
        let group = self.take(die, head);
        let loaded = if self.ops[head].transfer_ns == 0 { self.loads(&group) } else { 0 };
        if loaded == 0 {
            self.request(die, self.ops[head].class, Carry::Load);
        }
        self.dies[die].ahead = Some(Ahead { group, loaded });
        true
    }

    fn loads(&self, group: &Group) -> usize {
        group.len() * self.parts(group)
    }

    fn parts(&self, group: &Group) -> usize {
        if self.ops[group[0]].kind == Kind::Program { self.config.parts } else { 1 }
    }

    fn begin(&mut self, die: usize, head: usize) {
        let group = self.take(die, head);
        if self.ops[head].transfer_ns > 0 {
            self.request(die, self.ops[head].class, Carry::Load);
            self.dies[die].doing = Doing::Loading { group, at: 0 };
        } else {
            self.begin_array(die, group);
        }
    }

    fn array_ns(&self, group: &Group) -> u64 {
        let op = &self.ops[group[0]];
        let of_page = |times: &[u64]| times[op.target.page as usize % times.len()];
        let [read, program, erase] = self.config.slc_ns;
        match (op.kind, op.target.slc) {
            (Kind::Read, false) => of_page(&self.config.read_ns),
            (Kind::Read, true) => read,
            (Kind::Erase, false) => self.config.erase_ns,
            (Kind::Erase, true) => erase,
            (_, false) => of_page(&self.config.program_ns),
            // In SLC mode each flash page is a separate word line.
            (_, true) => program * self.config.parts as u64,
        }
    }

    fn begin_array(&mut self, die: usize, group: Group) {
        let duration = self.array_ns(&group);
        (self.dies[die].began, self.dies[die].suspends) = (self.now, 0);
        self.dies[die].doing = Doing::Array { group, until: self.now + duration };
    }

    fn request(&mut self, die: usize, class: usize, what: Carry) {
        let channel = self.dies[die].channel;
        let deadline = self.now + self.config.deadline_ns[class];
        self.buses[channel].requests.push((deadline, class, die, what));
    }

    fn carry_ns(&self, die: usize, what: Carry) -> u64 {
        let entry = &self.dies[die];
        let op = match what {
            Carry::Command(_) => return self.config.command_ns,
            Carry::Data(reader) => entry.readers[reader].sending.as_ref().map(|(group, at)| group[*at]),
            Carry::Load => match (&entry.ahead, &entry.doing) {
                (Some(ahead), _) if ahead.loaded < self.loads(&ahead.group) => Some(ahead.group[0]),
                (_, Doing::Loading { group, .. }) => Some(group[0]),
                _ => None,
            },
        };
        self.ops[op.expect("somebody wants it carried")].transfer_ns
    }

    fn serve_bus(&mut self, bus: usize) -> bool {
        let entry = &mut self.buses[bus];
        // The class with the earliest deadline, on ties the most urgent; commands before data; then in order
        // of arrival.
        let deadline = |class: usize| {
            entry.requests.iter().filter(|request| request.1 == class).map(|request| request.0).min()
        };
        let order = |&at: &usize| {
            let (_, class, _, what) = entry.requests[at];
            (deadline(class), class, !matches!(what, Carry::Command(_)))
        };
        let first = (0..entry.requests.len()).min_by_key(order);
        let (None, Some(first)) = (entry.carries, first) else { return false };
        let (.., die, what) = entry.requests.remove(first);
        let until = self.now + self.carry_ns(die, what);
        self.buses[bus].carries = Some((die, what, until));
        true
    }

    pub(super) fn die_end(&self, die: usize) -> Option<u64> {
        match self.dies[die].doing {
            Doing::Array { until, .. } => Some(until),
            Doing::Suspending { until } | Doing::Resuming { until } => Some(until),
            Doing::Nothing | Doing::Loading { .. } => None,
        }
    }

    pub(super) fn reader_end(&self, die: usize, reader: usize) -> Option<u64> {
        match self.dies[die].readers[reader].reading {
            Reading::Sensing { until, .. } => Some(until),
            _ => None,
        }
    }

    pub(crate) fn next_time(&self) -> Option<u64> {
        let dies = (0..self.dies.len()).filter_map(|die| self.die_end(die));
        let planes = (0..self.dies.len()).flat_map(|die| (0..self.config.readers).map(move |at| (die, at)));
        let planes = planes.filter_map(|(die, reader)| self.reader_end(die, reader));
        let buses = self.buses.iter().filter_map(|bus| bus.carries.map(|(.., until)| until));
        let times = self.ops.iter().filter_map(|op| op.not_before);
        dies.chain(planes).chain(buses).chain(times).min()
    }

    fn send(&mut self, die: usize, reader: usize) {
        loop {
            let entry = &mut self.dies[die].readers[reader];
            match (&entry.sending, &entry.reading) {
                (None, Reading::Sensed { group }) => {
                    entry.sending = Some((group.clone(), 0));
                    entry.reading = Reading::Nothing;
                }
                (None, _) => return,
                (Some((group, at)), _) if *at == group.len() => entry.sending = None,
                (Some((group, at)), _) => {
                    let (op, next) = (group[*at], *at + 1);
                    if self.ops[op].transfer_ns > 0 {
                        return self.request(die, self.ops[op].class, Carry::Data(reader));
                    }
                    entry.sending = Some((group.clone(), next));
                    self.complete(op);
                }
            }
        }
    }

    pub(super) fn end_reader(&mut self, die: usize, reader: usize) {
        let entry = &mut self.dies[die].readers[reader];
        let Reading::Sensing { group, .. } = entry.reading.clone() else {
            panic!("{entry:?} senses nothing")
        };
        entry.reading = Reading::Sensed { group };
        if entry.sending.is_none() {
            self.send(die, reader);
        }
    }

    pub(super) fn end_die(&mut self, die: usize) {
        match std::mem::replace(&mut self.dies[die].doing, Doing::Nothing) {
            Doing::Array { group, .. } => {
                for op in group {
                    self.complete(op);
                }
                match self.dies[die].ahead.take() {
                    None => {}
                    Some(Ahead { group, loaded }) if loaded == self.loads(&group) => {
                        self.begin_array(die, group);
                    }
                    Some(Ahead { group, loaded }) => {
                        self.dies[die].doing = Doing::Loading { group, at: loaded };
                    }
                }
            }
            // The die chooses next; its suspended operation limits the choice.
            Doing::Suspending { .. } => {}
            Doing::Resuming { .. } => {
                let (group, left, _) = self.dies[die].suspended.take().expect("what is resumed");
                self.dies[die].doing = Doing::Array { group, until: self.now + left };
            }
            other => panic!("{other:?} has no end"),
        }
    }

    pub(super) fn end_bus(&mut self, bus: usize) {
        let (die, what, _) = self.buses[bus].carries.take().expect("a transfer");
        match what {
            Carry::Load => self.end_load(die),
            Carry::Command(reader) => self.end_command(die, reader),
            Carry::Data(reader) => {
                let sending = &mut self.dies[die].readers[reader].sending;
                let (group, at) = sending.as_mut().expect("what was sent");
                let op = group[*at];
                *at += 1;
                self.complete(op);
                self.send(die, reader);
            }
        }
    }

    fn end_command(&mut self, die: usize, reader: usize) {
        let reading = &mut self.dies[die].readers[reader].reading;
        let Reading::Commands { group, at } = reading else { panic!("{reading:?} sent no command") };
        *at += 1;
        let (group, is_last) = (group.clone(), *at == group.len());
        if is_last {
            self.sense(die, reader, group);
        } else {
            self.request(die, self.ops[group[0]].class, Carry::Command(reader));
        }
    }

    fn end_load(&mut self, die: usize) {
        if let Some(mut ahead) = self.dies[die].ahead.clone()
            && ahead.loaded < self.loads(&ahead.group)
        {
            ahead.loaded += 1;
            if ahead.loaded < self.loads(&ahead.group) {
                self.request(die, self.ops[ahead.group[0]].class, Carry::Load);
            }
            self.dies[die].ahead = Some(ahead);
            return;
        }
        match self.dies[die].doing.clone() {
            Doing::Loading { group, at } if at + 1 < self.loads(&group) => {
                self.request(die, self.ops[group[0]].class, Carry::Load);
                self.dies[die].doing = Doing::Loading { group, at: at + 1 };
            }
            Doing::Loading { group, .. } => self.begin_array(die, group),
            other => panic!("{other:?} loaded nothing"),
        }
    }
}
