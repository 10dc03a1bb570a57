//! Runs an experiment: prefill, warm-up, measurement.

mod error;

pub use error::RunError;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use strobe_ssd::{
    CommandError, DriveStats, Engine, HostQueue, Latency, Pacing, build, build_on_image, image_memory_bytes,
    memory_bytes,
};
use strobe_types::{Lba, Op, Request, SECTOR_BYTES, SimTime};
use strobe_workload::synthetic::{Synthetic, SyntheticConfig, Workload};
use strobe_workload::trace::{self, Action, SkipReason, TraceError, TraceOptions, TraceReader};

use crate::experiment::{
    Amount, Experiment, HostConfig, PacingName, SyntheticWorkload, TraceConfig, WorkloadConfig,
};
use crate::fit::{Changes, Fitter};
use crate::lifetime::{BadBlockWatch, EndedBy, ideal_host_pages};
use crate::machine::{Stopwatch, available_bytes};
use crate::power::PowerSwitch;
use crate::result::{
    CopyResult, GcResult, HostResult, ImageResult, Job, MergeResult, NandResult, NvramResult, RunResult,
    SCHEMA_VERSION, SimResult, Smart, TimeResult, TraceResult, TranslationResult, WearResult, Window, ratio,
};
use crate::series::{Series, SteadyState};
use crate::verdict::{Arrivals, CapacityResult, LoadResult, WindowResult, cause_of_death, notes, wrong_sign};

/// What the run is doing, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// "prefill", "warm-up" or "measure".
    pub phase: &'static str,
    /// Host pages done in this phase.
    pub done: u64,
    /// Host pages of this phase, if known.
    pub total: Option<u64>,
    /// Virtual time.
    pub virtual_ns: u64,
}

/// Watches a run; may stop it, which gives a partial result.
pub trait Observer {
    /// Called every few thousand requests.
    fn progress(&mut self, progress: Progress) -> ControlFlow<()>;
}

/// Watches nothing.
impl Observer for () {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Runs `experiment` from a fresh drive. A run stopped by the observer, or by the drive's end of
/// life unless it was to go on until then, gives a result marked `partial`.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    check_memory(experiment)?;
    let drive = build(&experiment.drive, experiment.run.timing, experiment.seed)?;
    run_on(experiment, drive, observer)
}

/// Runs `experiment` on a fresh drive that you have built yourself, for example with a victim
/// policy of your own by [`strobe_ssd::build_with`].
pub fn run_on(
    experiment: &Experiment,
    drive: Box<dyn Engine>,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let source = Source::open(experiment)?;
    Runner::new(experiment, drive, observer).run(source)
}

/// Runs `experiment` on the drive in the image at `path`, which is made if there is none. A drive that is
/// there already goes on as it is: unless `run.prefill` says so, it is not written first.
pub fn run_on_image(
    experiment: &Experiment,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    if !experiment.power.is_steady() {
        return Err(RunError::PowerOnImage);
    }
    fit_memory(experiment, image_memory_bytes(&experiment.drive)?)?;
    let source = Source::open(experiment)?;
    let (drive, recovery) = build_on_image(&experiment.drive, experiment.run.timing, experiment.seed, path)?;
    let mut runner = Runner::new(experiment, drive, observer);
    if let Some(recovery) = &recovery {
        runner.queue = runner.queue.restarted(recovery.finished);
    }
    runner.image = Some(ImageResult::of(recovery.as_ref()));
    runner.run(source)
}

/// Refuses what [`run`] would refuse, without running.
pub fn check(experiment: &Experiment) -> Result<(), RunError> {
    check_memory(experiment)?;
    build(&experiment.drive, false, experiment.seed)?;
    Source::open(experiment).map(drop)
}

/// Refuses an experiment whose drive needs more memory than there is.
pub(crate) fn check_memory(experiment: &Experiment) -> Result<(), RunError> {
    fit_memory(experiment, memory_bytes(&experiment.drive)?)
}

