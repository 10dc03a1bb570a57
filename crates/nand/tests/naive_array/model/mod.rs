//! Rules of flash in virtual time in their plainest form: vectors, and a scan of everything at each step.
//!
//! The model settles points that the rules leave open. An event releases operations in issue order. The entry
//! of a released operation into its queue (or the completion of a join) is a separate event, handled after
//! those before it. A program behind an erase of its block follows the erase, and no longer the programs
//! before that.

mod dies;
mod reader;
mod waits;

use std::collections::VecDeque;

use reader::{Reader, Reading};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Join,
    Read,
    Program,
    Erase,
}

/// Class of host reads, which may suspend programs and erases. Classes are numbered by urgency.
const HOST_READ: usize = 0;
pub(crate) const CLASSES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    At(u64),
    With(usize),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) read_ns: Vec<u64>,
    pub(crate) program_ns: Vec<u64>,
    pub(crate) erase_ns: u64,
    pub(crate) slc_ns: [u64; 3],
    pub(crate) unit_ns: u64,
    pub(crate) page_ns: u64,
    pub(crate) parts: usize,
    pub(crate) command_ns: u64,
    pub(crate) cache_program: bool,
    pub(crate) cache_read: bool,
    pub(crate) readers: usize,
    pub(crate) deadline_ns: [u64; CLASSES],
    pub(crate) most: u32,
    pub(crate) suspend_ns: u64,
    pub(crate) resume_ns: u64,
    pub(crate) least_left_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    pub(crate) die: usize,
    pub(crate) block: usize,
    pub(crate) plane: u32,
    pub(crate) page: u32,
    pub(crate) slc: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Waiting,
    Ready,
    Queued,
    Running,
    Complete,
}

#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    class: usize,
    target: Target,
    transfer_ns: u64,
    not_before: Option<u64>,
    after: Vec<usize>,
    behind: Option<usize>,
    state: State,
    ready_at: u64,
    token: Option<u64>,
}

type Group = Vec<usize>;

