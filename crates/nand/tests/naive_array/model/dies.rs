//! What dies and buses choose, and what happens when something ends.

use super::{Ahead, CLASSES, Doing, Group, HOST_READ, Kind, Model, State};

impl Model {
    /// The first operation of `class` in the queue of `die`.
    fn head(&self, die: usize, class: usize) -> Option<usize> {
        self.dies[die].queue.iter().copied().find(|&op| self.ops[op].class == class)
    }

    fn choice(&self, die: usize) -> Option<usize> {
        (0..CLASSES)
            .filter_map(|class| {
                let head = self.head(die, class)?;
                // Of equal ones the one issued first.
                Some((self.ops[head].ready_at + self.config.patience_ns[class], head, class))
            })
            .min()
            .map(|(_, _, class)| class)
    }

    /// Takes the next group of `class` out of the queue of `die`; it runs.
    fn take(&mut self, die: usize, class: usize) -> Group {
        let line: Vec<usize> =
            self.dies[die].queue.iter().copied().filter(|&op| self.ops[op].class == class).collect();
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

    /// Lets everything start that can.
    pub(crate) fn start(&mut self) {
        loop {
            let mut is_new = false;
            for die in 0..self.dies.len() {
                is_new |= self.look_at_die(die);
            }
            for bus in 0..self.buses.len() {
                is_new |= self.look_at_bus(bus);
            }
            if !is_new {
                return;
            }
        }
    }

    fn look_at_die(&mut self, die: usize) -> bool {
        let has_host_read = self.head(die, HOST_READ).is_some();
        let entry = &self.dies[die];
        match entry.doing.clone() {
            Doing::Nothing if entry.suspended.is_some() => {
                if has_host_read {
                    self.begin(die, HOST_READ);
                } else {
                    self.dies[die].doing = Doing::Resuming { until: self.now + self.config.resume_ns };
                }
                true
            }
            Doing::Nothing => {
                let Some(class) = self.choice(die) else { return false };
                self.begin(die, class);
                true
            }
            Doing::Array { group, until } => {
                let is_loading = entry.ahead.as_ref().is_some_and(|ahead| ahead.loaded < ahead.group.len());
                let left = until - self.now;
                let may_suspend =
                    entry.suspends < self.config.most && left > self.config.least_left_ns && !is_loading;
                if has_host_read && may_suspend {
                    self.suspends += 1;
                    let entry = &mut self.dies[die];
                    entry.suspends += 1;
                    entry.suspended = Some((group, left));
                    entry.doing = Doing::Suspending { until: self.now + self.config.suspend_ns };
                    return true;
                }
                self.load_ahead(die, &group)
            }
            _ => false,
        }
    }

    fn load_ahead(&mut self, die: usize, running: &Group) -> bool {
        let programs = self.ops[running[0]].kind == Kind::Program;
        if !self.config.cache_program || !programs || self.dies[die].ahead.is_some() {
            return false;
        }
        let Some(class) = self.choice(die) else { return false };
        if self.head(die, class).is_none_or(|op| self.ops[op].kind != Kind::Program) {
            return false;
        }
        let group = self.take(die, class);
        let loaded = if self.config.page_ns == 0 { group.len() } else { 0 };
        if loaded == 0 {
            self.request(die, class);
        }
        self.dies[die].ahead = Some(Ahead { group, loaded });
        true
    }

    fn begin(&mut self, die: usize, class: usize) {
        let group = self.take(die, class);
        self.dies[die].doing = match self.ops[group[0]].kind {
            Kind::Read => {
                let until = self.now + self.array_ns(&group);
                Doing::Sensing { group, until }
            }
            Kind::Program if self.config.page_ns > 0 => {
                self.request(die, class);
                Doing::Loading { group, at: 0 }
            }
            _ => return self.begin_array(die, group),
        };
    }

    /// How long the array is at work for the page that all of `group` have to do with.
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
            (_, true) => program,
        }
    }

    fn begin_array(&mut self, die: usize, group: Group) {
        let duration = self.array_ns(&group);
        self.dies[die].suspends = 0;
        self.dies[die].doing = Doing::Array { group, until: self.now + duration };
    }

    fn request(&mut self, die: usize, class: usize) {
        let channel = self.dies[die].channel;
        self.buses[channel].requests.push((class, die));
    }

    /// The page that `die` has on the bus or wants there.
    fn page_of(&self, die: usize) -> usize {
        let entry = &self.dies[die];
        match (&entry.ahead, &entry.doing) {
            (Some(ahead), _) if ahead.loaded < ahead.group.len() => ahead.group[ahead.loaded],
            (_, Doing::Sending { group, at } | Doing::Loading { group, at }) => group[*at],
            (_, other) => panic!("{other:?} has no page for the bus"),
        }
    }

    fn look_at_bus(&mut self, bus: usize) -> bool {
        let entry = &mut self.buses[bus];
        // Of equal ones the first: what came earlier stands further ahead.
        let first = (0..entry.requests.len()).min_by_key(|&at| entry.requests[at].0);
        let (None, Some(first)) = (entry.carries, first) else { return false };
        let (_, die) = entry.requests.remove(first);
        let until = self.now + self.ops[self.page_of(die)].transfer_ns;
        self.buses[bus].carries = Some((die, until));
        true
    }

    pub(super) fn die_end(&self, die: usize) -> Option<u64> {
        match self.dies[die].doing {
            Doing::Sensing { until, .. } | Doing::Array { until, .. } => Some(until),
            Doing::Suspending { until } | Doing::Resuming { until } => Some(until),
            Doing::Nothing | Doing::Sending { .. } | Doing::Loading { .. } => None,
        }
    }

    pub(super) fn bus_end(&self, bus: usize) -> Option<u64> {
        self.buses[bus].carries.map(|(_, until)| until)
    }

    pub(crate) fn next_time(&self) -> Option<u64> {
        let dies = (0..self.dies.len()).filter_map(|die| self.die_end(die));
        let buses = (0..self.buses.len()).filter_map(|bus| self.bus_end(bus));
        let times = self.ops.iter().filter_map(|op| op.not_before);
        dies.chain(buses).chain(times).min()
    }

    /// Sends the pages of a read from `at` on, as far as that needs no bus.
    fn send(&mut self, die: usize, group: Group, mut at: usize) {
        while at < group.len() && self.ops[group[at]].transfer_ns == 0 {
            self.complete(group[at]);
            at += 1;
        }
        if at < group.len() {
            self.request(die, self.ops[group[at]].class);
            self.dies[die].doing = Doing::Sending { group, at };
        } else {
            self.dies[die].doing = Doing::Nothing;
        }
    }

    pub(super) fn end_die(&mut self, die: usize) {
        match std::mem::replace(&mut self.dies[die].doing, Doing::Nothing) {
            Doing::Sensing { group, .. } => self.send(die, group, 0),
            Doing::Array { group, .. } => {
                for op in group {
                    self.complete(op);
                }
                match self.dies[die].ahead.take() {
                    None => {}
                    Some(Ahead { group, loaded }) if loaded == group.len() => self.begin_array(die, group),
                    Some(Ahead { group, loaded }) => {
                        self.dies[die].doing = Doing::Loading { group, at: loaded };
                    }
                }
            }
            // Nothing is what it does, as far as it chooses; what is suspended says what it may choose.
            Doing::Suspending { .. } => {}
            Doing::Resuming { .. } => {
                let (group, left) = self.dies[die].suspended.take().expect("what is resumed");
                self.dies[die].doing = Doing::Array { group, until: self.now + left };
            }
            other => panic!("{other:?} has no end"),
        }
    }

    pub(super) fn end_bus(&mut self, bus: usize) {
        let (die, _) = self.buses[bus].carries.take().expect("a transfer");
        let entry = &mut self.dies[die];
        if let Some(ahead) = &mut entry.ahead
            && ahead.loaded < ahead.group.len()
        {
            ahead.loaded += 1;
            if ahead.loaded < ahead.group.len() {
                let class = self.ops[ahead.group[0]].class;
                self.request(die, class);
            }
            return;
        }
        match entry.doing.clone() {
            Doing::Sending { group, at } => {
                self.complete(group[at]);
                self.send(die, group, at + 1);
            }
            Doing::Loading { group, at } if at + 1 < group.len() => {
                self.request(die, self.ops[group[0]].class);
                self.dies[die].doing = Doing::Loading { group, at: at + 1 };
            }
            Doing::Loading { group, .. } => self.begin_array(die, group),
            other => panic!("{other:?} sent or loaded nothing"),
        }
    }
}
