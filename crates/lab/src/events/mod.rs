//! Files of the event log: the drive's actions in the measured window, and the decisions of the mapping
//! scheme with their reasons.
//!
//! [`lines`] writes one JSON object a line, [`perfetto`] a trace in the Chrome trace-event format, for
//! <https://ui.perfetto.dev> and other viewers.

mod lines;
mod perfetto;
mod tracks;

pub use lines::lines;
pub use perfetto::perfetto;

use strobe_nand::Recorded;
use strobe_ssd::DriveConfig;

/// Events of a run, and the drive that they belong to.
#[derive(Clone, Copy, Debug)]
pub struct EventFile<'a> {
    /// Recorded events.
    pub recorded: &'a Recorded,
    /// Configuration of the drive.
    pub drive: &'a DriveConfig,
}

impl EventFile<'_> {
    fn policy(&self) -> &str {
        &self.drive.ftl.gc.victim
    }
}

/// Warning about a log that was full before the window ended.
pub fn warning(recorded: &Recorded) -> Option<String> {
    recorded.is_cut_off.then(|| {
        format!(
            "the event log was full after {} events, {} ns into the measured window: later events are \
             missing; use a shorter run.measure to record all of them",
            crate::numbers::count(recorded.events.len() as u64),
            recorded.until.since(recorded.from)
        )
    })
}