/// Refuses a run whose drive needs `needed` bytes, if they are not there.
fn fit_memory(experiment: &Experiment, mut needed: u64) -> Result<(), RunError> {
    if let WorkloadConfig::Synthetic(SyntheticWorkload { generator, .. }) = &experiment.workload
        && generator.trim_fraction > 0.0
    {
        // Trims follow which slots are in use.
        needed += 8 * experiment.drive.logical_bytes() / u64::from(generator.block_bytes.max(512));
    }
    match available_bytes().filter(|&available| needed > available) {
        Some(available) => Err(RunError::Memory { needed, available }),
        None => Ok(()),
    }
}

/// Where the measured requests come from, made before anything runs: what is wrong with it should
/// not come to light after an hour of warm-up.
enum Source<'a> {
    Synthetic { generator: Box<Synthetic>, pages_per_request: f64, pacing: Pacing },
    Trace(&'a TraceConfig),
}

impl<'a> Source<'a> {
    fn open(experiment: &'a Experiment) -> Result<Self, RunError> {
        let drive = &experiment.drive;
        match &experiment.workload {
            WorkloadConfig::Synthetic(workload) => Ok(Source::Synthetic {
                generator: Box::new(workload.generator.build(drive.logical_bytes(), experiment.seed)?),
                pages_per_request: f64::from(workload.generator.block_bytes)
                    / f64::from(drive.ftl.mapping_unit_bytes),
                pacing: closed(workload.host),
            }),
            WorkloadConfig::Trace(config) => {
                // A pipe can be opened only once.
                let is_stdin = config.path == "-";
                if is_stdin && config.repeat > 1 {
                    return Err(RunError::StdinTwice);
                }
                if !is_stdin && (!Path::new(&config.path).exists() || Path::new(&config.path).is_file()) {
                    open_trace(config)?;
                }
                Ok(Source::Trace(config))
            }
        }
    }
}

/// What "-" stands for as a trace.
const STDIN: &str = "/dev/stdin";

fn open_trace(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    let options = TraceOptions {
        device: config.device.clone(),
        action: config.action.as_deref().map(|a| if a == "Q" { Action::Queue } else { Action::Issue }),
        time_unit_ns: config.time_unit_ns,
    };
    let path = if config.path == "-" { STDIN } else { &config.path };
    trace::open(Path::new(path), &config.format, &options)
}

/// Requests handed to the drive at a time: enough to hide memory latency, few enough to stay in
/// the first-level cache.
const BATCH: usize = 1024;
/// Host pages of a batch, about, so that long requests do not make long batches.
const BATCH_PAGES: u64 = 1 << 16;
/// Batches between two calls of the observer.
const BATCHES_PER_PROGRESS: u32 = 16;
/// Host pages after which it is called in any case.
const PAGES_PER_PROGRESS: u64 = 1 << 18;

/// Why a phase ended before its end.
enum Stop {
    Observer,
    /// As many blocks have gone bad as the run was to wait for.
    BadBlocks,
    Drive(CommandError),
    Failed(RunError),
}

impl<E: Into<RunError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

struct Runner<'a> {
    experiment: &'a Experiment,
    drive: Box<dyn Engine>,
    observer: &'a mut dyn Observer,
    queue: HostQueue,
    series: Series,
    measuring: bool,
    phase: &'static str,
    phase_total: Option<u64>,
    /// Host pages requested in this phase and in all.
    phase_pages: u64,
    pages: u64,
    batches: u32,
    /// Host pages at the last call of the observer.
    reported_pages: u64,
    window_start: Option<(DriveStats, SimTime)>,
    trace: Option<TraceResult>,
    /// Requests of the last batch that were executed, and of all batches before it.
    ran: usize,
    requests: u64,
    /// Requests since the last flush that was added.
    unflushed: u32,
    bad_blocks: Option<BadBlockWatch>,
    power: Option<PowerSwitch>,
    image: Option<ImageResult>,
    /// Of requests that come at their own times.
    arrivals: Option<Arrivals>,
}

