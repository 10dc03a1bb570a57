//! Read retry: charge leakage and read disturb raise the bit errors at the default reference voltages above
//! the correction limit of the code.
//!
//! Wear, retention and reads each add retries, and wear makes retention worse (Park et al., ASPLOS 2021, on
//! 160 chips). Pages of blocks in SLC mode need no retries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{BlockId, CellMode, Ppn, Prng, SimTime, State, Stored, defaults};

use super::Chip;
use crate::{Medium, Timing};

defaults! {
    /// Read retry: a page with more bit errors than the code corrects is read again at other reference
    /// voltages. Mean number of retries: fresh + per_day · days + (per_kcycle + per_kcycle_day · days) ·
    /// kcycles + per_kread · kreads. Days count from the program of the block's first page, kcycles are
    /// thousands of erases of the block, kreads thousands of reads since its last erase. Pages vary uniformly
    /// from 0 to twice the mean; a page needs the same number each time. Each retry takes one array read.
    /// With all factors 0 there are no retries.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RetryConfig {
        /// Mean retries on new flash. Default 0.
        #[schemars(range(min = 0.0, max = 1000.0))]
        pub fresh: f64 = 0.0;
        /// Additional retries per thousand erases of the block. Default 0.
        #[schemars(range(min = 0.0, max = 1000.0))]
        pub per_kcycle: f64 = 0.0;
        /// Additional retries per day since its first page was programmed. Default 0.
        #[schemars(range(min = 0.0, max = 1000.0))]
        pub per_day: f64 = 0.0;
        /// Additional retries per day and per thousand erases. Default 0.
        #[schemars(range(min = 0.0, max = 1000.0))]
        pub per_kcycle_day: f64 = 0.0;
        /// Read disturb: additional retries per thousand reads of the block since its erase. Default 0.
        #[schemars(range(min = 0.0, max = 1000.0))]
        pub per_kread: f64 = 0.0;
        /// Maximum retries of one read. Default 40.
        #[schemars(range(min = 1, max = 1000))]
        #[schemars(extend("x-needs" = {
            "fresh": "above 0", "per_kcycle": "above 0", "per_day": "above 0", "per_kcycle_day": "above 0",
            "per_kread": "above 0"
        }))]
        pub most: u32 = 40;
        /// True if a page that needs more retries than `most` is unreadable and its data is lost. Default
        /// false: the last retry corrects it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("x-needs" = {
            "fresh": "above 0", "per_kcycle": "above 0", "per_day": "above 0", "per_kcycle_day": "above 0",
            "per_kread": "above 0"
        }))]
        pub fails_beyond_most: bool = false;
        /// Days of retention per second of virtual time. Runs of seconds can show the effect of months, like
        /// baking chips. Default 1/86400: real time.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        #[schemars(extend("x-needs" = {
            "per_day": "above 0",
            "per_kcycle_day": "above 0",
            "drive.ftl.refresh.days": "above 0"
        }))]
        pub days_per_second: f64 = 1.0 / 86_400.0;
    }
}

impl RetryConfig {
    /// True if a read may need retries.
    pub fn is_on(&self) -> bool {
        let factors = [self.fresh, self.per_kcycle, self.per_day, self.per_kcycle_day, self.per_kread];
        factors.iter().any(|&factor| factor > 0.0)
    }

    /// Mean retries of a page in a block after `erases` erases, `reads` reads and `days` days.
    pub fn mean(&self, erases: u32, reads: u32, days: f64) -> f64 {
        let kcycles = f64::from(erases) / 1000.0;
        self.fresh
            + (self.per_kcycle + self.per_kcycle_day * days) * kcycles
            + self.per_day * days
            + self.per_kread * f64::from(reads) / 1000.0
    }
}

/// Stress of a block since its erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct Stress {
    /// Reads of its pages, retries included.
    pub reads: u32,
    /// Program time of its first page.
    pub since: SimTime,
}

#[derive(Clone, Debug, State)]
pub(super) struct Retries {
    #[state(skip)]
    config: RetryConfig,
    #[state(skip)]
    seed: u64,
    done: u64,
    #[state(table)]
    stress: Vec<Stress>,
}

