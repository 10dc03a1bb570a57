//! Drives aged by fast writes without timing. Timing is added afterwards.

use strobe_ftl::gc::AnyPolicy;
use strobe_ftl::{FtlError, MappingScheme as _, PageMap, PageMapConfig, WriteContext};
use strobe_nand::{
    ArrayTiming, Chip, DataMedium, Medium, Nand as _, NandOp, NoMedium, Payload, StampMedium, SwitchedTiming,
    Timing, Unit, Untimed, When,
};
use strobe_types::{Lpn, Prng, StopFlag};

use super::{BuildError, Plan, block_scheme, kept_blocks};
use crate::config::{DataMode, DriveConfig};
use crate::device::Simulated;
use crate::drive::Drive;

const BATCH: u64 = 256;

/// Units between progress reports.
const TOLD_EVERY: u64 = 1 << 20;

/// Writes that age a drive before virtual time begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    /// Random overwrites, in multiples of the capacity. They follow a sequential fill of the whole drive.
    pub overwrites: f64,
}

/// Reason why an aged drive cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgeingError {
    /// The drive cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The stop flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// Builds a page-mapped drive of `config` and ages it by `ageing`. The aged drive starts at virtual time 0
/// with all counters at zero.
///
/// Ageing writes zeros; a drive that stores bytes keeps only the out-of-band areas (16 bytes per flash page).
/// `tell` receives the units written so far and their total. Raising `stop` ends the ageing.
///
/// Cost: about 10 million units per second in order, 1 to 3 million at random.
pub fn build_aged(
    config: &DriveConfig,
    seed: u64,
    ageing: Ageing,
    stop: &StopFlag,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Simulated>, AgeingError> {
    match config.nand.data {
        DataMode::None => grown_old::<Untimed, NoMedium>(config, seed, ageing, stop, tell),
        DataMode::Stamp => grown_old::<SwitchedTiming, StampMedium>(config, seed, ageing, stop, tell),
        DataMode::Bytes => grown_old::<SwitchedTiming, DataMedium>(config, seed, ageing, stop, tell),
    }
}

fn grown_old<T: Ageless, M: Medium + Send + 'static>(
    config: &DriveConfig,
    seed: u64,
    ageing: Ageing,
    stop: &StopFlag,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Simulated>, AgeingError> {
    let mut aged = AgedOn::<T, M>::that_keeps(config, seed, config.nand.data)?;
    aged.set_stop(stop.clone());
    let units = config.logical_units() as u32;
    let random = (ageing.overwrites * f64::from(units)) as u64;
    let total = u64::from(units) + random;
    // Sequential fill, then random overwrites, in chunks between checks of the stop flag.
    let (mut next, mut done) = (0, 0);
    while done < total {
        tell(done, total);
        if stop.is_raised() {
            return Err(AgeingError::Interrupted);
        }
        let in_order = u64::from(units).saturating_sub(done);
        let most = if in_order > 0 { in_order } else { total - done };
        let count = most.min(TOLD_EVERY);
        let written = match in_order {
            0 => aged.overwrite(units, count),
            _ => aged.write(count, |_| {
                next += 1;
                next - 1
            }),
        };
        written.map_err(|error| match error {
            FtlError::Interrupted => AgeingError::Interrupted,
            error => BuildError::Worn(error).into(),
        })?;
        done += count;
    }
    Ok(aged.timed(config)?)
}

/// Timing types during and after ageing. Ordinary drives use these types, so no further code is compiled.
pub trait Ageless: Timing + Send + 'static {
    /// Timing of the aged drive.
    type Timed: Timing + Send + 'static;

    /// Timing during ageing: operations take no time.
    fn untimed() -> Self;

    /// Timing of the aged drive, with the times of `array`.
    fn timed(array: ArrayTiming) -> Self::Timed;
}

impl Ageless for Untimed {
    type Timed = ArrayTiming;

    fn untimed() -> Self {
        Self::default()
    }

    fn timed(array: ArrayTiming) -> ArrayTiming {
        array
    }
}

impl Ageless for SwitchedTiming {
    type Timed = Self;

    fn untimed() -> Self {
        Self::new(None)
    }

    fn timed(array: ArrayTiming) -> Self {
        Self::new(Some(array))
    }
}

/// [`AgedOn`] flash that stores no data.
pub type Aged = AgedOn<Untimed, NoMedium>;

/// Flash and map of a page-mapped drive without timing. After ageing, [`AgedOn::timed`] makes any number of
/// timed drives in this state.
#[derive(Clone, Debug)]
pub struct AgedOn<T: Timing, M: Medium> {
    ftl: PageMap<Chip<T, M>, AnyPolicy>,
    chance: Prng,
    seed: u64,
    data: DataMode,
}

impl Aged {
    /// A fresh drive of `config`. Rejects block-mapped drives, and drives that store data.
    pub fn new(config: &DriveConfig, seed: u64) -> Result<Self, BuildError> {
        Self::that_keeps(config, seed, DataMode::None)
    }
}