impl<'a> Runner<'a> {
    fn new(experiment: &'a Experiment, mut drive: Box<dyn Engine>, observer: &'a mut dyn Observer) -> Self {
        let interval = u64::from(drive.logical_units()) / 8;
        Self {
            queue: HostQueue::new(closed(HostConfig::default()), SimTime::ZERO),
            series: Series::new(interval, drive.stats(), drive.geometry().units_per_page()),
            bad_blocks: BadBlockWatch::new(experiment),
            power: PowerSwitch::new(&experiment.power, drive.as_mut()),
            experiment,
            drive,
            observer,
            measuring: false,
            phase: "prefill",
            phase_total: None,
            phase_pages: 0,
            pages: 0,
            batches: 0,
            reported_pages: 0,
            window_start: None,
            trace: None,
            ran: 0,
            requests: 0,
            unflushed: 0,
            image: None,
            arrivals: None,
        }
    }

    fn run(mut self, source: Source<'_>) -> Result<RunResult, RunError> {
        let watch = Stopwatch::start();
        let end = self.phases(source);
        if self.measuring && matches!(end, Err(Stop::BadBlocks)) {
            // Should the drive die of it, the blocks asked for have gone bad nevertheless.
            let _ = self.write_back();
        }
        let (ended_by, stopped_by) = match end {
            Ok(ended_by) => (ended_by, None),
            Err(Stop::Observer) => (EndedBy::Interrupted, Some("interrupted".to_owned())),
            Err(Stop::BadBlocks) => (EndedBy::BadBlocks, self.came_early("the blocks went bad")),
            // The drive wore out: that is what the run was to find out.
            Err(Stop::Drive(CommandError::Ftl(error))) => {
                let ended_by = EndedBy::refusal(&error);
                let wanted = self.experiment.run.until_end_of_life && ended_by == EndedBy::EndOfLife;
                let death = cause_of_death(self.experiment, self.drive.geometry(), &self.drive.stats());
                let reason = format!("{error}{death}");
                (ended_by, if wanted { self.came_early(&reason) } else { Some(reason) })
            }
            Err(Stop::Drive(error)) => return Err(RunError::Command(error)),
            Err(Stop::Failed(error)) => return Err(error),
        };
        if self.experiment.run.check {
            self.check_drive()?;
        }
        // A run that was to cut power and did not has not done what was asked.
        let missed = self.power.as_ref().and_then(|power| power.missed(self.drive.operations()));
        let stopped_by = stopped_by.or(missed);
        Ok(self.result(ended_by, stopped_by, watch))
    }

    /// Runs the whole-state checker. It reads everything, and so may be the first to meet damage, which is
    /// no bug.
    fn check_drive(&self) -> Result<(), RunError> {
        let checked = self.drive.check();
        match self.drive.failure() {
            Some(reason) => Err(RunError::Command(CommandError::Medium(reason.to_owned()))),
            None => Ok(checked?),
        }
    }

    /// Why the end that the run was waiting for leaves a partial result nevertheless, if it does.
    fn came_early(&self, what: &str) -> Option<String> {
        (!self.measuring).then(|| {
            format!("{what}, before anything was measured; use a shorter run.warmup or more endurance")
        })
    }

    fn phases(&mut self, source: Source<'_>) -> Result<EndedBy, Stop> {
        let run = &self.experiment.run;
        let capacity = self.drive.logical_units();
        let is_trace = matches!(source, Source::Trace(_));
        let is_reopened = self.image.is_some_and(|image| image.recovery.is_some());
        if run.prefill.unwrap_or(!is_trace && !is_reopened) {
            self.begin("prefill", Some(u64::from(capacity)));
            self.prefill()?;
        }
        match source {
            Source::Synthetic { mut generator, pages_per_request, pacing } => {
                let warmup = run.warmup.pages(capacity);
                self.begin("warm-up", Some(warmup));
                self.queue = HostQueue::new(pacing, self.queue.finished());
                self.generate(&mut *generator, warmup, pages_per_request)?;
                let default = (!run.until_worn()).then_some(Amount::Capacities(1.0));
                let measure = run.measure.or(default).map(|amount| amount.pages(capacity));
                self.begin_measuring(measure)?;
                self.queue = HostQueue::new(pacing, self.queue.finished());
                self.generate(&mut *generator, measure.unwrap_or(u64::MAX), pages_per_request)?;
                self.write_back()?;
                Ok(EndedBy::Measure)
            }
            Source::Trace(trace) => {
                let warmup = run.warmup.pages(capacity);
                if warmup > 0 {
                    self.begin("warm-up", Some(warmup));
                    let unit = self.drive.geometry().unit_bytes();
                    let config = SyntheticConfig { block_bytes: unit, ..SyntheticConfig::default() };
                    let mut generator =
                        config.build(self.drive.sectors() * SECTOR_BYTES, self.experiment.seed)?;
                    self.generate(&mut generator, warmup, 1.0)?;
                }
                let limit = run.measure.map(|amount| amount.pages(capacity));
                self.begin_measuring(limit)?;
                self.replay(trace, limit)?;
                self.write_back()?;
                let reached = limit.is_some_and(|limit| self.phase_pages >= limit);
                Ok(if reached { EndedBy::Measure } else { EndedBy::Trace })
            }
        }
    }

