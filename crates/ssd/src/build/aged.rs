//! Drives that are written without times, which is quick, and get them then.

use strobe_ftl::gc::AnyPolicy;
use strobe_ftl::{FtlError, MappingScheme as _, PageMap, PageMapConfig};
use strobe_nand::{Cause, Chip, Nand as _, NandOp, NoMedium, Payload, Unit, Untimed, When};
use strobe_types::{Lpn, Prng};

use super::{BuildError, Plan, block_scheme, kept_blocks};
use crate::config::{DataMode, DriveConfig};
use crate::device::Simulated;
use crate::drive::Drive;

/// Units written at a time.
const BATCH: u64 = 256;

/// Flash and map of a page-mapped drive that keeps no data and takes no time. Once it has been written as much as it
/// should, it gives any number of drives with times, all in the same state.
#[derive(Clone, Debug)]
pub struct Aged {
    ftl: PageMap<Chip<Untimed, NoMedium>, AnyPolicy>,
    chance: Prng,
    seed: u64,
}

impl Aged {
    /// A fresh one. Block-mapped drives, and those that keep data, are refused.
    pub fn new(config: &DriveConfig, seed: u64) -> Result<Self, BuildError> {
        let plan = Self::plan(config, seed)?;
        // About as full as there will be once there are times: half of the blocks that host and copies have open are left.
        let map = plan.map_config();
        let open = plan.geometry.planes();
        let kept = kept_blocks(config)?.saturating_sub(open).max(map.min_free_blocks.unwrap_or(0));
        let map = PageMapConfig { min_free_blocks: Some(kept), ..map };
        let ftl = PageMap::new(plan.chip(Untimed::default()), plan.policy()?, map)?;
        Ok(Self { ftl, chance: Prng::derive(seed, "age"), seed })
    }

    fn plan(config: &DriveConfig, seed: u64) -> Result<Plan<'_>, BuildError> {
        let plan = Plan::new(config, seed)?;
        let refused = |key, given: String| Err(BuildError::Aged { key, given });
        match (block_scheme(&config.ftl.mapping), config.nand.data) {
            (Some(_), _) => refused("ftl.mapping", config.ftl.mapping.clone()),
            (None, DataMode::None) => Ok(plan),
            (None, DataMode::Stamp) => refused("nand.data", "stamp".to_owned()),
            (None, DataMode::Bytes) => refused("nand.data", "bytes".to_owned()),
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

    /// Writes `count` times one of the first `units` mapping units, chosen at random.
    pub fn overwrite(&mut self, units: u32, count: u64) -> Result<(), FtlError> {
        self.write(count, |chance| chance.below(units))
    }

    /// [`Aged::overwrite`], and how many units were programmed for each that was written.
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
            // Memory has the time of a batch to bring what the next one needs.
            coming.clear();
            coming.extend((0..left.min(BATCH)).map(|_| {
                let lpn = Lpn::new(next(&mut self.chance));
                Unit { lpn, payload: Payload::zero() }
            }));
            left -= coming.len() as u64;
            coming.iter().for_each(|unit| self.ftl.prefetch_entry(unit.lpn));
            units.iter().for_each(|unit| self.ftl.prefetch_state(unit.lpn));
            if !units.is_empty() {
                self.ftl.write(When::START, &units, Cause::Host)?;
            }
        }
        Ok(())
    }

    /// A drive in the state of this one, all of it on flash, with the times and the controller of `config`; the rest of
    /// `config` is that of this drive. Time begins, and nothing has been counted.
    pub fn timed(&self, config: &DriveConfig) -> Result<Box<dyn Simulated>, BuildError> {
        let plan = Self::plan(config, self.seed)?;
        let mut ftl = self.ftl.clone();
        // As much room as collection in the background keeps, so that it is where it stays.
        ftl.gain_room(kept_blocks(config)?).and_then(|()| ftl.align()).map_err(BuildError::Worn)?;
        let ftl = ftl.moved(plan.map_config(), |chip| chip.with_timing(plan.array_timing()));
        let before = ftl.nand().counts().clone();
        Ok(Box::new(Drive::reopened(ftl, &config.controller, before).with_seed(self.seed)))
    }
}
