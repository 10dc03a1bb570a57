//! `--perfetto` and `--events`: the drive's event log as files.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use clap::Args;
use strobe_cli::output::{Output, explained};
use strobe_lab::events::{self, EventFile};
use strobe_nand::EventLog;
use strobe_ssd::DriveConfig;
use strobe_types::StopFlag;

use super::options::OUTPUT;
use super::{Failure, output, signals};

#[derive(Args)]
pub(super) struct EventArgs {
    /// Write the drive's events of the measured window to FILE, or to standard output with "-", as a trace
    /// for https://ui.perfetto.dev. It has a track for each die and channel, the FTL and the host's commands.
    /// Only the first 2,000,000 events are recorded; they stay in memory until the run ends
    #[arg(long, value_name = "FILE|-", help_heading = OUTPUT)]
    perfetto: Option<String>,
    /// Write the same events to FILE as JSON, one per line: commands, flash operations, victims with their
    /// scores, blocks opened and erased, stalled writes
    #[arg(long, value_name = "FILE|-", help_heading = OUTPUT)]
    events: Option<String>,
}

pub(super) struct EventOutputs {
    log: EventLog,
    pub(super) perfetto: Option<Output>,
    pub(super) lines: Option<Output>,
}

impl EventArgs {
    /// Fails if an output is among `inputs`, or if the run has no timing.
    pub(super) fn outputs(&self, inputs: &[&Path], is_timed: bool) -> Result<EventOutputs, Failure> {
        let output = |option: &str, given: &Option<String>| {
            if given.is_some() && !is_timed {
                return Err(Failure::Request(anyhow::anyhow!(
                    "{option} needs timing, but run.timing = false; leave out {option}, or add --set run.timing=true"
                )));
            }
            given
                .as_deref()
                .map(|given| Output::new(option, given, inputs))
                .transpose()
                .map_err(Failure::from)
        };
        let (perfetto, lines) = (output("--perfetto", &self.perfetto)?, output("--events", &self.events)?);
        let is_on = perfetto.is_some() || lines.is_some();
        let log = if is_on { EventLog::new(EventLog::MOST) } else { EventLog::OFF };
        Ok(EventOutputs { log, perfetto, lines })
    }
}

impl EventOutputs {
    pub(super) fn log(&self) -> EventLog {
        self.log.clone()
    }

    pub(super) fn write(&self, drive: &DriveConfig) -> Result<(), Failure> {
        if !self.log.is_on() {
            return Ok(());
        }
        if signals::flag().is_raised() {
            // Writing can take as long as the run.
            output::note("note: no events were written: the run was interrupted");
            return Ok(());
        }
        let recorded = self.log.take();
        let file = EventFile { recorded: &recorded, drive };
        write(self.perfetto.as_ref(), |out| events::perfetto(file, out))?;
        write(self.lines.as_ref(), |out| events::lines(file, out))?;
        if let Some(warning) = events::warning(&recorded) {
            output::note(&format!("note: {warning}"));
        }
        Ok(())
    }
}

fn write(
    output: Option<&Output>,
    what: impl FnOnce(&mut BufWriter<Stoppable>) -> io::Result<()>,
) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    let sink = output.open()?;
    let file = Stoppable { out: sink.file()?, stop: signals::flag() };
    let mut out = BufWriter::with_capacity(1 << 16, file);
    match what(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(sink.complete()?),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::Run(anyhow::anyhow!("cannot write {}: {}", output.name(), explained(error))))
        }
    }
}

/// A file whose writes fail after a stop request, because writing gigabytes takes long.
pub(super) struct Stoppable {
    pub(super) out: File,
    pub(super) stop: StopFlag,
}

impl io::Write for Stoppable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_raised() { Err(io::Error::other("interrupted")) } else { self.out.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
