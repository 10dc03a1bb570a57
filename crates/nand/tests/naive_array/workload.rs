use std::ops::Range;

use strobe_nand::{
    ArrayTiming, Class, Issue, PageTimes, SlcMode, SuspendConfig, Ticket, Timing, TimingConfig, When,
};
use strobe_types::{BlockId, CellMode, Geometry, GeometrySpec, Place, Prng, SimTime};

use crate::model::{CLASSES, Config, Kind, Model, Target, Then};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) suspends: u64,
    pub(crate) contended: u64,
    pub(crate) trains: u64,
    pub(crate) overlapped: u64,
}

type Both = (When, Then);

struct Block {
    target: Target,
    pages: Vec<Both>,
}

struct Pair {
    engine: ArrayTiming,
    model: Model,
    geometry: Geometry,
    has_slc: bool,
    parts: u32,
    rng: Prng,
    blocks: Vec<Block>,
    known: Vec<Both>,
    tokens: u64,
    reports: u64,
    reaction: u32,
    left: u32,
    tally: Tally,
    what: String,
}

fn pick<T: Copy>(rng: &mut Prng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u32) as usize]
}

fn suspend(rng: &mut Prng) -> SuspendConfig {
    match rng.below(2) {
        0 => SuspendConfig::default(),
        _ => SuspendConfig {
            most: pick(rng, &[1, 1, 2, 5]),
            suspend_ns: pick(rng, &[0, 1, 3]),
            resume_ns: pick(rng, &[0, 1, 2]),
            least_left_ns: pick(rng, &[0, 1, 4]),
        },
    }
}

fn deadlines(rng: &mut Prng) -> [u64; CLASSES] {
    match rng.below(3) {
        0 => [0; CLASSES],
        1 => [0, 1, 2, 3, 4].map(|class| class * 1000),
        _ => [0; CLASSES].map(|_| pick(rng, &[0, 1, 2, 5, 5, 10, 30])),
    }
}

fn page_times(rng: &mut Prng, choices: &[u64]) -> PageTimes {
    let types = pick(rng, &[1, 1, 1, 2, 3, 4]);
    let ns: Vec<u64> = (0..types).map(|_| pick(rng, choices)).collect();
    PageTimes::by_type(&ns).expect("at most four")
}

fn drive(rng: &mut Prng) -> (TimingConfig, Geometry) {
    let units_per_page = pick(rng, &[1, 2, 3]);
    // Flash pages of a word line, which is a page of the geometry.
    let parts = pick(rng, &[1, 1, 1, 2, 3, 4]);
    // With an unshared bus and one plane, pages of one block may be a train.
    let has_trains = rng.below(4) == 0;
    let spec = GeometrySpec {
        channels: 1 + rng.below(3),
        dies_per_channel: if has_trains { 1 } else { 1 + rng.below(3) },
        planes_per_die: if has_trains { 1 } else { 1 + rng.below(3) },
        blocks_per_plane: 1 + rng.below(3),
        pages_per_block: 2 + rng.below(if has_trains { 12 } else { 4 }),
        page_bytes: 512 * units_per_page * parts,
        unit_bytes: 512,
    };
    // Small numbers produce many events at the same instant.
    let config = TimingConfig {
        read_ns: page_times(rng, &[0, 1, 2, 3, 5, 8]),
        program_ns: page_times(rng, &[0, 1, 4, 7, 13, 20]),
        erase_ns: pick(rng, &[0, 1, 10, 25]),
        slc: (rng.below(2) == 0).then(|| SlcMode {
            bits_per_cell: 3,
            read_ns: pick(rng, &[0, 1, 2, 4]),
            program_ns: pick(rng, &[0, 1, 3, 6]),
            erase_ns: pick(rng, &[0, 1, 9]),
        }),
        // 512 bytes in 1, 2, 4 and 6 ns.
        channel_mb_s: pick(rng, &[0, 512_000, 256_000, 128_000, 100_000]),
        spare_bytes: pick(rng, &[0, 0, 64, 100]),
        cache_program: !has_trains && rng.below(2) == 0,
        deadline_ns: deadlines(rng),
        suspend: suspend(rng),
        pages_per_program: parts,
        command_ns: pick(rng, &[0, 0, 1, 3]),
        cache_read: rng.below(3) == 0,
        independent_plane_reads: rng.below(3) == 0,
        issue: Issue::PerDie,
    };
    (config, Geometry::new(spec).expect("valid"))
}