    /// Counts what the window left in the write buffer. The time it takes does not belong to the
    /// window: no request waits for it.
    fn write_back(&mut self) -> Result<(), Stop> {
        self.drive.settle(self.queue.finished()).map_err(Stop::Drive).map(|_| ())
    }

    fn begin(&mut self, phase: &'static str, total: Option<u64>) {
        (self.phase, self.phase_total, self.phase_pages) = (phase, total, 0);
    }

    fn begin_measuring(&mut self, total: Option<u64>) -> Result<(), Stop> {
        self.begin("measure", total);
        self.sample()?;
        // What went before must not be paid for within the window.
        let settled = self.drive.settle(self.queue.finished()).map_err(Stop::Drive)?;
        self.queue = HostQueue::new(closed(HostConfig::default()), settled.max(self.queue.finished()));
        self.measuring = true;
        if let Some(power) = &mut self.power {
            power.begin_measuring(self.drive.as_mut());
        }
        self.drive.clear_latency();
        self.window_start = Some((self.drive.stats(), self.queue.finished()));
        Ok(())
    }

    /// Writes the whole drive once, a flash page of data at a time.
    fn prefill(&mut self) -> Result<(), Stop> {
        let step = u64::from(self.drive.geometry().page_bytes()) / SECTOR_BYTES;
        let mut batch = Vec::with_capacity(BATCH);
        let sectors = self.drive.sectors();
        let mut lba = 0;
        while lba < sectors {
            batch.clear();
            while batch.len() < BATCH && lba < sectors {
                let count = step.min(sectors - lba);
                batch.push(Request::new(Op::Write, Lba::new(lba), count as u32));
                lba += count;
            }
            self.issue(&batch, &[])?;
        }
        Ok(())
    }

    fn generate(
        &mut self,
        generator: &mut impl Workload,
        pages: u64,
        pages_per_request: f64,
    ) -> Result<(), Stop> {
        let mut left = (pages as f64 / pages_per_request).ceil() as u64;
        let most = ((BATCH_PAGES as f64 / pages_per_request) as u64).clamp(1, BATCH as u64);
        let mut batch = Vec::with_capacity(BATCH);
        while left > 0 {
            let count = left.min(most);
            generator.fill(&mut batch, count as usize);
            self.add_flushes(&mut batch);
            self.issue(&batch, &[])?;
            left -= count;
        }
        Ok(())
    }

    fn replay(&mut self, config: &TraceConfig, limit: Option<u64>) -> Result<(), Stop> {
        let open_loop = config.pacing == PacingName::Open;
        let pacing = if open_loop { Pacing::Open } else { closed(config.host) };
        let mut summary = TraceResult {
            requests: BTreeMap::new(),
            skipped: BTreeMap::new(),
            changes: Changes::default(),
            span_bytes: 0,
            duration_ns: 0,
            repetitions: 0,
        };
        let mut result = Ok(());
        for _ in 0..config.repeat {
            let before: u64 = summary.requests.values().sum();
            self.queue = HostQueue::new(pacing, self.queue.finished());
            result = self.replay_once(config, limit, open_loop, &mut summary);
            if result.is_err() || limit.is_some_and(|limit| self.phase_pages >= limit) {
                break;
            }
            // What holds nothing will hold nothing the next time.
            let requests: u64 = summary.requests.values().sum();
            if requests == before {
                let hint = nothing_hint(&summary, config.action.as_deref());
                return Err(RunError::EmptyTrace { path: config.path.clone(), hint }.into());
            }
            summary.repetitions += 1;
        }
        self.trace = Some(summary);
        result
    }

