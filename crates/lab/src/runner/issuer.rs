//! Closed-loop issuers of requests.

use strobe_types::State;

use super::host::{Host, Stop};
use crate::result::LfsBytes;

/// Issues requests as fast as the drive takes them. It sees the host alone, whose queue is paced for it.
pub(super) trait Issuer: State {
    /// Puts on the drive what has to be there before the first request.
    fn prepare(&mut self, _host: &mut Host<'_>) -> Result<(), Stop> {
        Ok(())
    }

    /// Issues requests until the phase at hand has its host pages, or the drive stops.
    fn issue(&mut self, host: &mut Host<'_>) -> Result<(), Stop>;

    /// The measured window begins.
    fn begin_measuring(&mut self) {}

    /// Counters of the file system since the window began; `None` for other issuers.
    fn file_system(&self) -> Option<LfsBytes> {
        None
    }
}
