use std::collections::BTreeMap;

use strobe_ssd::{
    Command, CommandError, DataTag, DriveConfig, Hint, NvramPolicyName, PowerCut, Range, Simulated,
};
use strobe_types::{Lba, Prng, SimTime};

use super::drives::handles;
use super::model::{Model, Moment};

#[derive(Clone, Debug)]
struct Pending {
    submitted: Moment,
    changes: Vec<u64>,
    /// Sectors that it reads; no other command may change them until it completes.
    reads: Vec<u64>,
    durable: bool,
    is_flush: bool,
}

pub(super) type Look<'a> = &'a mut dyn FnMut(PowerCut, &Model, &mut Prng);

pub(super) struct Host<'a> {
    config: &'a DriveConfig,
    pub(super) drive: Box<dyn Simulated>,
    pub(super) model: Model,
    pending: BTreeMap<u64, Pending>,
    pub(super) now: SimTime,
    tag: u64,
    write_cache: bool,
    depth: usize,
    pub(super) instants: u64,
}

const SECTOR: usize = 512;

/// No two sectors get the same content: a command's contents start at this number times its moment.
const VERSIONS: u64 = 1 << 20;

fn bytes_of(content: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&content.to_le_bytes()));
    bytes
}

/// Content of a sector with these `bytes`; `None` if it is torn.
fn content_of(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    rest.chunks_exact(8).all(|word| word == first).then_some(u64::from_le_bytes(*first))
}

pub(super) fn read_all(drive: &mut dyn Simulated, now: SimTime, what: &dyn Fn() -> String) -> Vec<u64> {
    let mut bytes = vec![0; drive.sectors() as usize * SECTOR];
    drive.read_bytes(now, Lba::new(0), &mut bytes).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let contents = (0..drive.sectors()).zip(bytes.chunks_exact(SECTOR)).map(|(sector, bytes)| {
        content_of(bytes).unwrap_or_else(|| panic!("{}: sector {sector} is torn", what()))
    });
    contents.collect()
}

pub(super) fn first_contents(sectors: u64) -> Vec<u64> {
    assert!(sectors < VERSIONS, "contents of commands are larger");
    (1..=sectors).collect()
}

pub(crate) fn fill(drive: &mut dyn Simulated) -> Result<SimTime, CommandError> {
    let mut now = SimTime::ZERO;
    let mut lba = 0;
    for some in first_contents(drive.sectors()).chunks(16) {
        let bytes: Vec<u8> = some.iter().flat_map(|&content| bytes_of(content)).collect();
        now = drive.write_bytes(now, Lba::new(lba), &bytes)?;
        lba += some.len() as u64;
    }
    drive.settle(now)
}

impl<'a> Host<'a> {
    pub(super) fn new(
        config: &'a DriveConfig,
        mut drive: Box<dyn Simulated>,
        model: Model,
        now: SimTime,
        rng: &mut Prng,
    ) -> Self {
        let write_cache = rng.below(4) > 0;
        drive.set_write_cache(write_cache);
        let depth = [1, 2, 4, 8][rng.below(4) as usize];
        Self {
            config,
            drive,
            model,
            pending: BTreeMap::new(),
            now,
            tag: rng.bits(),
            write_cache,
            depth,
            instants: 0,
        }
    }

    /// An error means end of life.
    pub(super) fn step(&mut self, rng: &mut Prng, look: Look<'_>) -> Result<(), CommandError> {
        for _ in 0..1 + rng.below(3) {
            if self.pending.len() < self.depth {
                self.submit(rng, look);
            }
        }
        match rng.below(8) {
            0 => {}
            1..=3 => {
                for _ in 0..rng.below(12) {
                    self.pass(rng, look)?;
                }
            }
            4 => {
                // Between two events.
                let wait_ns = 1 + rng.below_u64(60);
                let until = self.now + wait_ns;
                while self.drive.next_event().is_some_and(|next| next <= until) {
                    self.pass(rng, look)?;
                }
                self.now = self.now.max(until);
            }
            5 | 6 => {
                let before = self.pending.len();
                while self.pending.len() >= before.max(1) && self.pass(rng, look)? {}
            }
            _ if rng.below(6) == 0 => while self.pass(rng, look)? {},
            _ => while !self.pending.is_empty() && self.pass(rng, look)? {},
        }
        Ok(())
    }

    pub(super) fn drain(&mut self, rng: &mut Prng, look: Look<'_>) -> Result<(), CommandError> {
        while self.pass(rng, look)? {}
        assert!(self.pending.is_empty(), "{:?}", self.pending);
        Ok(())
    }

    fn look(&mut self, rng: &mut Prng, look: Look<'_>) {
        for cut in self.drive.take_cuts() {
            look(cut, &self.model, rng);
        }
    }

    /// Cuts at the instant of the next event do not see its completions.
    fn pass(&mut self, rng: &mut Prng, look: Look<'_>) -> Result<bool, CommandError> {
        let Some(next) = self.drive.next_event() else { return Ok(false) };
        let mut completions = Vec::new();
        self.drive.advance(next, &mut completions);
        self.now = self.now.max(next);
        self.look(rng, look);
        for completion in completions {
            let pending = self.pending.remove(&completion.tag).expect("outstanding");
            completion.result?;
            self.model.moment();
            for &sector in &pending.changes {
                self.model.complete(sector, pending.submitted, pending.durable);
            }
            if pending.is_flush {
                self.model.flushed(pending.submitted);
            }
        }
        // Commands in flight can be cut without any operation at its end, such as a suspended one on the only
        // die.
        if rng.below(4) == 0 {
            self.instants += 1;
            let cut = self.drive.cut_now();
            look(cut, &self.model, rng);
        }
        Ok(true)
    }