    fn replay_once(
        &mut self,
        config: &TraceConfig,
        limit: Option<u64>,
        open_loop: bool,
        summary: &mut TraceResult,
    ) -> Result<(), Stop> {
        let mut reader = open_trace(config)?;
        let (mut arrived, mut last) = (0, self.queue.finished());
        let mut fitter = Fitter::new(config.fit, config.late, self.drive.sectors(), open_loop);
        let start = self.queue.finished();
        let mut batch: Vec<Request> = Vec::with_capacity(BATCH);
        let mut arrivals: Vec<SimTime> = Vec::with_capacity(BATCH);
        let mut result = Ok(());
        let mut batch_pages = 0;
        while result.is_ok() {
            let reached = limit.is_some_and(|limit| self.phase_pages + batch_pages >= limit);
            let record = if reached { None } else { reader.next().transpose()? };
            if let Some(record) = &record {
                let requests = fitter.requests(record).map_err(|error| RunError::Fit {
                    path: config.path.clone(),
                    place: if config.format == "blktrace" { "record" } else { "line" },
                    position: record.position,
                    error,
                })?;
                for request in requests {
                    batch_pages += self.pages_of(&request);
                    *summary.requests.entry(request.op.name().to_owned()).or_default() += 1;
                    batch.push(request);
                    if open_loop {
                        last = last.max(start + record.time_ns);
                        arrived += 1;
                        arrivals.push(start + record.time_ns);
                    }
                }
                summary.span_bytes = summary.span_bytes.max(record.offset.saturating_add(record.bytes));
                summary.duration_ns = summary.duration_ns.max(record.time_ns);
            }
            if batch.len() >= BATCH || batch_pages >= BATCH_PAGES || record.is_none() {
                result = self.issue(&batch, &arrivals);
                batch.clear();
                arrivals.clear();
                batch_pages = 0;
            }
            if record.is_none() {
                break;
            }
        }
        for (reason, count) in reader.skipped().iter() {
            *summary.skipped.entry(reason.name().to_owned()).or_default() += count;
        }
        summary.changes.add(&fitter.changes);
        if open_loop {
            let finished = self.queue.finished();
            self.arrivals.get_or_insert_default().add(arrived, start, last, finished);
        }
        result
    }

    /// Mapping units that a request covers, if it is aligned to them.
    fn pages_of(&self, request: &Request) -> u64 {
        let shift = self.drive.geometry().unit_shift();
        (u64::from(request.sectors) + ((1u64 << shift) - 1)) >> shift
    }

    /// Puts a flush behind every so many requests, if the workload wants that.
    fn add_flushes(&mut self, batch: &mut Vec<Request>) {
        let WorkloadConfig::Synthetic(workload) = &self.experiment.workload else { return };
        let every = workload.host.flush_every;
        if every == 0 {
            return;
        }
        let flush = Request::new(Op::Flush, Lba::new(0), 0);
        let requests = std::mem::take(batch);
        for request in requests {
            batch.push(request);
            self.unflushed += 1;
            if self.unflushed >= every {
                self.unflushed = 0;
                batch.push(flush);
            }
        }
    }

    /// Hands a batch to the drive; with power cuts ahead one request at a time, as what has been completed
    /// matters then.
    fn run_batch(&mut self, batch: &[Request], arrivals: &[SimTime]) -> Result<(), Stop> {
        let Some(power) = &mut self.power else {
            let result = self.drive.run(batch, arrivals, &mut self.queue);
            self.ran = result.as_ref().map_or_else(|&(failed, _)| failed, |()| batch.len());
            return result.map_err(|(_, error)| Stop::Drive(error));
        };
        for (at, request) in batch.iter().enumerate() {
            self.ran = at;
            let arrivals = arrivals.get(at..=at).unwrap_or_default();
            self.drive
                .run(std::slice::from_ref(request), arrivals, &mut self.queue)
                .map_err(|(_, e)| Stop::Drive(e))?;
            let completed = self.requests + at as u64;
            if let Some(back) = power.after_command(&mut self.drive, completed)? {
                self.queue = self.queue.restarted(back);
            }
        }
        self.ran = batch.len();
        Ok(())
    }

