//! Bound on the victims of one collection.
//!
//! A victim gains space only if it frees more than its copies take. Three things can consume the gain: fully
//! valid contents, padding in the last page of the copies, and updates of translation pages on a demand-paged
//! drive. If a policy kept choosing such victims, the collection would never end while a host command waits.
//!
//! **The bound.** Let B be the blocks of the drive, P the pages of a block, and n the blocks to gain. A
//! collection may move V = 2 B + n P victims of the policy's choice, plus P for each block that leaves
//! service in the meantime.
//!
//! 1. The policy chooses V victims. A policy that cycles over the drive has chosen every block twice by then.
//!    A policy that gains a page per victim has finished by then.
//! 2. If n blocks are still not gained, the policy is overruled until the collection ends. The victim is now
//!    the closed block with the fewest valid units. `capacity.rs` proves that this block has a page to gain.
//!    On a demand-paged drive, translation pages are compacted before the next victim (`compact.rs`), so n P
//!    victims suffice.
//! 3. If V such victims do not suffice either, the collection ends with [`FtlError::NoProgress`]: more blocks
//!    have failed than the reserve covers.
//!
//! A collection thus moves at most 2 V blocks. A host command causes at most one collection per opened block.
//! On a demand-paged drive, a host command also causes at most one per fetched map entry, and a flush one per
//! changed translation page. Compaction also ends: each step erases a block with invalid translation pages
//! and makes no page invalid.

use strobe_nand::Nand;
use strobe_types::BlockId;

use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::reclaim::Reclaimer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chooser {
    Policy,
    /// Block with the fewest valid units, once the policy has used up its V victims or finds none.
    Emptiest,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimBound {
    pub(crate) chooser: Chooser,
    /// Number of this chooser's victims so far.
    victims: u64,
    /// Number of valid units in these victims.
    units: u64,
    wanted: u32,
    /// Number of bad and retiring blocks when the collection began.
    lost: usize,
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    pub(crate) fn victim_bound(&self, target: u32) -> VictimBound {
        let wanted = target.saturating_sub(self.core.free_blocks());
        VictimBound { chooser: Chooser::Policy, victims: 0, units: 0, wanted, lost: self.lost_blocks() }
    }

    fn lost_blocks(&self) -> usize {
        self.core.stats.bad_block_host_writes.len() + self.core.blocks().retiring.len()
    }

    /// Counts `victims`, with `valid` units together, before they are moved. False if they must not be moved,
    /// as the policy is overruled from now on. Fails if it already was.
    pub(crate) fn count_victims(
        &self,
        victim_bound: &mut VictimBound,
        victims: u32,
        valid: u32,
    ) -> Result<bool, FtlError> {
        let geometry = self.core.nand().geometry();
        let lost = self.lost_blocks().saturating_sub(victim_bound.lost) as u64;
        let pages = (u64::from(victim_bound.wanted) + lost) * u64::from(geometry.pages_per_block());
        let most = 2 * u64::from(geometry.blocks()) + pages;
        if victims > 0 && victim_bound.victims < most {
            victim_bound.victims += u64::from(victims);
            victim_bound.units += u64::from(valid);
            return Ok(true);
        }
        if victim_bound.chooser == Chooser::Emptiest {
            return Err(FtlError::NoProgress { victims: victim_bound.victims, units: victim_bound.units });
        }
        *victim_bound = VictimBound { chooser: Chooser::Emptiest, victims: 0, units: 0, ..*victim_bound };
        Ok(false)
    }

    /// Takes the block with the fewest valid units, regardless of the policy. Returns its valid units.
    pub(crate) fn choose_emptiest(&mut self) -> u32 {
        self.relocation.victims.clear();
        let Some(block) = self.emptiest() else { return 0 };
        self.core.take(block);
        self.core.stats.gc.overruled += 1;
        self.relocation.victims.push(block);
        self.core.blocks().valid[block.index()]
    }

    /// Oldest dynamic SLC block, else the closed block with the fewest valid units in the selected reclaim
    /// group.
    pub(crate) fn emptiest(&self) -> Option<BlockId> {
        let core = &*self.core;
        // Folding a dynamic SLC block gains more than half a block.
        if let Some(block) = core.slc.as_ref().and_then(|slc| slc.first_dynamic()) {
            return Some(block);
        }
        let closed = core.blocks().usable().filter(|&block| {
            core.blocks().state(block) == BlockState::Closed
                && core.space.groups.of_block(block) == core.space.group
        });
        closed.min_by_key(|block| core.blocks().valid[block.index()])
    }
}
