//! Reclamation: everything that relocates data to make or keep free space.
//!
//! As free space runs out, in order:
//!
//! 1. With collection in the background, below the soft watermark `background/` empties victims in steps, the more at
//!    once the less free space there is.
//! 2. With collection in the background, below the pace watermark host writes stall while victims are under way
//!    (`background/throttle.rs`).
//! 3. Below `min_free_blocks` a write that needs a block and cannot wait has `collect.rs` stop the world: what is under
//!    way is finished, and victims are relocated until enough blocks are erased. Without collection in the background
//!    this is the only step.
//! 4. A collection of 4 · blocks + 1000 victims without gain ends with an error (`headway.rs`); so does one without an
//!    erased block left for copies.
//!
//! [`relocate`] empties blocks, for whatever [`Reason`].

pub(crate) mod background;
mod collect;
mod compact;
mod fold;
mod garbage;
mod headway;
mod refresh;
pub(crate) mod relocate;

use strobe_nand::{Cause, Nand};

use self::background::Background;
use self::relocate::{Relocation, Relocator};
use super::core::Core;
use crate::gc::VictimPolicy;

/// Reason of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Room for new data: garbage collection.
    Collect,
    /// A victim that was begun in the background, and cannot wait any longer.
    Finish,
    /// A block that is worn too little, for static wear levelling.
    Wear,
    /// A block that has been read too often, or has lain too long.
    Refresh,
    /// A block of the SLC cache.
    Fold,
    /// Translation pages that belong together.
    Compact,
    /// A block with a failed program, which leaves service.
    Retire,
}

impl Reason {
    /// Cause under which its flash operations are counted.
    pub(crate) fn cause(self) -> Cause {
        if self == Self::Wear { Cause::Wear } else { Cause::Gc }
    }
}

/// Reclamation of free space on `core`: garbage collection and everything else that relocates data.
pub(crate) struct Reclaimer<'a, N: Nand, V> {
    pub(crate) core: &'a mut Core<N, V>,
    pub(crate) relocation: &'a mut Relocation<N::Payload>,
    pub(crate) background: &'a mut Background,
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Relocation of blocks of this drive.
    #[inline(always)]
    pub(crate) fn relocator(&mut self) -> Relocator<'_, N, V> {
        Relocator { core: self.core, task: self.relocation, background: self.background }
    }
}
