//! Drives whose placement ("fk") knows the future writes of their trace.
//!
//! Records become requests exactly as in [`super::replay`].

use std::path::Path;

use strobe_ftl::{Fk, Future, FutureBuilder};
use strobe_ssd::{CopyMode, DriveBuilder, Range, SchemeName, Simulated, build};
use strobe_types::{Geometry, Lba, Lpn, Op, Request};
use strobe_workload::synthetic::Workload as _;
use strobe_workload::trace::TraceRecord;

use super::assemble::{Assembled, Assembler};
use super::phases::overwrites;
use super::replay::open_resolved;
use crate::RunError;
use crate::experiment::{Experiment, PacingName, TraceConfig, WorkloadConfig};
use crate::fit::Fitter;

pub(super) fn new_drive(
    experiment: &Experiment,
    timing: bool,
    seed: u64,
) -> Result<Box<dyn Simulated>, RunError> {
    if experiment.drive.ftl.placement.scheme != SchemeName::Fk {
        return Ok(build(&experiment.drive, timing, seed)?);
    }
    let builder = DriveBuilder::new(&experiment.drive, timing, seed)?;
    Ok(with_future(builder, experiment)?.build()?)
}

/// Adds the placement of `experiment` to `builder` if it uses the future of its trace. Without this call,
/// building a drive with such a placement fails.
pub fn with_future<'a>(
    builder: DriveBuilder<'a>,
    experiment: &Experiment,
) -> Result<DriveBuilder<'a>, RunError> {
    let placement = &experiment.drive.ftl.placement;
    let WorkloadConfig::Trace(config) = &experiment.workload else { return Ok(builder) };
    if placement.scheme != SchemeName::Fk {
        return Ok(builder);
    }
    if !experiment.power.is_steady() {
        return Err(RunError::PowerOfFuture);
    }
    let controller = &experiment.drive.controller;
    // A write cache would change the order of the writes that the placement has read.
    if controller.write_buffer_bytes > 0 || controller.nvram.bytes > 0 {
        return Err(RunError::CachedFuture);
    }
    if config.path == "-" || Path::new(&config.path).exists() && !Path::new(&config.path).is_file() {
        return Err(RunError::FutureTwice);
    }
    let (units, block_units) = (builder.logical_units(), builder.geometry().units_per_block());
    let future = Reading::of(experiment, builder.geometry(), units).read(experiment, config)?;
    let fk = Fk::new(placement.streams, units, block_units, future);
    Ok(builder.with_placement(Fk::layout(placement.streams), fk))
}

struct Reading<'a> {
    future: FutureBuilder,
    geometry: &'a Geometry,
    units: u32,
    /// True if a copy maps its destination to the source's flash and writes nothing.
    shares_copies: bool,
}

impl<'a> Reading<'a> {
    fn of(experiment: &Experiment, geometry: &'a Geometry, units: u32) -> Self {
        let shares_copies = experiment.drive.ftl.copy_mode == CopyMode::Logical;
        Self { future: FutureBuilder::new(units), geometry, units, shares_copies }
    }

    fn read(mut self, experiment: &Experiment, config: &TraceConfig) -> Result<Future, RunError> {
        self.before(experiment)?;
        self.future.begin_pass(config.repeat);
        self.pass(config)?;
        Ok(self.future.finish())
    }

    fn before(&mut self, experiment: &Experiment) -> Result<(), RunError> {
        let run = &experiment.run;
        if run.prefill.unwrap_or(experiment.workload.wants_prefill()) {
            (0..self.units).for_each(|unit| self.future.write(Lpn::new(unit)));
        }
        // Overwrites with the seed of the experiment, so the generator repeats their addresses.
        let writes = run.precondition.pages(self.units).unwrap_or(0) as usize;
        let mut requests = overwrites(experiment).build(experiment.drive.logical_bytes(), experiment.seed)?;
        let mut batch = Vec::new();
        for from in (0..writes).step_by(1024) {
            requests.fill(&mut batch, (writes - from).min(1024));
            batch.iter().for_each(|request| self.request(request));
        }
        Ok(())
    }

    fn pass(&mut self, config: &TraceConfig) -> Result<(), RunError> {
        let mut reader = open_resolved(config)?;
        let sectors = u64::from(self.units) << self.geometry.unit_shift();
        let mut fitter = Fitter::new(config.fit, config.late, sectors, config.pacing == PacingName::Open);
        let mut assembler = Assembler::new(config.trim_ranges);
        loop {
            let record: Option<TraceRecord> = reader.next().transpose()?;
            if let Some(command) = assembler.complete_before(record.as_ref()) {
                self.command(&command);
            }
            let Some(record) = record else { return Ok(()) };
            let misfit =
                |error| RunError::Fit { path: config.path.clone(), position: reader.position(), error };
            if Assembler::takes(&record) {
                assembler.take(&record, strobe_types::SimTime::ZERO, &mut fitter).map_err(misfit)?;
            } else {
                fitter.requests(&record).map_err(misfit)?.for_each(|request| self.request(&request));
            }
        }
    }

    fn request(&mut self, request: &Request) {
        match request.op {
            Op::Write => self.write(Range::new(request.lba, request.sectors)),
            Op::Trim => self.trim(Range::new(request.lba, request.sectors)),
            Op::Read | Op::Flush => {}
        }
    }

    fn command(&mut self, command: &Assembled) {
        let Some(mut to) = command.destination() else {
            return command.ranges().iter().for_each(|&range| self.trim(range));
        };
        for range in command.ranges() {
            // A logical copy programs nothing: the old data of its destination become invalid, as after a
            // trim.
            let copied = Range::new(to, range.sectors);
            if self.shares_copies {
                self.trim(copied)
            } else {
                self.write(copied)
            }
            to = Lba::new(to.get() + u64::from(range.sectors));
        }
    }

    /// A partial write of a unit writes the whole unit.
    fn write(&mut self, range: Range) {
        let units = self.geometry.units_touched(range.lba, range.sectors.into());
        units.for_each(|unit| self.future.write(Lpn::new(unit as u32)));
    }

    /// A partial trim of a unit has no effect.
    fn trim(&mut self, range: Range) {
        let Some((first, count)) = self.geometry.whole_units(range.lba, range.sectors) else { return };
        (0..count).for_each(|unit| self.future.trim(first.plus(unit)));
    }
}
