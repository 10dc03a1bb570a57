//! Files of the event log: what the drive did in the measured window, and what the mapping scheme decided and why.
//!
//! [`lines`] is one JSON object a line, [`perfetto`] a trace in the Chrome trace-event format, for <https://ui.perfetto.dev>
//! and other viewers.

mod lines;
mod perfetto;
mod tracks;

pub use lines::lines;
pub use perfetto::perfetto;

use strobe_nand::Recorded;
use strobe_ssd::DriveConfig;

/// Events of a run, and what of the drive has to be known to show them.
#[derive(Clone, Copy, Debug)]
pub struct EventFile<'a> {
    /// The events.
    pub recorded: &'a Recorded,
    /// The drive.
    pub drive: &'a DriveConfig,
}

impl EventFile<'_> {
    /// Victim policy, as the configuration names it.
    fn policy(&self) -> &str {
        &self.drive.ftl.gc.victim
    }
}

/// Warning about a log that was full before the window ended.
pub fn warning(recorded: &Recorded) -> Option<String> {
    recorded.is_cut_off.then(|| {
        format!(
            "the event log was full after {} events, {} ns into the measured window: later events are not in it; \
             measure less (run.measure) to have all of them",
            crate::numbers::count(recorded.events.len() as u64),
            recorded.until.since(recorded.from)
        )
    })
}
