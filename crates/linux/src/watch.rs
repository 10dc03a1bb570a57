use strobe_ssd::{Command, Simulated};
use strobe_types::SimTime;

use crate::job::Sample;

/// Observer of a guest's requests and, at chosen times, of its drive. All times are drive times.
pub trait Watch {
    /// Time of the next observation.
    fn due(&self) -> SimTime;

    /// Observes the drive at [`due`](Self::due), after all earlier events.
    fn observe(&mut self, drive: &dyn Simulated);

    /// Reports a submitted request: `commands` of one kind, completed together.
    fn sent(&mut self, now: SimTime, tag: u64, commands: &[Command<'_>]);

    /// Reports the completion of a request.
    fn complete(&mut self, at: SimTime, tag: u64, is_ok: bool);

    /// Reports a reached mark.
    fn mark(&mut self, now: SimTime, name: &str, drive: &dyn Simulated);

    /// Reports kernel counters of the guest.
    fn sample(&mut self, now: SimTime, sample: &Sample);
}
