//! A host on the drive's device interface that sees every instant and can stop at any.

use strobe_nand::NandOp;
use strobe_ssd::{Command, Completion, DriveConfig, DriveStats, Range, Simulated, build};
use strobe_types::{Geometry, Op, Prng, Request, SimTime};
use strobe_workload::arrivals::{Arrivals, RateProcess};
use strobe_workload::synthetic::{Kind, Synthetic, SyntheticConfig, Workload};

const SEED: u64 = 42;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
}

impl Tally {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count as f64
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    pub(crate) least: u32,
    pub(crate) most: u32,
    block_ns: u128,
    since: SimTime,
}

/// In blocks: erased blocks and the rest of open ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeSpace {
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Victims so far, the sum of units written at their choices, and the number of choices.
    victims: u64,
    written: u64,
    choices: u64,
}

impl Default for FreeSpace {
    fn default() -> Self {
        Self { least: f64::MAX, most: 0.0, victims: 0, written: 0, choices: 0 }
    }
}

impl FreeSpace {
    fn look(&mut self, stats: &DriveStats, geometry: &Geometry) {
        let per_block = u64::from(geometry.units_per_block());
        let programmed = stats.nand.total(NandOp::Program) * u64::from(geometry.units_per_page());
        let written = programmed - stats.nand.total(NandOp::Erase) * per_block;
        let free_space = f64::from(geometry.blocks()) - written as f64 / per_block as f64;
        (self.least, self.most) = (self.least.min(free_space), self.most.max(free_space));
        if stats.gc.victims != self.victims {
            if self.victims > 0 {
                (self.written, self.choices) = (self.written + written, self.choices + 1);
            }
            self.victims = stats.gc.victims;
        }
    }

    /// Valid or not, as a mean over the choices of victims.
    pub(crate) fn written_at_choice(&self) -> f64 {
        self.written as f64 / self.choices as f64
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) ns: u64,
    pub(crate) dies: u32,
    pub(crate) stats: DriveStats,
    pub(crate) writes: Tally,
    pub(crate) reads: Tally,
    pub(crate) free: Free,
    pub(crate) free_mean: f64,
    pub(crate) free_space: FreeSpace,
}

impl Window {
    pub(crate) fn busy(&self) -> f64 {
        self.stats.occupancy.total_ns() as f64 / (self.ns as f64 * f64::from(self.dies))
    }

    pub(crate) fn waf(&self, units_per_page: u32) -> f64 {
        let programmed = self.stats.nand.total(NandOp::Program) * u64::from(units_per_page);
        programmed as f64 / self.stats.host.units_written as f64
    }

    pub(crate) fn writes_per_s(&self) -> f64 {
        self.writes.count as f64 * 1e9 / self.ns as f64
    }
}

pub(crate) struct Host {
    pub(crate) drive: Box<dyn Simulated>,
    pub(crate) now: SimTime,
    source: Synthetic,
    batch: Vec<Request>,
    given: usize,
    issued: Vec<(SimTime, Op)>,
    unused: Vec<u32>,
    outstanding: u32,
    completions: Vec<Completion>,
    pub(crate) writes: Tally,
    pub(crate) reads: Tally,
    free: Free,
    pub(crate) log: Option<Vec<(u64, u64)>>,
    free_space: Option<FreeSpace>,
}

impl Host {
    pub(crate) fn filled(config: &DriveConfig, workload: &SyntheticConfig) -> Self {
        let drive = build(config, true, SEED).expect("the drive can be built");
        let bytes = config.logical_bytes();
        let start = |config: &SyntheticConfig| config.build(bytes, SEED).expect("a workload for the drive");
        let sequential = SyntheticConfig { kind: Kind::Sequential, ..SyntheticConfig::default() };
        let (fill, source) = (start(&sequential), start(workload));
        let units = u64::from(drive.logical_units());
        let mut host = Self {
            drive,
            now: SimTime::ZERO,
            source: fill,
            batch: Vec::new(),
            given: 0,
            issued: Vec::new(),
            unused: Vec::new(),
            outstanding: 0,
            completions: Vec::new(),
            writes: Tally::default(),
            reads: Tally::default(),
            free: Free { least: 0, most: 0, block_ns: 0, since: SimTime::ZERO },
            log: None,
            free_space: None,
        };
        host.run_closed(64, units);
        host.rest();
        (host.source, host.given) = (source, host.batch.len());
        host
    }

