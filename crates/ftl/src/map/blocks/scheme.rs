//! Decisions of a block-mapped scheme.

use strobe_nand::{Nand, When};
use strobe_types::Lpn;

use super::found::Found;
use super::sectors::{New, Sectors};
use crate::{CheckError, Done, Recovery, RecoveryError};

/// Policy of a block-mapped drive: the place of writes, and the choice of merges.
///
/// **The caller promises** to write sectors of the drive only. **The implementer promises** that the newest
/// version of every mapped sector is on flash after every call, and that whatever is found after a cut in
/// one (`Found`) makes a sound state again.
pub(super) trait Scheme<N: Nand>: Sized {
    /// With nothing written yet.
    fn new(sectors: &Sectors<N>) -> Self;

    /// Writes one sector; returns when it, and the merges it took, are on flash.
    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done;

    /// Performs the flash operations that locate `lpn`; returns when they are done.
    fn look_up(&self, _sectors: &mut Sectors<N>, now: When, _lpn: Lpn) -> When {
        now
    }

    /// The scheme for blocks found after a power cut.
    fn restore(sectors: &mut Sectors<N>, found: Found, report: &mut Recovery) -> Result<Self, RecoveryError>;

    /// Checks its own tables; returns how many blocks they name, each once.
    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError>;
}
