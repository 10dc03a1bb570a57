use strobe_types::State;

use super::host::{Host, Stop};
use crate::result::LfsBytes;

/// Issues the requests of a phase one after the other. The host's queue delays them by its pacing.
pub(super) trait Issuer: State {
    fn prepare(&mut self, _host: &mut Host<'_>) -> Result<(), Stop> {
        Ok(())
    }

    fn issue(&mut self, host: &mut Host<'_>) -> Result<(), Stop>;

    fn begin_measuring(&mut self) {}

    /// Counters of the file system since the window began; `None` without one.
    fn file_system(&self) -> Option<LfsBytes> {
        None
    }
}
