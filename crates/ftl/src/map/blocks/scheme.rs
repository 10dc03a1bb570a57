//! Interface of the block-mapped schemes; `log_block.rs` is an example.

use strobe_nand::{Nand, When};
use strobe_types::Lpn;

use super::found::Found;
use super::sectors::{New, Sectors};
use crate::{CheckError, Done, Recovery, RecoveryError};

/// Policy of a block-mapped drive: places writes and chooses merges.
///
/// **The caller promises** to write only sectors of the drive. **The implementer promises** that the newest
/// version of every mapped sector is on flash after every call, and that [`Scheme::restore`] yields a sound
/// state after a power cut in any call.
pub(super) trait Scheme<N: Nand>: Sized {
    fn new(sectors: &Sectors<N>) -> Self;

    /// Writes one sector. Returns the time when it and the necessary merges are on flash.
    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done;

    /// Returns the time when the location of `lpn` is known.
    fn look_up(&self, _sectors: &mut Sectors<N>, now: When, _lpn: Lpn) -> When {
        now
    }

    fn restore(sectors: &mut Sectors<N>, found: Found, report: &mut Recovery) -> Result<Self, RecoveryError>;

    /// Returns the number of blocks that the tables name, each once.
    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError>;
}