impl Retries {
    /// Retries of flash page `part` of `page`: uniform from 0 to twice the `mean`, equal at each read until
    /// the next erase (locality: Du et al., MSST 2017). The flag is true above the allowed maximum.
    fn of(&self, page: Ppn, part: u32, erases: u32, mean: f64) -> (u32, bool) {
        let state = u64::from(page.get()) << 32 | u64::from(part) << 30 | u64::from(erases);
        let bits = Prng::new(self.seed ^ state).bits();
        let share = |bits: u64| (bits as u32) as f64 / (u64::from(u32::MAX) + 1) as f64;
        // A random fraction is added before truncation, so rounding does not shift the mean.
        let wanted = mean * 2.0 * share(bits) + share(bits >> 32);
        // Casts saturate, so overflow and NaN stay within the limit.
        ((wanted as u32).min(self.config.most), wanted as u32 > self.config.most)
    }
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Enables read retries. `seed` decides the variation between pages.
    #[must_use]
    pub fn with_retries(mut self, config: RetryConfig, seed: u64) -> Self {
        let stress = vec![Stress::default(); self.blocks.len()];
        let seed = Prng::derive(seed, "read-retry").bits();
        self.retries = Some(Box::new(Retries { config, seed, stress, done: 0 }));
        self
    }

    /// Array reads that flash page `part` of `ppn` needs, the first included; adds them to the block's
    /// stress. A page that `is_lost` takes all allowed retries. The flag is true if the page becomes
    /// unreadable.
    #[cold]
    pub(super) fn times_to_read(&mut self, ppn: Ppn, part: u32, is_lost: bool) -> (u32, bool) {
        let id = self.geometry.block_of_page(ppn);
        let state = self.blocks[id.index()].state();
        let erases = state.erase_count;
        let now = self.timing.now();
        let Some(retries) = &mut self.retries else { return (1, false) };
        let stress = retries.stress[id.index()];
        let seconds = now.as_ns().saturating_sub(stress.since.as_ns()) as f64 / 1e9;
        let days = seconds * retries.config.days_per_second;
        // SLC mode leaves enough margin between the levels, so no retry is needed.
        let (again, is_beyond) = if is_lost {
            (retries.config.most, false)
        } else if state.mode == CellMode::Slc {
            (0, false)
        } else {
            retries.of(ppn, part, erases, retries.config.mean(erases, stress.reads, days))
        };
        let stress = &mut retries.stress[id.index()];
        stress.reads = stress.reads.saturating_add(1 + again);
        retries.done += u64::from(again);
        (1 + again, is_beyond && retries.config.fails_beyond_most)
    }

    pub(super) fn record_first_program(&mut self, block: BlockId) {
        let now = self.timing.now();
        if let Some(retries) = &mut self.retries {
            retries.stress[block.index()].since = now;
        }
    }

    pub(super) fn stress_of(&self, block: BlockId) -> Option<Stress> {
        self.retries.as_ref().map(|retries| retries.stress[block.index()])
    }

    pub(super) fn set_stress(&mut self, block: BlockId, stress: Stress) {
        if let Some(retries) = &mut self.retries {
            retries.stress[block.index()] = stress;
        }
    }

    pub(super) fn retries_done(&self) -> u64 {
        self.retries.as_ref().map_or(0, |retries| retries.done)
    }
}

#[cfg(test)]
mod tests {
    use strobe_types::{Geometry, GeometrySpec};

    use super::*;
    use crate::{
        ArrayTiming, Cause, Nand, NandOp, NoMedium, Payload, TimingConfig, Unit, Wanted, WearConfig, When,
    };

    const READ_NS: u64 = 50_000;
    const PROGRAM_NS: u64 = 400_000;
    const PAGES: u32 = 1000;