fn config_of(config: &TimingConfig, spec: &GeometrySpec) -> Config {
    let on_bus = |bytes: u32| match config.channel_mb_s {
        0 => 0,
        rate => (u64::from(bytes) * 1000).div_ceil(u64::from(rate)),
    };
    let page_bytes = spec.page_bytes / config.pages_per_program;
    let units_per_page = page_bytes / spec.unit_bytes;
    Config {
        read_ns: config.read_ns.types().to_vec(),
        program_ns: config.program_ns.types().to_vec(),
        erase_ns: config.erase_ns,
        slc_ns: config.slc.map_or([0; 3], |slc| [slc.read_ns, slc.program_ns, slc.erase_ns]),
        unit_ns: on_bus(spec.unit_bytes + config.spare_bytes / units_per_page),
        page_ns: on_bus(page_bytes + config.spare_bytes),
        parts: config.pages_per_program as usize,
        command_ns: config.command_ns,
        cache_program: config.cache_program,
        cache_read: config.cache_read,
        readers: if config.independent_plane_reads { spec.planes_per_die as usize } else { 1 },
        deadline_ns: config.deadline_ns,
        most: config.suspend.most,
        suspend_ns: config.suspend.suspend_ns,
        resume_ns: config.suspend.resume_ns,
        least_left_ns: config.suspend.least_left_ns,
    }
}

pub(crate) fn compare(seed: u64, operations: u32) -> Tally {
    let mut rng = Prng::new(seed);
    let (config, geometry) = drive(&mut rng);
    let spec = *geometry.spec();
    let blocks = (0..geometry.blocks())
        .map(|block| {
            let place = geometry.place_of_block(BlockId::new(block));
            let (die, plane) = (place.die.index(), place.plane);
            Block {
                target: Target { die, block: block as usize, plane, page: 0, slc: false },
                pages: Vec::new(),
            }
        })
        .collect();
    let mut pair = Pair {
        engine: ArrayTiming::new(config, &geometry),
        model: Model::new(config_of(&config, &spec), spec.channels as usize, spec.dies_per_channel as usize),
        geometry,
        has_slc: config.slc.is_some(),
        parts: config.pages_per_program,
        blocks,
        known: Vec::new(),
        tokens: 0,
        reports: 0,
        reaction: pick(&mut rng, &[0, 5, 10, 15]),
        left: operations,
        tally: Tally::default(),
        what: format!("seed {seed}: {spec:?} {config:?}"),
        rng,
    };
    pair.work();
    pair.tally
}

impl Pair {
    fn work(&mut self) {
        let burst = pick(&mut self.rng, &[1, 3, 8]);
        let pause = pick(&mut self.rng, &[1, 4, 15, 40]);
        while self.left > 0 {
            for _ in 0..1 + self.rng.below(burst) {
                self.something();
            }
            match self.rng.below(20) {
                0 => {
                    self.engine.start();
                    self.model.start();
                    self.agree();
                }
                1 => self.finish(),
                _ => {
                    let until = self.model.now + u64::from(self.rng.below(pause));
                    self.run(until);
                }
            }
        }
        if self.rng.below(4) == 0 {
            self.engine.drain();
            self.model.run_until(Model::is_idle);
            self.agree();
        }
        self.run(u64::MAX / 4);
        assert!(self.model.is_idle(), "{}: something never ends", self.what);
        assert_eq!(self.engine.next_event(), None, "{}", self.what);
        let occupancy = self.engine.occupancy(self.engine.now());
        assert_eq!(occupancy.held_ns, self.model.held_ns, "{}: time for which dies are held", self.what);
        assert_eq!(occupancy.suspends, self.model.suspends, "{}", self.what);
        (self.tally.suspends, self.tally.overlapped) = (self.model.suspends, self.model.overlapped);
    }

    fn run(&mut self, until: u64) {
        loop {
            let is_new = self.engine.run(SimTime::from_ns(until));
            assert_eq!(is_new, self.model.run(until), "{}", self.what);
            self.agree();
            if !is_new {
                return;
            }
            let mut tokens = Vec::new();
            self.engine.reported(&mut tokens);
            let expected = std::mem::take(&mut self.model.reported);
            assert_eq!(tokens, expected, "{}: reports at {} ns", self.what, self.model.now);
            self.reports += tokens.len() as u64;
            for _ in tokens {
                for _ in 0..(self.reaction + self.rng.below(10)) / 10 {
                    self.something();
                }
            }
        }
    }

    fn finish(&mut self) {
        let Some(&(when, then)) = self.known.last() else { return };
        let done = self.engine.finish(when).as_ns();
        self.model.run_until(|model| model.is_there(then));
        if let Then::With(_) = then {
            assert_eq!(done, self.model.now, "{}: finished", self.what);
        }
        self.agree();
    }

    fn agree(&mut self) {
        let what = &self.what;
        assert_eq!(self.engine.now().as_ns(), self.model.now, "{what}");
        let now = self.model.now;
        for &(when, then) in self.known.iter().rev().take(40) {
            let begun = self.model.has_begun(then);
            assert_eq!(self.engine.has_begun(when), begun, "{what}: {then:?} at {now} ns");
        }
        for die in 0..self.geometry.dies() {
            let backlog = self.model.backlog(die as usize);
            assert_eq!(self.engine.backlog(die), backlog, "{what}: die {die} at {now} ns");
            self.tally.contended += u64::from(backlog > 2);
        }
        assert_eq!(self.engine.busy_dies(), self.model.busy_dies(), "{what}: at {now} ns");
        let block = self.rng.below(self.geometry.blocks());
        let place = self.geometry.place_of_block(BlockId::new(block));
        let ahead = self.engine.programs_ahead(|| place);
        assert_eq!(ahead, self.model.programs_ahead(block as usize), "{what}: block {block} at {now} ns");
    }