    /// Hands a batch to the drive, then samples and reports as due.
    fn issue(&mut self, batch: &[Request], arrivals: &[SimTime]) -> Result<(), Stop> {
        let result = self.run_batch(batch, arrivals);
        let ran = self.ran;
        self.requests += ran as u64;
        let pages: u64 = batch[..ran].iter().map(|request| self.pages_of(request)).sum();
        self.phase_pages += pages;
        self.pages += pages;
        if self.drive.stats().host.units_written >= self.series.due() {
            self.sample()?;
        }
        if self.queue.finished() == SimTime::from_ns(u64::MAX) {
            return Err(RunError::EndOfTime.into());
        }
        self.batches += 1;
        let due = self.pages - self.reported_pages >= PAGES_PER_PROGRESS;
        if due || self.batches.is_multiple_of(BATCHES_PER_PROGRESS) {
            self.reported_pages = self.pages;
            let progress = Progress {
                phase: self.phase,
                done: self.phase_pages,
                total: self.phase_total,
                virtual_ns: self.queue.finished().as_ns(),
            };
            if self.observer.progress(progress).is_break() {
                return Err(Stop::Observer);
            }
        }
        if self.bad_blocks.as_mut().is_some_and(|watch| watch.reached(&*self.drive)) {
            return Err(Stop::BadBlocks);
        }
        result
    }

    fn sample(&mut self) -> Result<(), Stop> {
        if self.phase != "prefill" {
            if self.experiment.run.check {
                self.check_drive()?;
            }
            let virtual_ns = self.queue.finished().as_ns();
            self.series.sample(self.drive.stats(), self.drive.free_blocks(), virtual_ns, self.measuring);
        }
        Ok(())
    }

    fn result(mut self, ended_by: EndedBy, stopped_by: Option<String>, watch: Stopwatch) -> RunResult {
        let _ = self.sample();
        let end = self.drive.stats();
        let finished = self.queue.finished();
        let (start, started) = self.window_start.take().unwrap_or_else(|| (end.clone(), finished));
        let window = Window { stats: end.since(&start), start: started, end: finished };
        let experiment = self.experiment;
        let geometry = self.drive.geometry();
        let virtual_ns = if experiment.run.timing { window.end.since(window.start) } else { 0 };
        let programs = window.stats.nand.total(strobe_nand::NandOp::Program);
        // Without a window there are no latencies of it, only those of what came before.
        let none = Latency::new();
        let latency = if self.measuring { self.drive.latency() } else { &none };
        let job = Job::of(workload_name(&experiment.workload), &window.stats, latency, virtual_ns);
        let waf = ratio(programs * u64::from(geometry.units_per_page()), window.stats.host.units_written);
        let wear = WearResult::of(self.drive.wear(), ideal_host_pages(experiment, geometry, waf));
        let smart = Smart::of(&end, &wear, geometry, experiment);
        let waf_bytes =
            ratio(programs * u64::from(geometry.page_bytes()), window.stats.host.bytes(Op::Write));
        let series = self.series.into_samples();
        let has_collected = window.stats.nand.total(strobe_nand::NandOp::Erase) > 0;
        let steady_state = SteadyState::of(&series, has_collected);
        let measured_pages = if self.measuring { self.phase_pages } else { 0 };
        let logical_units = self.drive.logical_units();
        let load = match self.arrivals.filter(|_| experiment.run.timing) {
            Some(arrivals) => Some(LoadResult::of_arrivals(&arrivals)),
            None => rate_of(&experiment.workload).filter(|_| virtual_ns > 0).map(|rate| {
                let commands = Op::ALL.iter().map(|&op| window.stats.host.commands(op)).sum();
                LoadResult::of_rate(rate, commands, virtual_ns)
            }),
        };
        let sign = wrong_sign(experiment, geometry, &window.stats);
        let cpu_s = watch.cpu_s();
        RunResult {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: experiment.seed,
            config_hash: experiment.config_hash(),
            config: experiment.clone(),
            partial: stopped_by.is_some(),
            stopped_by,
            ended_by,
            capacity: CapacityResult::of(&experiment.drive),
            window: WindowResult::of(
                &window.stats,
                measured_pages,
                logical_units,
                waf,
                steady_state.as_ref(),
            ),
            load,
            notes: notes(experiment, ended_by, load.as_ref(), sign),
            host: HostResult::of(&window.stats),
            nand: NandResult::of(&window.stats.nand),
            waf,
            waf_bytes,
            gc: GcResult::of(&window.stats),
            copy: CopyResult::of(&window.stats),
            nvram: window.stats.nvram.as_ref().map(NvramResult::of),
            merges: window.stats.merges.as_ref().map(MergeResult::of),
            translation: window.stats.translation.as_ref().map(TranslationResult::of),
            wear,
            smart,
            time: TimeResult { virtual_ns, wall_s: Some(watch.wall_s()), cpu_s: Some(cpu_s) },
            sim: SimResult { host_pages_per_cpu_s: (cpu_s > 0.0).then(|| self.pages as f64 / cpu_s) },
            jobs: vec![job],
            steady_state,
            series,
            trace: self.trace,
            image: self.image,
            power_cuts: self.power.map_or_else(Vec::new, |power| power.cuts),
        }
    }
}

