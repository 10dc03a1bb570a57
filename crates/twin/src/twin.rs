//! A scaled-down drive under the loads of a real one.
//!
//! 1. Reduce the drive to fewer blocks (`scaled`).
//! 2. Age it once for each share in use and address distribution.
//! 3. For each question, copy the aged drive, apply timing and controller settings, warm up, and measure.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use strobe_lab::experiment::{Amount, Experiment};
use strobe_lab::points::{Stoppable, Watch, in_parallel};
use strobe_lab::result::{Clat, RunResult};
use strobe_lab::runner::run_on;
use strobe_lab::{ConfigError, RunError, Time};
use strobe_ssd::{Aged, BuildError, DriveConfig, FtlError, memory_bytes};
use strobe_types::{Prng, Request, SECTOR_BYTES};
use strobe_workload::synthetic::{Kind, Synthetic, SyntheticConfig, Workload as _, WorkloadError};

use crate::Effort;
use crate::measurements::{Addresses, Figures, Load, PERCENTILES};
use crate::scaled::scaled;

/// Error of a twin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TwinError {
    /// The drive cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The load cannot be simulated.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ageing addresses cannot be drawn.
    #[error(transparent)]
    Addresses(#[from] WorkloadError),
    /// Writing the ageing data failed.
    #[error("ageing the drive failed: {0}")]
    Aging(FtlError),
    /// The drive failed during measurement.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The watcher asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<FtlError> for TwinError {
    fn from(error: FtlError) -> Self {
        match error {
            FtlError::Interrupted => TwinError::Interrupted,
            error => TwinError::Aging(error),
        }
    }
}

/// A drive with fewer blocks in the steady state of the measured drives: written once in order, then three
/// times at random.
///
/// Timing and controller settings may change between questions. Settings that decide data placement may not.
pub struct Twin {
    config: DriveConfig,
    effort: Effort,
    /// Aged drives by units in use and ageing addresses. They are copied under the lock and used outside it.
    aged: Mutex<BTreeMap<(u32, Addresses), Aged>>,
}

/// A load and the drive settings to simulate it with.
#[derive(Clone, Debug)]
pub struct Question {
    /// Drive configuration; its timing and controller settings apply.
    pub config: DriveConfig,
    /// The load.
    pub load: Load,
    /// Capacity of the real drive in bytes.
    pub capacity_bytes: u64,
    /// True if the drive does not sustain the load with a margin; figures then take longer to settle.
    pub is_saturated: bool,
}

impl Twin {
    /// Returns the twin of `config`, with enough blocks to behave as the whole drive.
    pub fn new(config: &DriveConfig, effort: Effort) -> Result<Self, BuildError> {
        let config = scaled(config, effort.blocks_per_plane(config))?;
        Ok(Self { config, effort, aged: Mutex::default() })
    }

    /// Configuration of the simulated drive.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// Memory that each thread needs, in bytes.
    pub fn memory_bytes(&self) -> Result<u64, BuildError> {
        memory_bytes(&self.config)
    }

    /// Returns `config`, given for the whole drive, with the blocks of this twin.
    pub fn scale(&self, config: &DriveConfig) -> DriveConfig {
        let mut small = config.clone();
        small.nand.blocks_per_plane = self.config.nand.blocks_per_plane;
        small.ftl.logical_pages = self.config.ftl.logical_pages;
        small.ftl.slc_cache = self.config.ftl.slc_cache;
        small.ftl.over_provisioning = None;
        small
    }

    fn place(&self, load: &Load, capacity: u64) -> (u32, Addresses) {
        (self.units(load.used_bytes, capacity), load.addresses)
    }

    fn units(&self, used: u64, capacity: u64) -> u32 {
        let units = u128::from(self.config.logical_units());
        (units * u128::from(used.min(capacity)) / u128::from(capacity.max(1))).max(1) as u32
    }

    /// Ages the drives that `questions` need.
    pub fn age(&self, questions: &[Question], seed: u64, watch: &dyn Watch) -> Result<(), TwinError> {
        for question in questions {
            let (units, addresses) = self.place(&question.load, question.capacity_bytes);
            // Uniform addresses come first: other distributions continue on a copy of that drive.
            for addresses in [Addresses::Uniform, addresses] {
                if self.lock().contains_key(&(units, addresses)) {
                    continue;
                }
                let aged = self.written(units, addresses, seed, watch)?;
                self.lock().insert((units, addresses), aged);
            }
        }
        Ok(())
    }

