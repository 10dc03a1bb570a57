//! Generator, compiled for each pair of slot distribution and operation mix.

use super::Workload;
use super::draw::{Draw, HotCold, Scattered, Sequential, Uniform};
use super::gaussian::Gaussian;
use super::in_use::InUse;
use super::kind::Kind;
use super::map::RandomMap;
use super::sizes::Sizes;
use super::zipf::Zipf;
use strobe_types::{Lba, Op, Prng, Range, Request, SECTOR_BYTES, State};

/// A running synthetic workload, made by [`SyntheticConfig::build`](super::SyntheticConfig::build).
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) first_sector: u64,
    pub(super) sectors: u32,
    pub(super) slots: u32,
}

impl Layout {
    #[inline(always)]
    fn request(self, op: Op, slot: u32) -> Request {
        let lba = self.first_sector + u64::from(slot) * u64::from(self.sectors);
        Request::new(op, Lba::new(lba), self.sectors)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Distribution {
    Uniform(Uniform),
    Mapped(RandomMap),
    Sequential(Sequential),
    Zipf(Zipf),
    ScatteredZipf(Scattered<Zipf>),
    HotCold(HotCold),
    ScatteredHotCold(Scattered<HotCold>),
    Gaussian(Gaussian),
}

#[derive(Clone, Debug)]
pub(super) enum Mix {
    Only(Op),
    /// Writes with this probability, else reads.
    Write(f64),
    /// Trims with probability `trim`, else writes with probability `write`, else reads.
    Trim {
        trim: f64,
        ranges: u32,
        write: f64,
        in_use: InUse,
    },
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

    /// Number of slots, the distinct addresses of the workload.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Working set: bytes of all slots.
    pub fn span_bytes(&self) -> u64 {
        u64::from(self.layout.slots) * u64::from(self.layout.sectors) * SECTOR_BYTES
    }

    /// Slots not trimmed since their last write; all slots without trims.
    pub fn slots_in_use(&self) -> u32 {
        match &self.mix {
            Mix::Trim { in_use, .. } => in_use.count(),
            Mix::Only(_) | Mix::Write(_) => self.layout.slots,
        }
    }

    /// Largest number of ranges of a trim; 1 without trims.
    pub fn trim_ranges(&self) -> u32 {
        match &self.mix {
            Mix::Trim { ranges, .. } => *ranges,
            Mix::Only(_) | Mix::Write(_) => 1,
        }
    }

    /// Appends the further ranges of the last trim to `ranges`, for `trim_ranges` above 1.
    ///
    /// A request holds only the first range. Call this right after each trim, which must be the last request of
    /// its batch.
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
        if let (Distribution::Mapped(_), Some(_)) = (&self.distribution, &self.sizes) {
            // The size of a request marks slots as visited before the next slot is drawn, so draw one by one.
            (0..count).for_each(|_| self.push_mapped(batch));
            return;
        }
        self.emit(batch, count);
        if let Some(sizes) = &mut self.sizes {
            sizes.apply(batch);
        }
    }

    fn name(&self) -> &'static str {
        self.kind.name()
    }
}

impl Synthetic {
    fn emit(&mut self, batch: &mut Vec<Request>, count: usize) {
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
            Distribution::Mapped(draw) => emit.run(draw),
            Distribution::Sequential(draw) => emit.run(draw),
            Distribution::Zipf(draw) => emit.run(draw),
            Distribution::ScatteredZipf(draw) => emit.run(draw),
            Distribution::HotCold(draw) => emit.run(draw),
            Distribution::ScatteredHotCold(draw) => emit.run(draw),
            Distribution::Gaussian(draw) => emit.run(draw),
        }
    }

    fn push_mapped(&mut self, batch: &mut Vec<Request>) {
        self.emit(batch, 1);
        if let (Some(request), Distribution::Mapped(map), Some(sizes)) =
            (batch.last_mut(), &mut self.distribution, &mut self.sizes)
        {
            let slot = (request.lba.get() - self.layout.first_sector) / u64::from(self.layout.sectors);
            sizes.apply_mapped(request, slot as u32, map);
        }
    }
}

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
        // Copies let the compiler keep the generators in registers.
        let mut addresses = self.addresses.clone();
        let mut operations = self.operations.clone();
        let mut slot = |op| draw.slot(&mut addresses, op);
        // `extend` over a range reserves once and skips capacity checks.
        let requests = 0..self.count;
        match self.mix {
            &mut Mix::Only(op) => {
                self.batch.extend(requests.map(|_| layout.request(op, slot(op))));
            }
            &mut Mix::Write(write) => {
                let mut op = || if operations.chance(write) { Op::Write } else { Op::Read };
                self.batch.extend(requests.map(|_| {
                    let op = op();
                    layout.request(op, slot(op))
                }));
            }
            Mix::Trim { trim, write, in_use, .. } => self.batch.extend(requests.map(|_| {
                if operations.chance(*trim)
                    && let Some(trimmed) = in_use.take(&mut operations)
                {
                    return layout.request(Op::Trim, trimmed);
                }
                // A certain outcome draws no number: the random stream is part of the interface.
                let writes = *write >= 1.0 || (*write > 0.0 && operations.chance(*write));
                if !writes {
                    return layout.request(Op::Read, slot(Op::Read));
                }
                let slot = slot(Op::Write);
                in_use.insert(slot);
                layout.request(Op::Write, slot)
            })),
        }
        *self.addresses = addresses;
        *self.operations = operations;
    }
}
