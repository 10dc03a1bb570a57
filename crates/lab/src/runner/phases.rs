//! Phases of a run, from prefill to the saved state.

use std::path::Path;

use strobe_ssd::{CommandError, Pacing, Simulated, StateFile};
use strobe_types::{SimTime, State};
use strobe_workload::synthetic::SyntheticConfig;

use super::Observer;
use super::file_system::FileSystem;
use super::generate::{Generator, prefill};
use super::host::{Host, Stop, closed};
use super::issuer::Issuer;
use super::jobs::{Jobs, Limit};
use super::replay::{Replayed, check_options, open_trace, replay};
use super::state::{self, Point, States};
use crate::RunError;
use crate::experiment::{Amount, Experiment, HostConfig, TraceConfig, WorkloadConfig};
use crate::lifetime::EndedBy;
use crate::machine::Stopwatch;
use crate::result::{FromState, ImageResult, LfsBytes, RunResult};
use crate::steady::{RoundStart, SteadyRounds};
use crate::verdict::cause_of_death;

/// Source of requests, built before the first phase: its errors must not appear after an hour of warm-up.
pub(super) enum Source<'a> {
    Closed(Box<dyn Issuer>, Pacing),
    Jobs(Box<Jobs>),
    Trace(&'a TraceConfig),
}

impl<'a> Source<'a> {
    pub(super) fn open(experiment: &'a Experiment) -> Result<Self, RunError> {
        if experiment.needs_jobs()
            && let Some(jobs) = Jobs::new(experiment)?
        {
            return Ok(Source::Jobs(Box::new(jobs)));
        }
        match &experiment.workload {
            WorkloadConfig::Jobs(_) => unreachable!("jobs have their own source"),
            WorkloadConfig::Synthetic(workload) => {
                let (drive, seed) = (&experiment.drive, experiment.seed);
                let generator = Generator::new(&workload.generator, &workload.host, drive, seed)?;
                Ok(Source::Closed(Box::new(generator), closed(workload.host)))
            }
            WorkloadConfig::Lfs(config) => {
                let drive_bytes = experiment.drive.logical_bytes();
                let file_system = FileSystem::new(config, drive_bytes, experiment.seed)?;
                let host = HostConfig { queue_depth: config.queue_depth, ..HostConfig::default() };
                Ok(Source::Closed(Box::new(file_system), closed(host)))
            }
            WorkloadConfig::Trace(config) => {
                // A trace in a file is opened here only to report errors early. A pipe can be opened only
                // once, by the replay.
                let is_stdin = config.path == "-";
                check_options(config)?;
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

pub(super) fn overwrites(experiment: &Experiment) -> SyntheticConfig {
    SyntheticConfig { block_bytes: experiment.drive.ftl.mapping_unit_bytes, ..SyntheticConfig::default() }
}

pub(super) struct Runner<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) host: Host<'a>,
    pub(super) trace: Option<Replayed>,
    pub(super) file_system: Option<LfsBytes>,
    pub(super) jobs: Option<Box<Jobs>>,
    pub(super) steady: Option<SteadyRounds>,
    pub(super) image: Option<ImageResult>,
    pub(super) states: States<'a>,
    pub(super) loaded: Option<Point>,
    pub(super) drive_seed: u64,
    pub(super) from_state: Option<FromState>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        drive: Box<dyn Simulated>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let host = Host::new(experiment, drive, observer);
        let steady = SteadyRounds::new(&experiment.run);
        Self {
            experiment,
            host,
            trace: None,
            file_system: None,
            jobs: None,
            steady,
            image: None,
            states: States::default(),
            loaded: None,
            drive_seed: experiment.seed,
            from_state: None,
        }
    }

    pub(super) fn load(&mut self, file: StateFile, source: &mut Source<'_>) -> Result<(), RunError> {
        let point = state::point_for(&file, self.experiment)?;
        self.drive_seed = file.header().seed;
        self.from_state = (point == Point::End).then(|| state::origin(file.header()));
        let requests: Option<&mut dyn State> = match source {
            // Only a state from after the warm-up contains the position of the workload.
            _ if point != Point::WarmUp => None,
            Source::Closed(issuer, _) => Some(&mut **issuer),
            Source::Jobs(jobs) => {
                jobs.start(SimTime::ZERO);
                Some(&mut **jobs)
            }
            Source::Trace(_) => None,
        };
        state::load(file, point, &mut self.host, self.steady.as_mut(), requests)?;
        self.loaded = Some(point);
        Ok(())
    }

    fn is_past(&self, point: Point) -> bool {
        match self.loaded {
            Some(Point::Precondition) => point == Point::Precondition,
            Some(Point::WarmUp) => true,
            Some(Point::End) | None => false,
        }
    }

    fn save(&mut self, point: Point, requests: Option<&dyn State>) -> Result<(), Stop> {
        let run = (self.experiment, self.drive_seed);
        state::save(&mut self.states, point, &self.host, run, self.steady.as_ref(), requests)
    }

    pub(super) fn run(mut self, source: Source<'_>) -> Result<RunResult, RunError> {
        let watch = Stopwatch::start();
        self.host.hear_stop();
        let end = self.phases(source);
        self.host.end_measuring(self.host.now(), 0);
        let (ended_by, stopped_by) = match end {
            Ok(ended_by) => (ended_by, None),
            Err(stop) if stop.is_interruption(&*self.host.drive) => {
                (EndedBy::Interrupted, Some("interrupted".to_owned()))
            }
            Err(Stop::BadBlocks) => (EndedBy::BadBlocks, self.early_end("the blocks went bad")),
            // The drive refused a write. A worn-out drive is the intended end if run.until_end_of_life is
            // set.
            Err(Stop::Drive(CommandError::Ftl(error))) => {
                let ended_by = EndedBy::refusal(&error);
                let wanted = self.experiment.run.until_end_of_life && ended_by == EndedBy::EndOfLife;
                let death =
                    cause_of_death(self.experiment, self.host.drive.geometry(), &self.host.drive.stats());
                let reason = format!("{error}{death}");
                (ended_by, if wanted { self.early_end(&reason) } else { Some(reason) })
            }
            Err(Stop::Drive(error)) => return Err(RunError::Command(error)),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Observer) => unreachable!("an interruption, which comes first"),
        };
        if self.experiment.run.check {
            self.host.check_drive()?;
        }
        // A stop flag raised after the last phase ends no phase, but it may have cut short the checker or the
        // last garbage collection. The result counts as interrupted.
        let is_late = stopped_by.is_none() && self.host.drive.is_stopped();
        let (ended_by, stopped_by) = if is_late {
            (EndedBy::Interrupted, Some("interrupted".to_owned()))
        } else {
            (ended_by, stopped_by)
        };
        // A run without its planned power cuts is incomplete.
        let missed = self.host.power.as_ref().and_then(|power| power.missed(self.host.drive.operations()));
        let is_complete = stopped_by.is_none();
        let result = self.result(ended_by, stopped_by.or(missed), watch);
        // The result is taken before the outstanding requests are finished, so it does not depend on them.
        if is_complete {
            self.leave()?;
        }
        Ok(result)
    }