    /// Returns a drive with its first `units` written in order, then three times at random.
    ///
    /// Other `addresses` than uniform are then written three times as well, so that hot and cold data have
    /// separated.
    fn written(
        &self,
        units: u32,
        addresses: Addresses,
        seed: u64,
        watch: &dyn Watch,
    ) -> Result<Aged, TwinError> {
        let mut aged = match self.lock().get(&(units, Addresses::Uniform)) {
            Some(aged) => aged.clone(),
            None => {
                let mut aged = Aged::new(&self.config, seed)?;
                aged.set_stop(watch.stop_flag());
                aged.fill(units)?;
                aged
            }
        };
        let bytes = self.config.ftl.mapping_unit_bytes;
        let mut next = match addresses {
            Addresses::Uniform => None,
            Addresses::Zipf { theta_milli, scattered } => {
                let theta = f64::from(theta_milli) / 1000.0;
                // Another seed than the run's, so that ageing does not write the same sequence.
                let seed = Prng::derive(seed, "twin ageing").bits();
                Some(Popular::new(units, bytes, theta, scattered, seed)?)
            }
        };
        for _ in 0..3 {
            if watch.stopped() {
                return Err(TwinError::Interrupted);
            }
            let count = u64::from(units);
            let written = match &mut next {
                None => aged.overwrite(units, count),
                Some(popular) => aged.overwrite_at(count, || popular.next()),
            };
            written?;
        }
        Ok(aged)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u32, Addresses), Aged>> {
        self.aged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates `questions` and returns the figures of each.
    pub fn ask(
        &self,
        questions: &[Question],
        seed: u64,
        watch: &dyn Watch,
    ) -> Result<Vec<Figures>, TwinError> {
        self.age(questions, seed, watch)?;
        let figures = in_parallel(questions, watch, |question| self.answer(question, seed, watch))?;
        figures.ok_or(TwinError::Interrupted)
    }

    fn answer(&self, question: &Question, seed: u64, watch: &dyn Watch) -> Result<Figures, TwinError> {
        let place @ (units, _) = self.place(&question.load, question.capacity_bytes);
        let aged = self.lock().get(&place).cloned();
        let Some(aged) = aged else { return Err(TwinError::Interrupted) };
        let used_bytes = u64::from(units) * u64::from(question.config.ftl.mapping_unit_bytes);
        let mut experiment = Experiment::from_toml(&question.load.jobs(used_bytes))?;
        experiment.drive = question.config.clone();
        experiment.seed = seed;
        experiment.run.prefill = Some(false);
        let (warmup_ms, measure_ms) = self.effort.span(&question.load, question.is_saturated);
        experiment.run.warmup = ms(warmup_ms);
        experiment.run.measure = Some(ms(measure_ms));
        let drive = aged.timed(&question.config)?;
        // Free this copy: the run needs only the timed drive.
        drop(aged);
        let result = run_on(&experiment, drive, &mut Stoppable(watch))?;
        if watch.stopped() {
            return Err(TwinError::Interrupted);
        }
        Ok(figures(&result))
    }
}

fn ms(ms: u64) -> Amount {
    Amount::Time(Time::from_ns(ms * 1_000_000))
}

const BATCH: usize = 1024;

/// Ageing addresses, with the same hot units as in a run.
struct Popular {
    workload: Synthetic,
    sectors_per_unit: u64,
    requests: Vec<Request>,
}

impl Popular {
    fn new(units: u32, unit_bytes: u32, theta: f64, scatter: bool, seed: u64) -> Result<Self, WorkloadError> {
        let kind = Kind::Zipf;
        let config = SyntheticConfig { kind, theta, scatter, ..SyntheticConfig::default() };
        let bytes = u64::from(units) * u64::from(unit_bytes);
        Ok(Self {
            workload: config.build(bytes, seed)?,
            sectors_per_unit: u64::from(unit_bytes) / SECTOR_BYTES,
            requests: Vec::new(),
        })
    }

    fn next(&mut self) -> u32 {
        if self.requests.is_empty() {
            self.workload.fill(&mut self.requests, BATCH);
        }
        let lba = self.requests.pop().map_or(0, |request| request.lba.get());
        (lba / self.sectors_per_unit) as u32
    }
}

fn figures(result: &RunResult) -> Figures {
    let percentiles =
        |clat: &Clat| PERCENTILES.map(|(_, name)| clat.percentile(name).map(|ns| ns as f64 / 1000.0));
    let seconds = result.time.virtual_ns as f64 / 1e9;
    let done: u64 = result.jobs.iter().map(|job| job.read.clat_ns.n + job.write.clat_ns.n).sum();
    let probe = result.jobs.first();
    Figures {
        completed_s: (seconds > 0.0).then(|| done as f64 / seconds),
        read_us: probe.map_or([None; 4], |job| percentiles(&job.read.clat_ns)),
        write_us: probe.map_or([None; 4], |job| percentiles(&job.write.clat_ns)),
        waf: result.waf,
    }
}
