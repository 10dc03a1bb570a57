//! Description of a trace format.

use std::path::{Path, PathBuf};

use super::input::Input;
use super::line::Source;
use super::{Action, TraceError, TraceOptions, per_cpu};

/// A trace format that Strobe reads.
#[derive(Debug)]
pub struct Format {
    /// The name to ask for it.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// The columns in their order, with their units.
    pub columns: &'static str,
    /// Programs that write the format, and its documentation.
    pub source: &'static str,
    /// True if [`TraceOptions::action`] has a meaning.
    pub takes_action: bool,
    /// Nanoseconds per unit of its times, unless [`TraceOptions::time_unit_ns`] says otherwise.
    pub time_unit_ns: u64,
    /// Starts reading.
    pub(super) open: Open,
}

/// Starts the decoder of a format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Open {
    /// A trace is one file.
    One(fn(Input, Settings) -> Box<dyn Source>),
    /// A trace is one file for each CPU, or a single one.
    PerCpu(fn(Input, Vec<Input>, Settings) -> Box<dyn Source>),
}

/// [`TraceOptions`] with the defaults of the format filled in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) action: Action,
    /// Nanoseconds per unit of time.
    pub(super) unit_ns: u64,
}

impl Format {
    /// Refuses what this format would silently ignore.
    pub(super) fn check(&self, options: &TraceOptions) -> Result<(), TraceError> {
        let bad = |option, reason: String| Err(TraceError::BadOption { option, reason });
        if options.action.is_some() && !self.takes_action {
            return bad("action", format!("format {} has no actions; leave it out", self.name));
        }
        if options.time_unit_ns == Some(0) {
            return bad("time unit", "it must be at least 1 ns".into());
        }
        if options.device.as_deref() == Some("") {
            return bad("device", "the name is empty; give a device of the trace, or all".into());
        }
        Ok(())
    }

    /// The decoder of a trace of one file, or of `more` for a format of per-CPU files.
    pub(super) fn decoder(&self, input: Input, more: Vec<Input>, options: &TraceOptions) -> Box<dyn Source> {
        let settings = Settings {
            action: options.action.unwrap_or_default(),
            unit_ns: options.time_unit_ns.unwrap_or(self.time_unit_ns),
        };
        match self.open {
            Open::One(open) => open(input, settings),
            Open::PerCpu(open) => open(input, more, settings),
        }
    }

    /// The files of the trace at `path`, at least one.
    pub(super) fn files(&self, path: &Path) -> Vec<PathBuf> {
        match self.open {
            Open::One(_) => vec![path.to_path_buf()],
            Open::PerCpu(_) => per_cpu::files(path),
        }
    }
}