    fn leave(&mut self) -> Result<(), RunError> {
        let left = self.host.finish().and_then(|()| self.save(Point::End, None));
        let left = left.and_then(|()| match self.image {
            Some(_) => self.host.drive.settle(self.host.now()).map(drop).map_err(Stop::Drive),
            None => Ok(()),
        });
        match left {
            Ok(()) => Ok(()),
            // The final flush may hit end of life; the run is complete regardless.
            Err(Stop::Drive(CommandError::Ftl(_)) | Stop::Observer | Stop::BadBlocks) => Ok(()),
            Err(Stop::Drive(error)) => Err(RunError::Command(error)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Reason for a partial result, if the intended end came before the measurement.
    fn early_end(&self, what: &str) -> Option<String> {
        (!self.host.is_measuring()).then(|| {
            format!("{what}, before anything was measured; use a shorter run.warmup or more endurance")
        })
    }

    fn phases(&mut self, source: Source<'_>) -> Result<EndedBy, Stop> {
        if !self.is_past(Point::Precondition) {
            self.precondition()?;
            // Without a warm-up by the workload, the drive is ready for the measurement here.
            if Point::before_measuring(self.experiment) == Point::Precondition {
                self.save(Point::Precondition, None)?;
            }
        }
        match source {
            Source::Closed(mut issuer, pacing) => self.issue(&mut *issuer, pacing),
            Source::Jobs(jobs) => self.run_jobs(jobs),
            Source::Trace(trace) => self.replay(trace),
        }
    }

    /// Each phase waits for the requests of the phase before. Requests of the last phase stay outstanding.
    fn precondition(&mut self) -> Result<(), Stop> {
        let (run, host) = (&self.experiment.run, &mut self.host);
        let capacity = host.drive.logical_units();
        let is_used = self.loaded.is_some() || self.image.is_some_and(|image| image.recovery.is_some());
        if run.prefill.unwrap_or(self.experiment.workload.wants_prefill() && !is_used) {
            host.begin_writing("prefill", u64::from(capacity));
            prefill(host)?;
        }
        let precondition = run.precondition.pages(capacity).unwrap_or(0);
        if precondition > 0 {
            self.overwrite("precondition", precondition)?;
        }
        Ok(())
    }

    fn overwrite(&mut self, phase: &'static str, pages: u64) -> Result<(), Stop> {
        self.host.finish()?;
        self.host.begin_writing(phase, pages);
        let config = overwrites(self.experiment);
        let (drive, seed) = (&self.experiment.drive, self.experiment.seed);
        Generator::new(&config, &HostConfig::default(), drive, seed)?.issue(&mut self.host)
    }

    fn issue(&mut self, issuer: &mut dyn Issuer, pacing: Pacing) -> Result<EndedBy, Stop> {
        let capacity = self.host.drive.logical_units();
        if !self.is_past(Point::WarmUp) {
            self.warm_up(issuer, pacing)?;
        }
        let (run, host) = (&self.experiment.run, &mut self.host);
        let default = (!run.until_worn()).then_some(Amount::Capacities(1.0));
        let measure = run.measure.or(default).and_then(|amount| amount.pages(capacity));
        host.measure_from_now(measure)?;
        issuer.begin_measuring();
        let issued = issuer.issue(host);
        self.file_system = issuer.file_system();
        issued?;
        Ok(EndedBy::Measure)
    }

    fn warm_up(&mut self, issuer: &mut dyn Issuer, pacing: Pacing) -> Result<(), Stop> {
        issuer.prepare(&mut self.host)?;
        let (run, host) = (&self.experiment.run, &mut self.host);
        let capacity = host.drive.logical_units();
        let warmup = run.warmup.pages(capacity).unwrap_or(0);
        host.set_pacing(pacing)?;
        host.begin("warm-up", Some(warmup));
        host.begin_intervals(host.now(), host.queue.in_flight() as u32);
        issuer.issue(host)?;
        if let Some(steady) = &mut self.steady {
            // Rounds follow without a break: each starts with the requests that the round before left
            // outstanding.
            let round = steady.interval.pages(capacity).unwrap_or(0).max(1);
            while !steady.reached && steady.rounds < run.steady_rounds {
                host.begin("settling", Some(round));
                let start = RoundStart::of(&*host.drive, host.now());
                issuer.issue(host)?;
                steady.add(&start, &*host.drive, host.now());
            }
        }
        match Point::before_measuring(self.experiment) {
            Point::WarmUp => self.save(Point::WarmUp, Some(issuer)),
            _ => Ok(()),
        }
    }

    fn run_jobs(&mut self, mut jobs: Box<Jobs>) -> Result<EndedBy, Stop> {
        if !self.is_past(Point::WarmUp) {
            let warm = self.warm_up_jobs(&mut jobs);
            // A partial result still lists the jobs.
            if warm.is_err() {
                self.jobs = Some(jobs);
                return warm.map(|()| EndedBy::Measure);
            }
        }
        let (run, host) = (&self.experiment.run, &mut self.host);
        let capacity = host.drive.logical_units();
        let jobs = self.jobs.insert(jobs);
        let is_bounded = run.until_worn() || jobs.have_ends();
        let default = (!is_bounded).then_some(Amount::Capacities(1.0));
        let measure = run.measure.or(default).map_or(Limit::default(), |amount| Limit::of(amount, capacity));
        let now = jobs.now();
        host.close_interval(now, jobs.backlog(now));
        host.begin_measuring(now, measure.pages, measure.ns)?;
        // A run from a state has no interval series yet, because the state does not contain earlier
        // intervals.
        host.begin_intervals(now, jobs.outstanding());
        jobs.measure();
        let ended = jobs.run(host, measure.ns);
        jobs.end_measuring(host);
        ended?;
        Ok(EndedBy::Measure)
    }

    fn warm_up_jobs(&mut self, jobs: &mut Jobs) -> Result<(), Stop> {
        let (run, host) = (&self.experiment.run, &mut self.host);
        let capacity = host.drive.logical_units();
        host.finish()?;
        jobs.start(host.now());
        host.begin_intervals(host.now(), jobs.outstanding());
        let warmup = Limit::of(run.warmup, capacity);
        host.begin("warm-up", warmup.pages);
        host.ends_after(jobs.now(), warmup.ns);
        jobs.run(host, warmup.ns)?;
        if let Some(steady) = &mut self.steady {
            let round = Limit::of(steady.interval, capacity);
            while !steady.reached && steady.rounds < run.steady_rounds {
                host.begin("settling", round.pages);
                let start = RoundStart::of(&*host.drive, jobs.now());
                jobs.run(host, round.ns)?;
                steady.add(&start, &*host.drive, jobs.now());
            }
        }
        match Point::before_measuring(self.experiment) {
            Point::WarmUp => self.save(Point::WarmUp, Some(jobs)),
            _ => Ok(()),
        }
    }

    fn replay(&mut self, trace: &TraceConfig) -> Result<EndedBy, Stop> {
        self.host.finish()?;
        let replayed = self.trace.insert(Replayed::default());
        let takes_hints = self.experiment.drive.takes_hints();
        replay(&mut self.host, trace, &self.experiment.run, takes_hints, replayed)
    }
}