    fn some_after(&mut self) -> Both {
        let recent = self.known.len().min(12) as u32;
        match self.rng.below(7) {
            0 | 1 if recent > 0 => {
                let back = 1 + self.rng.below(recent) as usize;
                self.known[self.known.len() - back]
            }
            2 => {
                let time = self.model.now + u64::from(self.rng.below(30));
                (When::At(SimTime::from_ns(time)), Then::At(time))
            }
            3 if recent > 0 => {
                let (a, b) = (self.some_after(), self.some_after());
                self.both(a, b)
            }
            4 if recent > 0 => {
                // The operations issued last are likely to be adjacent in queues.
                let count = 1 + self.rng.below(recent) as usize;
                let mut all = self.known[self.known.len() - count..].to_vec();
                all.extend((self.rng.below(3) == 0).then(|| self.some_after()));
                let (whens, thens): (Vec<When>, Vec<Then>) = all.into_iter().unzip();
                (self.engine.all(&whens), self.model.all(&thens))
            }
            _ => (When::START, Then::At(0)),
        }
    }

    fn both(&mut self, a: Both, b: Both) -> Both {
        (self.engine.both(a.0, b.0), self.model.both(a.1, b.1))
    }

    fn something(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.tally.operations += 1;
        let block = self.rng.below(self.blocks.len() as u32) as usize;
        let after = self.some_after();
        let programmed = self.blocks[block].pages.len() as u32;
        let done = match self.rng.below(20) {
            0 => {
                self.watch(after);
                return;
            }
            1..=7 if programmed < self.geometry.pages_per_block() => {
                let class = pick(&mut self.rng, &[Class::HostProgram, Class::BackgroundProgram]);
                let count = self.some_of(self.geometry.pages_per_block() - programmed);
                if programmed == 0 {
                    self.blocks[block].target.slc = self.has_slc && self.rng.below(2) == 0;
                }
                let done = self.issue(Kind::Program, class, 0, after, block, programmed..programmed + count);
                self.blocks[block].pages.extend((0..count).map(|_| done));
                done
            }
            1..=8 => {
                self.blocks[block].pages.clear();
                let done = self.issue(Kind::Erase, Class::Erase, 0, after, block, 0..1);
                self.blocks[block].target.slc = false;
                done
            }
            _ => {
                let class = pick(&mut self.rng, &[Class::HostRead, Class::HostRead, Class::BackgroundRead]);
                // Flash pages are read one by one.
                let pages = self.geometry.pages_per_block() * self.parts;
                let page = self.rng.below(pages);
                match self.blocks[block].pages.get((page / self.parts) as usize) {
                    // The out-of-band area of a page can always be read.
                    None => {
                        let count = self.some_of(pages - page);
                        self.issue(Kind::Read, class, 0, after, block, page..page + count)
                    }
                    Some(&written) => {
                        let units = self.rng.below(self.geometry.units_per_page() / self.parts + 1);
                        let waits = self.rng.below(3) > 0;
                        let after = if waits { self.both(after, written) } else { after };
                        let count = self.some_of(programmed * self.parts - page);
                        self.issue(Kind::Read, class, units, after, block, page..page + count)
                    }
                }
            }
        };
        self.known.push(done);
        // Some operations stay unwatched.
        if self.rng.below(5) > 0 {
            self.watch(done);
        }
    }

    fn some_of(&mut self, most: u32) -> u32 {
        if self.rng.below(3) > 0 { 1 } else { 1 + self.rng.below(most) }
    }

    fn issue(
        &mut self,
        kind: Kind,
        class: Class,
        units: u32,
        after: Both,
        block: usize,
        pages: Range<u32>,
    ) -> Both {
        let id = BlockId::new(block as u32);
        let mode = if self.blocks[block].target.slc { CellMode::Slc } else { CellMode::Normal };
        let first = self.geometry.place_of_block(id);
        let place = |at| Place { page: pages.start + at, mode, ..first };
        let count = pages.len() as u32;
        self.tally.trains += u64::from(count > 1);
        let when = match (kind, count) {
            (Kind::Read, 1) => self.engine.read(after.0, class, units, || place(0)),
            (Kind::Read, _) => self.engine.reads(after.0, class, units, count, place),
            (Kind::Program, 1) => self.engine.program(after.0, class, || place(0)),
            (Kind::Program, _) => self.engine.programs(after.0, class, count, place),
            _ => self.engine.erase(after.0, class, || place(0)),
        };
        let then = pages.fold(after.1, |_, page| {
            let target = Target { page, ..self.blocks[block].target };
            self.model.issue(kind, class as usize, units, after.1, target)
        });
        (when, then)
    }

    fn watch(&mut self, what: Both) {
        self.tokens += 1;
        self.engine.watch(what.0, self.tokens);
        self.model.watch(what.1, self.tokens);
    }
}

const _: () = assert!(size_of::<Ticket>() == 8);