#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    Loading { group: Group, at: usize },
    Array { group: Group, until: u64 },
    Suspending { until: u64 },
    Resuming { until: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carry {
    Load,
    Command(usize),
    Data(usize),
}

enum End {
    Die(usize),
    Reader(usize, usize),
    Bus(usize),
}

#[derive(Clone, Debug)]
struct Ahead {
    group: Group,
    loaded: usize,
}

#[derive(Clone, Debug)]
struct Die {
    channel: usize,
    queue: Vec<usize>,
    doing: Doing,
    readers: Vec<Reader>,
    ahead: Option<Ahead>,
    suspended: Option<(Group, u64, u64)>,
    began: u64,
    suspends: u32,
}

#[derive(Clone, Debug, Default)]
struct Bus {
    requests: Vec<(u64, usize, usize, Carry)>,
    carries: Option<(usize, Carry, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    config: Config,
    pub(crate) now: u64,
    ops: Vec<Op>,
    ready: VecDeque<usize>,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    pub(crate) reported: Vec<u64>,
    pub(crate) held_ns: [u64; CLASSES],
    pub(crate) suspends: u64,
    pub(crate) overlapped: u64,
}

impl Model {
    pub(crate) fn new(config: Config, channels: usize, dies_per_channel: usize) -> Self {
        let die = |die| Die {
            channel: die / dies_per_channel,
            queue: Vec::new(),
            doing: Doing::Nothing,
            readers: vec![Reader { reading: Reading::Nothing, sending: None }; config.readers],
            ahead: None,
            suspended: None,
            began: 0,
            suspends: 0,
        };
        let dies = (0..channels * dies_per_channel).map(die).collect();
        Self {
            config,
            now: 0,
            ops: Vec::new(),
            ready: VecDeque::new(),
            dies,
            buses: vec![Bus::default(); channels],
            reported: Vec::new(),
            held_ns: [0; CLASSES],
            suspends: 0,
            overlapped: 0,
        }
    }

    fn add(&mut self, kind: Kind, class: usize, after: &[Then], target: Target, transfer_ns: u64) -> usize {
        let not_before = after
            .iter()
            .filter_map(|then| match then {
                Then::At(time) => Some(*time),
                Then::With(_) => None,
            })
            .max()
            .filter(|&time| time > self.now);
        let after = after
            .iter()
            .filter_map(|then| match then {
                Then::With(op) => Some(*op),
                Then::At(_) => None,
            })
            .collect();
        let (state, behind, token) = (State::Waiting, None, None);
        let op =
            Op { kind, class, target, transfer_ns, not_before, after, behind, state, ready_at: 0, token };
        self.ops.push(op);
        self.ops.len() - 1
    }

    pub(crate) fn issue(
        &mut self,
        kind: Kind,
        class: usize,
        units: u32,
        after: Then,
        target: Target,
    ) -> Then {
        let transfer_ns = match kind {
            Kind::Read => self.config.unit_ns * u64::from(units),
            Kind::Program => self.config.command_ns + self.config.page_ns,
            Kind::Erase => self.config.command_ns,
            Kind::Join => 0,
        };
        let new = self.add(kind, class, &[after], target, transfer_ns);
        let earlier: Vec<usize> = (0..new)
            .filter(|&op| self.ops[op].kind != Kind::Join && self.ops[op].target.block == target.block)
            .collect();
        for &op in &earlier {
            if kind == Kind::Erase || self.ops[op].kind == Kind::Erase {
                self.ops[new].after.push(op);
            }
        }
        let last_write = earlier.iter().rev().find(|&&op| self.ops[op].kind != Kind::Read);
        if let (Kind::Program, Some(&last)) = (kind, last_write)
            && self.ops[last].kind == Kind::Program
        {
            self.ops[new].behind = Some(last);
            if self.ops[last].state <= State::Queued {
                self.ops[new].class = self.ops[last].class;
            }
        }
        self.let_go();
        Then::With(new)
    }

    pub(crate) fn watch(&mut self, then: Then, token: u64) {
        let op = match then {
            Then::With(op) if !self.is_there(then) && self.ops[op].token.is_none() => op,
            _ => self.add(Kind::Join, 0, &[then], Target::default(), 0),
        };
        self.ops[op].token = Some(token);
        self.let_go();
    }

    pub(crate) fn is_there(&self, then: Then) -> bool {
        match then {
            Then::At(time) => time <= self.now,
            Then::With(op) => self.ops[op].state == State::Complete,
        }
    }

    pub(crate) fn has_begun(&self, then: Then) -> Option<bool> {
        match then {
            Then::At(_) => None,
            Then::With(op) => match self.ops[op].state {
                State::Complete => None,
                state => Some(state == State::Running),
            },
        }
    }

    pub(crate) fn programs_ahead(&self, block: usize) -> u32 {
        let is_one =
            |op: &&Op| op.kind == Kind::Program && op.target.block == block && op.state != State::Complete;
        self.ops.iter().filter(is_one).count() as u32
    }

    pub(crate) fn backlog(&self, die: usize) -> u32 {
        let waits = |op: &&Op| op.state == State::Waiting && op.kind != Kind::Join && op.target.die == die;
        let waiting = self.ops.iter().filter(waits).count();
        (waiting + self.dies[die].queue.len()) as u32 + u32::from(self.is_busy(die))
    }

    fn is_busy(&self, die: usize) -> bool {
        !matches!(self.dies[die].doing, Doing::Nothing) || self.reads(die)
    }

    fn reads(&self, die: usize) -> bool {
        self.dies[die].readers.iter().any(|reader| reader.groups().next().is_some())
    }

    pub(crate) fn busy_dies(&self) -> u32 {
        (0..self.dies.len()).filter(|&die| self.is_busy(die)).count() as u32
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ops.iter().all(|op| op.state == State::Complete)
    }

    fn is_ready(&self, op: &Op) -> bool {
        op.state == State::Waiting
            && op.not_before.is_none()
            && op.after.iter().all(|&other| self.ops[other].state == State::Complete)
            && op.behind.is_none_or(|other| self.ops[other].state >= State::Queued)
    }

    fn record_ready(&mut self) {
        for op in 0..self.ops.len() {
            if self.is_ready(&self.ops[op]) {
                self.ops[op].state = State::Ready;
                self.ready.push_back(op);
            }
        }
    }

    fn let_go(&mut self) {
        self.record_ready();
        while let Some(op) = self.ready.pop_front() {
            if self.ops[op].kind == Kind::Join {
                self.ops[op].state = State::Complete;
                self.reported.extend(self.ops[op].token);
            } else {
                self.ops[op].state = State::Queued;
                self.ops[op].ready_at = self.now;
                let die = self.ops[op].target.die;
                self.dies[die].queue.push(op);
            }
            self.record_ready();
        }
    }

    fn complete(&mut self, op: usize) {
        self.ops[op].state = State::Complete;
        self.reported.extend(self.ops[op].token);
        self.let_go();
    }

    fn held_by(&self, die: usize) -> Option<usize> {
        let entry = &self.dies[die];
        let group = match &entry.doing {
            Doing::Nothing => {
                let reads = entry.readers.iter().flat_map(Reader::groups);
                return reads.map(|group| self.ops[group[0]].class).min();
            }
            Doing::Loading { group, .. } | Doing::Array { group, .. } => group,
            Doing::Suspending { .. } | Doing::Resuming { .. } => &entry.suspended.as_ref()?.0,
        };
        Some(self.ops[group[0]].class)
    }

    fn go_to(&mut self, time: u64) {
        for die in 0..self.dies.len() {
            if let Some(class) = self.held_by(die) {
                self.held_ns[class] += time - self.now;
            }
        }
        self.now = time;
    }

    pub(crate) fn step(&mut self, time: u64) {
        self.go_to(time);
        while let Some(end) = self.first_end(time) {
            match end {
                End::Die(die) => self.end_die(die),
                End::Reader(die, reader) => self.end_reader(die, reader),
                End::Bus(bus) => self.end_bus(bus),
            }
        }
        while let Some(op) = self.ops.iter().position(|op| op.not_before == Some(time)) {
            self.ops[op].not_before = None;
            self.let_go();
        }
    }

    /// First activity to end at `time`.
    fn first_end(&self, time: u64) -> Option<End> {
        // Dies come in order; on one die its array (all planes, or the first) comes before its bus transfer.
        // Arrays of other independent planes come last, die by die.
        let dies = || 0..self.dies.len();
        let whole =
            dies().filter(|&die| self.die_end(die) == Some(time)).map(|die| ((0, die, 0), End::Die(die)));
        let buses = (0..self.buses.len()).filter_map(|bus| {
            let (die, _, until) = self.buses[bus].carries?;
            (until == time).then_some(((0, die, 1), End::Bus(bus)))
        });
        let planes = dies().flat_map(|die| (0..self.config.readers).map(move |reader| (die, reader)));
        let planes = planes.filter(|&(die, reader)| self.reader_end(die, reader) == Some(time));
        let planes =
            planes.map(|(die, reader)| ((usize::from(reader > 0), die, reader), End::Reader(die, reader)));
        whole.chain(buses).chain(planes).min_by_key(|(order, _)| *order).map(|(_, end)| end)
    }

    pub(crate) fn run(&mut self, until: u64) -> bool {
        while self.reported.is_empty() {
            self.start();
            match self.next_time().filter(|&time| time <= until) {
                Some(time) => self.step(time),
                None => {
                    self.go_to(until.max(self.now));
                    return false;
                }
            }
        }
        true
    }

    pub(crate) fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            self.start();
            let time = self.next_time().expect("something is on its way");
            self.step(time);
        }
    }
}
