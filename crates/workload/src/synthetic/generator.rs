//! The generator: a distribution of slots and a mix of operations, compiled for each pair.

use super::Workload;
use super::draw::{Draw, HotCold, Scattered, Sequential, Uniform};
use super::gaussian::Gaussian;
use super::in_use::InUse;
use super::kind::Kind;
use super::sizes::Sizes;
use super::zipf::Zipf;
use strobe_types::{Lba, Op, Prng, Range, Request, SECTOR_BYTES, State};

/// A running synthetic workload. Made by [`SyntheticConfig::build`](super::SyntheticConfig::build).
#[derive(Clone, Debug, State)]
pub struct Synthetic {
    #[state(skip)]
    kind: Kind,
    #[state(skip)]
    layout: Layout,
    distribution: Distribution,
    mix: Mix,
    addresses: Prng,
    operations: Prng,
    #[state(part)]
    sizes: Option<Sizes>,
}

/// Place of the slots on the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// First sector of slot 0.
    pub(super) first_sector: u64,
    /// Sectors in a slot.
    pub(super) sectors: u32,
    /// Number of slots, at least 1.
    pub(super) slots: u32,
}

impl Layout {
    #[inline(always)]
    fn request(self, op: Op, slot: u32) -> Request {
        let lba = self.first_sector + u64::from(slot) * u64::from(self.sectors);
        Request::new(op, Lba::new(lba), self.sectors)
    }
}

/// Every distribution, matched once per batch.
#[derive(Clone, Debug)]
pub(super) enum Distribution {
    Uniform(Uniform),
    Sequential(Sequential),
    Zipf(Zipf),
    ScatteredZipf(Scattered<Zipf>),
    HotCold(HotCold),
    ScatteredHotCold(Scattered<HotCold>),
    Gaussian(Gaussian),
}

/// Mix of operations, matched once per batch.
#[derive(Clone, Debug)]
pub(super) enum Mix {
    /// One operation for all slots.
    Only(Op),
    /// Write with this probability, else read.
    Write(f64),
    /// Trim `ranges` slots in use with probability `trim`, else write with probability `write` or read.
    Trim { trim: f64, ranges: u32, write: f64, in_use: InUse },
}

impl Synthetic {
    pub(super) fn new(
        kind: Kind,
        layout: Layout,
        distribution: Distribution,
        mix: Mix,
        sizes: Option<Sizes>,
        seed: u64,
    ) -> Self {
        Self {
            kind,
            layout,
            distribution,
            mix,
            sizes,
            addresses: Prng::derive(seed, "workload address"),
            operations: Prng::derive(seed, "workload operation"),
        }
    }

    /// Number of slots: the different addresses this workload can use.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Bytes from the first to the last slot, the working set.
    pub fn span_bytes(&self) -> u64 {
        u64::from(self.layout.slots) * u64::from(self.layout.sectors) * SECTOR_BYTES
    }

    /// Slots not trimmed since they were last written; all of them without trims.
    pub fn slots_in_use(&self) -> u32 {
        match &self.mix {
            Mix::Trim { in_use, .. } => in_use.count(),
            Mix::Only(_) | Mix::Write(_) => self.layout.slots,
        }
    }

    /// Maximum number of ranges of a trim; 1 without trims.
    pub fn trim_ranges(&self) -> u32 {
        match &self.mix {
            Mix::Trim { ranges, .. } => *ranges,
            Mix::Only(_) | Mix::Write(_) => 1,
        }
    }

    /// The further ranges of the trim that was made last, for `trim_ranges` above 1: appends them to `ranges`. A request
    /// holds the first range only, so this is to be called directly behind each trim, which then has to be the last
    /// request of its batch.
    pub fn further_trims(&mut self, ranges: &mut Vec<Range>) {
        let Mix::Trim { ranges: most, in_use, .. } = &mut self.mix else { return };
        for _ in 1..*most {
            let Some(slot) = in_use.take(&mut self.operations) else { break };
            let Request { lba, sectors, .. } = self.layout.request(Op::Trim, slot);
            ranges.push(Range::new(lba, sectors));
        }
    }
}

impl Workload for Synthetic {
    fn fill(&mut self, batch: &mut Vec<Request>, count: usize) {
        batch.clear();
        let emit = Emit {
            layout: self.layout,
            mix: &mut self.mix,
            addresses: &mut self.addresses,
            operations: &mut self.operations,
            batch,
            count,
        };
        match &mut self.distribution {
            Distribution::Uniform(draw) => emit.run(draw),
            Distribution::Sequential(draw) => emit.run(draw),
            Distribution::Zipf(draw) => emit.run(draw),
            Distribution::ScatteredZipf(draw) => emit.run(draw),
            Distribution::HotCold(draw) => emit.run(draw),
            Distribution::ScatteredHotCold(draw) => emit.run(draw),
            Distribution::Gaussian(draw) => emit.run(draw),
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.apply(batch);
        }
    }

    fn name(&self) -> &'static str {
        self.kind.name()
    }
}

/// One call of [`Workload::fill`], apart from the distribution.
struct Emit<'a> {
    layout: Layout,
    mix: &'a mut Mix,
    addresses: &'a mut Prng,
    operations: &'a mut Prng,
    batch: &'a mut Vec<Request>,
    count: usize,
}

impl Emit<'_> {
    fn run<D: Draw>(self, draw: &mut D) {
        let layout = self.layout;
        // Working on copies lets the compiler keep the generators in registers.
        let mut addresses = self.addresses.clone();
        let mut operations = self.operations.clone();
        let mut slot = || draw.slot(&mut addresses);
        // `extend` over a range reserves once and pushes without looking at the capacity.
        let requests = 0..self.count;
        match self.mix {
            &mut Mix::Only(op) => {
                self.batch.extend(requests.map(|_| layout.request(op, slot())));
            }
            &mut Mix::Write(write) => {
                let mut op = || if operations.chance(write) { Op::Write } else { Op::Read };
                self.batch.extend(requests.map(|_| layout.request(op(), slot())));
            }
            Mix::Trim { trim, write, in_use, .. } => self.batch.extend(requests.map(|_| {
                if operations.chance(*trim)
                    && let Some(trimmed) = in_use.take(&mut operations)
                {
                    return layout.request(Op::Trim, trimmed);
                }
                // Without a choice no number is drawn.
                let writes = *write >= 1.0 || (*write > 0.0 && operations.chance(*write));
                let slot = slot();
                if !writes {
                    return layout.request(Op::Read, slot);
                }
                in_use.insert(slot);
                layout.request(Op::Write, slot)
            })),
        }
        *self.addresses = addresses;
        *self.operations = operations;
    }
}
