use std::path::{Path, PathBuf};

use super::input::Input;
use super::line::Source;
use super::{Action, TraceError, TraceOptions, per_cpu};

/// A readable trace format.
#[derive(Debug)]
pub struct Format {
    /// Name for selection.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Columns in order, with units.
    pub columns: &'static str,
    /// Programs that write the format, and its documentation.
    pub source: &'static str,
    /// True if [`TraceOptions::action`] applies.
    pub takes_action: bool,
    /// Default nanoseconds per unit of time; [`TraceOptions::time_unit_ns`] overrides it.
    pub time_unit_ns: u64,
    pub(super) open: Open,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Open {
    /// One file per trace.
    One(fn(Input, Settings) -> Box<dyn Source>),
    /// One file per CPU, or a single one.
    PerCpu(fn(Input, Vec<Input>, Settings) -> Box<dyn Source>),
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) action: Action,
    pub(super) unit_ns: u64,
    pub(super) columns: Option<String>,
}

impl Format {
    pub(super) fn check(&self, options: &TraceOptions) -> Result<(), TraceError> {
        let bad = |option, reason: String| Err(TraceError::BadOption { option, reason });
        if options.action.is_some() && !self.takes_action {
            return bad("action", format!("format {} has no actions; leave it out", self.name));
        }
        if options.time_unit_ns == Some(0) {
            return bad("time unit", "it must be at least 1 ns".into());
        }
        let names = options.placed.iter().map(|device| device.name.as_str());
        if names.chain(options.device.as_deref()).any(str::is_empty) {
            return bad("device", "the name is empty; give a device of the trace, or all".into());
        }
        Ok(())
    }

    pub(super) fn decoder(&self, input: Input, more: Vec<Input>, options: &TraceOptions) -> Box<dyn Source> {
        let settings = Settings {
            action: options.action.unwrap_or_default(),
            unit_ns: options.time_unit_ns.unwrap_or(self.time_unit_ns),
            columns: options.columns.clone(),
        };
        match self.open {
            Open::One(open) => open(input, settings),
            Open::PerCpu(open) => open(input, more, settings),
        }
    }

    pub(super) fn files(&self, path: &Path) -> Vec<PathBuf> {
        match self.open {
            Open::One(_) => vec![path.to_path_buf()],
            Open::PerCpu(_) => per_cpu::files(path),
        }
    }
}
