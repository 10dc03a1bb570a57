//! `--perfetto` and `--events`: what the drive did, as files.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use clap::Args;
use strobe_cli::output::Output;
use strobe_lab::events::{self, EventFile};
use strobe_nand::EventLog;
use strobe_ssd::DriveConfig;

use super::options::OUTPUT;
use super::{Failure, output};

/// Options of the event log.
#[derive(Args)]
pub(super) struct EventArgs {
    /// Write what the drive did in the measured window to FILE, or to standard output with "-": a trace for
    /// https://ui.perfetto.dev, with a track for each die and channel, the FTL and the host's commands. The first
    /// 2,000,000 events; they are kept in memory until the end of the run
    #[arg(long, value_name = "FILE|-", help_heading = OUTPUT)]
    perfetto: Option<String>,
    /// Write the same events to FILE as JSON, one a line: commands, flash operations, victims with their scores, blocks
    /// opened and erased, writes that had to wait
    #[arg(long, value_name = "FILE|-", help_heading = OUTPUT)]
    events: Option<String>,
}

/// Destinations of the event log.
pub(super) struct EventOutputs {
    log: EventLog,
    pub(super) perfetto: Option<Output>,
    pub(super) lines: Option<Output>,
}

impl EventArgs {
    /// Destinations that are asked for, none of which is one of `inputs`. Refused without times.
    pub(super) fn outputs(&self, inputs: &[&Path], is_timed: bool) -> Result<EventOutputs, Failure> {
        let output = |option: &str, given: &Option<String>| {
            if given.is_some() && !is_timed {
                return Err(Failure::Request(anyhow::anyhow!(
                    "{option}: events have times, and this run has none (run.timing = false); leave out {option}, or \
                     give times with --set run.timing=true"
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
    /// Log for the drive.
    pub(super) fn log(&self) -> EventLog {
        self.log.clone()
    }

    /// Writes the events of a run on `drive`.
    pub(super) fn write(&self, drive: &DriveConfig) -> Result<(), Failure> {
        if !self.log.is_on() {
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

/// Writes `output`, if there is one.
fn write(
    output: Option<&Output>,
    what: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    let sink = output.open()?;
    let mut out = BufWriter::with_capacity(1 << 16, sink.file()?);
    match what(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(sink.complete()?),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Run(anyhow::anyhow!("cannot write {}: {error}", output.name()))),
    }
}