    fn chip(config: RetryConfig) -> Chip<ArrayTiming, NoMedium> {
        let geometry = Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 2,
            pages_per_block: PAGES,
            page_bytes: 4096,
            unit_bytes: 4096,
        })
        .expect("valid");
        let times = TimingConfig {
            read_ns: READ_NS.into(),
            program_ns: PROGRAM_NS.into(),
            erase_ns: 1_000_000,
            ..TimingConfig::default()
        };
        let timing = ArrayTiming::new(times, &geometry);
        let mut chip = Chip::new(geometry, WearConfig::default(), timing, 1).with_retries(config, 7);
        program(&mut chip);
        chip
    }

    fn program(chip: &mut Chip<ArrayTiming, NoMedium>) {
        let unit = Unit { lpn: strobe_types::Lpn::new(0), payload: Payload::zero() };
        for page in 0..PAGES {
            chip.program(When::START, Ppn::new(page), std::slice::from_ref(&unit), 0, Cause::Host)
                .expect("good flash");
        }
        chip.drain();
    }

    fn array_reads(chip: &mut Chip<ArrayTiming, NoMedium>, pages: impl Iterator<Item = u32>) -> Vec<u64> {
        let mut read = |page| {
            let (before, began) = (chip.counts().total(NandOp::Read), chip.timing().now());
            let arrived = chip.read(When::At(began), Ppn::new(page), Wanted::first(1), Cause::Host);
            let took = chip.finish(arrived.when).as_ns() - began.as_ns();
            let times = chip.counts().total(NandOp::Read) - before;
            assert_eq!(took, times * READ_NS, "each is a read of the array, one after the other");
            times
        };
        pages.map(&mut read).collect()
    }

    fn mean(times: &[u64]) -> f64 {
        times.iter().sum::<u64>() as f64 / times.len() as f64
    }

    #[track_caller]
    fn assert_near(is: f64, expected: f64, tolerance: f64) {
        assert!((is - expected).abs() <= tolerance, "{is}, expected {expected}");
    }

    #[test]
    fn pages_of_new_flash_need_as_many_each_time() {
        for fresh in [0.25, 1.5, 6.0] {
            let mut chip = chip(RetryConfig { fresh, most: 40, ..RetryConfig::default() });
            let first = array_reads(&mut chip, 0..PAGES);
            // Tolerance: four standard deviations of the sample mean. Retries are uniform over 0 to twice the
            // mean and rounded at random.
            assert_near(
                mean(&first),
                1.0 + fresh,
                4.0 * (fresh * fresh / 3.0 + 0.25).sqrt() / 1000f64.sqrt(),
            );
            assert_eq!(array_reads(&mut chip, 0..PAGES), first);
            assert_eq!(chip.retries() + 2 * u64::from(PAGES), chip.counts().total(NandOp::Read));
            let most = *first.iter().max().expect("pages") as f64;
            assert!(most > 1.0 + fresh && most <= 2.0 + 2.0 * fresh, "{most} at a mean of {fresh}");
        }
    }

    #[test]
    fn no_read_is_repeated_more_than_allowed_and_none_without_factors() {
        let mut chip = chip(RetryConfig { fresh: 100.0, most: 3, ..RetryConfig::default() });
        assert!(array_reads(&mut chip, 0..PAGES).iter().all(|&times| times <= 4));
        let mut none = self::chip(RetryConfig { most: 3, ..RetryConfig::default() });
        assert_eq!(array_reads(&mut none, 0..PAGES), vec![1; PAGES as usize]);
    }

    #[test]
    fn wear_retention_and_reads_add_up() {
        let days_per_second = 1.0;
        let config = RetryConfig {
            fresh: 0.5,
            per_kcycle: 5.0,
            per_day: 0.5,
            per_kcycle_day: 2.5,
            per_kread: 1.0,
            most: 40,
            fails_beyond_most: false,
            days_per_second,
        };
        let mut chip = chip(config);
        for _ in 0..200 {
            chip.erase(When::START, BlockId::new(0), Cause::Gc).expect("no end of life");
            chip.drain();
        }
        program(&mut chip);
        let block = BlockId::new(0);
        let since = chip.stress(block).expect("stress").since;
        let later = SimTime::from_ns(since.as_ns() + 3_000_000_000);
        chip.timing_mut().run(later);
        chip.set_stress(block, Stress { reads: 3000, since });
        // fresh, 0.2 thousand erases, 3 days, both, 3 thousand reads; the measurement adds to the last two.
        let expected = 1.0 + 0.5 + 1.0 + 1.5 + 1.5 + 3.0;
        let times = array_reads(&mut chip, (0..PAGES).step_by(5));
        let reads = chip.stress(block).expect("stress").reads - 3000;
        assert_eq!(u64::from(reads), times.iter().sum::<u64>());
        assert_near(mean(&times), expected + f64::from(reads) / 2000.0, 0.8);
        chip.erase(When::START, block, Cause::Gc).expect("no end of life");
        assert_eq!(chip.stress(block), Some(Stress::default()));
        program(&mut chip);
        let times = array_reads(&mut chip, (0..PAGES).step_by(5));
        let stress = chip.stress(block).expect("stress");
        let (kcycles, kreads) = (0.201, f64::from(stress.reads) / 2000.0);
        let days = (chip.timing().now().as_ns() - stress.since.as_ns()) as f64 / 1e9;
        let expected = 1.0 + 0.5 + (5.0 + 2.5 * days) * kcycles + 0.5 * days + kreads;
        assert_near(mean(&times), expected, 0.25);
    }
}
