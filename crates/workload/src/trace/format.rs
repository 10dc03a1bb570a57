//! What a trace format is.

use super::input::Input;
use super::line::Source;
use super::{TraceError, TraceOptions};

/// A trace format that Strobe reads.
#[derive(Debug)]
pub struct Format {
    /// The name to ask for it.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// The columns in their order, with their units.
    pub columns: &'static str,
    /// Who writes it, and where it is described.
    pub source: &'static str,
    /// Whether [`TraceOptions::action`] has a meaning.
    pub takes_action: bool,
    /// Whether [`TraceOptions::time_unit_ns`] has a meaning.
    pub takes_time_unit: bool,
    /// Starts reading.
    pub(super) open: fn(Input, &TraceOptions) -> Box<dyn Source>,
}

impl Format {
    /// Refuses what this format would silently ignore.
    pub(super) fn check(&self, options: &TraceOptions) -> Result<(), TraceError> {
        let bad = |option, reason: String| Err(TraceError::BadOption { option, reason });
        if options.action.is_some() && !self.takes_action {
            return bad("action", format!("format {} has no actions; leave it out", self.name));
        }
        if options.time_unit_ns.is_some() && !self.takes_time_unit {
            return bad("time unit", format!("format {} has a fixed time unit; leave it out", self.name));
        }
        if options.time_unit_ns == Some(0) {
            return bad("time unit", "it must be at least 1 ns".into());
        }
        if options.device.as_deref() == Some("") {
            return bad("device", "the name is empty; give a device of the trace, or all".into());
        }
        Ok(())
    }
}
