//! Somebody who looks at a guest's drive while it works.

use strobe_ssd::{Command, Simulated};
use strobe_types::SimTime;

use crate::job::Sample;

/// Hears of every request of a guest, and looks at its drive at times of its choice. All times are the drive's.
pub trait Watch {
    /// When it wants to look next.
    fn due(&self) -> SimTime;

    /// The drive at [`due`](Self::due): all that happens before has happened.
    fn look(&mut self, drive: &dyn Simulated);

    /// A request was handed over: `commands` of one kind, answered together.
    fn sent(&mut self, now: SimTime, tag: u64, commands: &[Command<'_>]);

    /// A request that was handed over is complete.
    fn complete(&mut self, at: SimTime, tag: u64, is_ok: bool);

    /// A mark was reached.
    fn mark(&mut self, now: SimTime, name: &str, drive: &dyn Simulated);

    /// Receives kernel counters of the guest.
    fn sample(&mut self, now: SimTime, sample: &Sample);
}