impl<T: Ageless, M: Medium + Send + 'static> AgedOn<T, M> {
    fn that_keeps(config: &DriveConfig, seed: u64, data: DataMode) -> Result<Self, BuildError> {
        let plan = Self::plan(config, seed, data)?;
        // Without timing, collection maintains erased blocks only, so the free part of open blocks is
        // subtracted: two per plane (host and relocation), each half free on average.
        let map = plan.map_config();
        let open = plan.geometry.planes();
        let kept = kept_blocks(config)?.saturating_sub(open).max(map.min_free_blocks.unwrap_or(0));
        let map = PageMapConfig { min_free_blocks: Some(kept), ..map };
        let ftl = PageMap::with_placement(plan.chip(T::untimed()), plan.policy()?, plan.placement()?, map)?;
        Ok(Self { ftl, chance: Prng::derive(seed, "age"), seed, data })
    }

    /// Sets the flag that ends writes to this drive and its timed drives, even inside a command.
    pub fn set_stop(&mut self, stop: StopFlag) {
        self.ftl.nand_mut().set_stop(stop);
    }

    fn plan(config: &DriveConfig, seed: u64, data: DataMode) -> Result<Plan<'_>, BuildError> {
        let plan = Plan::new(config, seed)?;
        if block_scheme(&config.ftl.mapping).is_some() {
            let (key, given) = ("ftl.mapping", config.ftl.mapping.clone());
            return Err(BuildError::Aged { key, given, needed: "\"page\" or \"dftl\"" });
        }
        match (config.nand.data, data) {
            (given, data) if given == data => Ok(plan),
            (given, _) => {
                let given = if given == DataMode::Bytes { "bytes" } else { "stamp" }.to_owned();
                Err(BuildError::Aged { key: "nand.data", given, needed: "\"none\"" })
            }
        }
    }

    /// Writes the first `units` mapping units, in order.
    pub fn fill(&mut self, units: u32) -> Result<(), FtlError> {
        let mut next = 0;
        self.write(u64::from(units), |_| {
            next += 1;
            next - 1
        })
    }

    /// Makes `count` writes, each to one of the first `units` mapping units at random.
    pub fn overwrite(&mut self, units: u32, count: u64) -> Result<(), FtlError> {
        self.write(count, |chance| chance.below(units))
    }

    /// Makes `count` writes of one mapping unit, each to the unit that `next` returns.
    pub fn overwrite_at(&mut self, count: u64, mut next: impl FnMut() -> u32) -> Result<(), FtlError> {
        self.write(count, |_| next())
    }

    /// Like [`AgedOn::overwrite`]; returns the units programmed per unit written.
    pub fn amplification(&mut self, units: u32, count: u64) -> Result<f64, FtlError> {
        let programmed = |aged: &Self| aged.ftl.nand().counts().total(NandOp::Program);
        let before = programmed(self);
        self.overwrite(units, count)?;
        let pages = programmed(self) - before;
        let per_page = u64::from(self.ftl.nand().geometry().units_per_page());
        Ok((pages * per_page) as f64 / count as f64)
    }

    fn write(&mut self, count: u64, mut next: impl FnMut(&mut Prng) -> u32) -> Result<(), FtlError> {
        let (mut units, mut coming) = (Vec::new(), Vec::new());
        let mut left = count;
        while left > 0 || !coming.is_empty() {
            std::mem::swap(&mut units, &mut coming);
            // Map entries of the next batch are prefetched while this batch is written.
            coming.clear();
            coming.extend((0..left.min(BATCH)).map(|_| {
                let lpn = Lpn::new(next(&mut self.chance));
                Unit { lpn, payload: Payload::zero() }
            }));
            left -= coming.len() as u64;
            coming.iter().for_each(|unit| self.ftl.prefetch_entry(unit.lpn));
            units.iter().for_each(|unit| self.ftl.prefetch_state(unit.lpn));
            if !units.is_empty() {
                self.ftl.write(When::START, &units, WriteContext::HOST)?;
            }
        }
        Ok(())
    }

    /// A drive in this state with the timing and controller of `config`. Other keys must equal the keys of
    /// this drive. All data is on flash, and all counters are zero.
    pub fn timed(&self, config: &DriveConfig) -> Result<Box<dyn Simulated>, BuildError> {
        let plan = Self::plan(config, self.seed, self.data)?;
        let mut ftl = self.ftl.clone();
        // The drive starts with the free space that background collection maintains.
        ftl.reclaim_blocks(kept_blocks(config)?).and_then(|()| ftl.align()).map_err(BuildError::Worn)?;
        let ftl = ftl.moved(plan.map_config(), |chip| chip.with_timing(T::timed(plan.array_timing())));
        let before = ftl.nand().counts().clone();
        Ok(Box::new(plan.finished(Drive::reopened(ftl, &config.controller, before))?))
    }
}