    fn submit(&mut self, rng: &mut Prng, look: Look<'_>) {
        let hint = if rng.below(3) == 0 { Hint::Metadata } else { Hint::None };
        let ranges = [self.any_range(rng, 6), self.any_range(rng, 4)];
        let range = ranges[0];
        let command = match rng.below(24) {
            0 | 1 => Command::Deallocate(&ranges),
            2 | 3 => Command::Flush,
            4 => Command::WriteZeroes { range, deallocate: rng.below(2) == 0 },
            5 | 6 => Command::Copy { destination: range.lba, sources: &ranges[1..] },
            7..=11 => Command::Read { range },
            12..=14 => Command::Write { range, fua: true, tag: self.tag_of(hint, rng) },
            _ => Command::Write { range, fua: false, tag: self.tag_of(hint, rng) },
        };
        let Some((pending, contents)) = self.effect(&command) else { return };
        for (&sector, &content) in pending.changes.iter().zip(&contents) {
            self.model.submit(sector, content, pending.submitted);
        }
        self.tag += 1;
        let is_write = matches!(command, Command::Write { .. });
        let bytes: Option<Vec<u8>> =
            is_write.then(|| contents.iter().flat_map(|&content| bytes_of(content)).collect());
        self.pending.insert(self.tag, pending);
        self.drive.submit(self.now, self.tag, &command, bytes.as_deref());
        self.look(rng, look);
    }

    fn tag_of(&self, hint: Hint, rng: &mut Prng) -> DataTag {
        match handles(self.config) {
            1 => hint.into(),
            handles => DataTag { hint, handle: rng.below(handles) as u16 },
        }
    }

    /// `None` if `command` must not be sent now.
    fn effect(&mut self, command: &Command<'_>) -> Option<(Pending, Vec<u64>)> {
        let sectors = |range: &Range| range.lba.get()..range.lba.get() + u64::from(range.sectors);
        let (mut changes, mut contents, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        let submitted = self.model.moment();
        match *command {
            Command::Write { range, .. } => {
                changes.extend(sectors(&range));
                contents = (submitted * VERSIONS..).take(changes.len()).collect();
            }
            Command::WriteZeroes { range, .. } => changes.extend(sectors(&range)),
            Command::Deallocate(ranges) => {
                for range in ranges {
                    changes.extend(self.whole_units(range));
                }
                changes.sort_unstable();
                changes.dedup();
            }
            Command::Copy { destination, sources } => {
                reads.extend(sources.iter().flat_map(sectors));
                changes.extend((destination.get()..).take(reads.len()));
                let is_inside = changes.last().is_some_and(|&last| last < self.model.sectors());
                if !is_inside || changes.iter().any(|sector| reads.contains(sector)) {
                    return None;
                }
                contents = reads.iter().map(|&sector| self.model.known(sector)).collect::<Option<_>>()?;
            }
            Command::Read { .. } | Command::Flush => {}
        }
        contents.resize(changes.len(), 0);
        if self.pending.values().any(|other| other.reads.iter().any(|sector| changes.contains(sector))) {
            return None;
        }
        let (durable, is_flush) = (self.is_durable(command), *command == Command::Flush);
        Some((Pending { submitted, changes, reads, durable, is_flush }, contents))
    }

    fn whole_units(&self, range: &Range) -> std::ops::Range<u64> {
        let per_unit = self.sectors_per_unit();
        let start = range.lba.get().next_multiple_of(per_unit);
        let end = (range.lba.get() + u64::from(range.sectors)) / per_unit * per_unit;
        start..end.max(start)
    }

    fn sectors_per_unit(&self) -> u64 {
        u64::from(self.config.ftl.mapping_unit_bytes) / SECTOR as u64
    }

    fn is_durable(&self, command: &Command<'_>) -> bool {
        let controller = &self.config.controller;
        match *command {
            Command::Write { range, fua, tag: DataTag { hint, .. } } => {
                let is_kept = controller.nvram.bytes > 0
                    && match controller.nvram.policy {
                        NvramPolicyName::Lru => true,
                        NvramPolicyName::Hint => hint == Hint::Metadata,
                        // These drives hold no FAT volume.
                        NvramPolicyName::Fat => false,
                        NvramPolicyName::LbaRange => controller.nvram.ranges.iter().any(|kept| {
                            let (start, end) = (kept.first_sector, kept.first_sector + kept.sectors);
                            range.lba.get() >= start && range.lba.get() + u64::from(range.sectors) <= end
                        }),
                    };
                fua || !self.write_cache || controller.write_buffer_bytes == 0 || is_kept
            }
            Command::WriteZeroes { .. } | Command::Copy { .. } => !self.write_cache,
            _ => false,
        }
    }

    fn any_range(&self, rng: &mut Prng, most: u64) -> Range {
        let (sectors, per_unit) = (self.model.sectors(), self.sectors_per_unit());
        let among = if rng.below(3) == 0 { sectors } else { sectors.div_ceil(3) };
        let lba = rng.below_u64(among);
        let is_aligned = rng.below(3) > 0;
        let lba = if is_aligned { lba / per_unit * per_unit } else { lba };
        let count = 1 + rng.below_u64((sectors - lba).min(most * per_unit));
        let count = if is_aligned { count.next_multiple_of(per_unit) } else { count };
        Range::new(Lba::new(lba), count.min(sectors - lba) as u32)
    }
}
