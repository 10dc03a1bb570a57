//! Reclamation: relocates data to make or keep free space. As free space shrinks:
//!
//! 1. Below the `high` watermark, background collection empties victims in steps. Less free space means more
//!    victims in progress.
//! 2. At the `low` watermark or below, host writes also stall while victims are in progress
//!    (`background/throttle.rs`).
//! 3. Below `min_free_blocks`, or with a block to retire, opening a block for host data stops the world
//!    (`collect.rs`). Background work is finished, and victims are relocated until enough blocks are erased.
//!    With background collection, this step serves only writes that cannot wait, find no victim in progress, or find
//!    a block to retire. Without background collection, it is the first step.
//! 4. A policy whose victims gain too little is overruled (`victim_bound.rs`): the victim is the block with
//!    the fewest valid units. Without an erased block for copies, the drive is at its end of life.
//!
//! With several reclaim groups, each has its own free space, thresholds and victims.
//!
//! | Threshold | Checked by |
//! |---|---|
//! | `high` | `collect_in_background`: after host writes and copies, and after each background step |
//! | `low` | `may_write`: before a write, while victims are in progress |
//! | `leaves_copies` | `may_write`, `fill`, `open_block`: before the host takes space that copies need |
//! | `min_free_blocks` | `may_write`: if the write would open blocks; `open_block`: before it opens one |
//!
//! [`relocate`] empties blocks for any [`Reason`].

pub(crate) mod background;
mod collect;
mod compact;
mod fold;
mod garbage;
mod refresh;
pub(crate) mod relocate;
pub(crate) mod victim_bound;

use strobe_nand::{Cause, Nand};
use strobe_types::Stored;

use self::background::Background;
use self::relocate::{Relocation, Relocator};
use super::core::Core;
use crate::gc::VictimPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) enum Reason {
    Collect,
    Wear,
    /// Too many reads of the block, or too long retention.
    Refresh,
    Fold,
    /// A block with invalid translation pages.
    Compact,
    /// A block with a failed program, which leaves service.
    Retire,
}

impl Reason {
    pub(crate) fn cause(self) -> Cause {
        if self == Self::Wear { Cause::Wear } else { Cause::Gc }
    }
}

pub(crate) struct Reclaimer<'a, N: Nand, V> {
    pub(crate) core: &'a mut Core<N, V>,
    pub(crate) relocation: &'a mut Relocation<N::Payload>,
    pub(crate) background: &'a mut Background,
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    #[inline(always)]
    pub(crate) fn relocator(&mut self) -> Relocator<'_, N, V> {
        Relocator { core: self.core, task: self.relocation, background: self.background }
    }
}