    pub(crate) fn watch_room(&mut self) {
        self.free_space = Some(FreeSpace::default());
    }

    pub(crate) fn rest(&mut self) {
        while let Some(next) = self.drive.next_event() {
            self.advance(next);
        }
        assert_eq!(self.outstanding, 0, "all requests are complete");
    }

    fn next_request(&mut self) -> Request {
        if self.given == self.batch.len() {
            self.source.fill(&mut self.batch, 256);
            self.given = 0;
        }
        self.given += 1;
        self.batch[self.given - 1]
    }

    pub(crate) fn submit(&mut self, request: Request) {
        let tag = self.unused.pop().unwrap_or(self.issued.len() as u32);
        let slot = (self.now, request.op);
        match self.issued.get_mut(tag as usize) {
            Some(entry) => *entry = slot,
            None => self.issued.push(slot),
        }
        self.outstanding += 1;
        let range = [Range::new(request.lba, request.sectors)];
        self.drive.submit(self.now, u64::from(tag), &Command::of_request(&request, &range), None);
    }

    pub(crate) fn run_until(&mut self, time: SimTime) {
        while let Some(next) = self.drive.next_event().filter(|&next| next < time) {
            self.advance(next);
        }
        self.now = self.now.max(time);
    }

    /// At most the next event; returns the number of completed requests.
    pub(crate) fn advance(&mut self, time: SimTime) -> u32 {
        self.drive.advance(time, &mut self.completions);
        self.now = self.now.max(time);
        let complete = self.completions.len() as u32;
        for completion in self.completions.drain(..) {
            completion.result.expect("the drive serves its range");
            let (issued, op) = self.issued[completion.tag as usize];
            self.unused.push(completion.tag as u32);
            let tally = if op == Op::Read { &mut self.reads } else { &mut self.writes };
            tally.add(completion.at.since(issued));
            if let Some(log) = &mut self.log {
                log.push((completion.at.as_ns(), completion.at.since(issued)));
            }
        }
        self.outstanding -= complete;
        self.look();
        complete
    }

    fn look(&mut self) {
        let free_blocks = self.drive.free_blocks();
        let free = &mut self.free;
        free.block_ns += u128::from(free_blocks) * u128::from(self.now.since(free.since));
        (free.least, free.most) = (free.least.min(free_blocks), free.most.max(free_blocks));
        free.since = self.now;
        if let Some(free_space) = &mut self.free_space {
            free_space.look(&self.drive.stats(), self.drive.geometry());
        }
    }

    pub(crate) fn run_closed(&mut self, depth: u32, requests: u64) {
        let mut left = requests;
        loop {
            while self.outstanding < depth && left > 0 {
                let request = self.next_request();
                self.submit(request);
                left -= 1;
            }
            if left == 0 {
                return;
            }
            let next = self.drive.next_event().expect("something is outstanding");
            self.advance(next);
        }
    }

    pub(crate) fn open(&mut self, arrivals: &mut Arrivals, requests: u64) {
        for _ in 0..requests {
            let arrival = arrivals.next().expect("endless arrivals");
            arrivals.advance();
            self.run_until(arrival);
            let request = self.next_request();
            self.submit(request);
        }
    }

    pub(crate) fn poisson(&self, iops: f64, seed: u64) -> Arrivals {
        Arrivals::constant(
            RateProcess::Poisson,
            iops.round() as u32,
            self.now,
            Prng::derive(seed, "arrivals"),
        )
    }

    pub(crate) fn measure(&mut self, run: impl FnOnce(&mut Self)) -> Window {
        let free_blocks = self.drive.free_blocks();
        self.free = Free { least: free_blocks, most: free_blocks, block_ns: 0, since: self.now };
        self.free_space = self
            .free_space
            .map(|free_space| FreeSpace { victims: free_space.victims, ..FreeSpace::default() });
        (self.writes, self.reads) = (Tally::default(), Tally::default());
        let (start, before) = (self.now, self.drive.stats());
        run(self);
        let ns = self.now.since(start);
        Window {
            ns,
            dies: self.drive.geometry().dies(),
            stats: self.drive.stats().since(&before),
            writes: self.writes,
            reads: self.reads,
            free: self.free,
            free_mean: self.free.block_ns as f64 / ns as f64,
            free_space: self.free_space.unwrap_or_default(),
        }
    }
}