impl RunResult {
    /// Removes what differs from machine to machine and run to run: the simulator's own wall and
    /// CPU time and speed. What is left is the same bytes wherever and whenever it is made.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        (self.time.wall_s, self.time.cpu_s, self.sim.host_pages_per_cpu_s) = (None, None, None);
        self
    }
}

impl Changes {
    fn add(&mut self, other: &Self) {
        self.wrapped += other.wrapped;
        self.shortened += other.shortened;
        self.dropped += other.dropped;
        self.rounded += other.rounded;
        self.empty += other.empty;
        self.late += other.late;
        self.split += other.split;
    }
}

/// Why a trace held nothing to replay.
fn nothing_hint(summary: &TraceResult, action: Option<&str>) -> String {
    let left_out: Vec<String> = summary.skipped.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    if summary.repetitions > 0 {
        return format!(" after {} times: a pipe cannot be repeated", summary.repetitions);
    }
    let mut hint = String::new();
    if !left_out.is_empty() {
        hint += &format!("; left out: {}", left_out.join(", "));
    }
    // Only formats with actions leave out any; one letter is what another one was not.
    let was_left_out = |reason: SkipReason| summary.skipped.contains_key(reason.name());
    if was_left_out(SkipReason::OtherAction) {
        hint += if action == Some("Q") { "; try --action D" } else { "; try --action Q" };
    }
    if was_left_out(SkipReason::OtherDevice) {
        hint += "; try another --device, or --device all";
    }
    if was_left_out(SkipReason::FileEvent) && left_out.len() == 1 {
        hint += "; the log names files, but has no read, write, trim or sync";
    }
    let Changes { dropped, empty, rounded, .. } = summary.changes;
    if dropped + empty + rounded > 0 {
        hint +=
            &format!("; {dropped} lay beyond the drive, {empty} were empty, {rounded} held no whole sector");
    }
    hint
}

fn closed(host: HostConfig) -> Pacing {
    let interval_ns = match host.rate_iops {
        0 => 0,
        rate => 1_000_000_000 / u64::from(rate),
    };
    Pacing::Closed { depth: host.queue_depth, interval_ns }
}

/// The rate at which requests of a closed loop are to come, if there is one.
fn rate_of(workload: &WorkloadConfig) -> Option<u32> {
    let rate = match workload {
        WorkloadConfig::Synthetic(workload) => workload.host.rate_iops,
        WorkloadConfig::Trace(trace) if trace.pacing == PacingName::Closed => trace.host.rate_iops,
        WorkloadConfig::Trace(_) => 0,
    };
    (rate > 0).then_some(rate)
}

fn workload_name(workload: &WorkloadConfig) -> &str {
    match workload {
        WorkloadConfig::Synthetic(workload) => workload.generator.kind.name(),
        WorkloadConfig::Trace(trace) => &trace.path,
    }
}
