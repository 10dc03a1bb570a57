//! The bound on what one collection may move.
//!
//! A victim is worth its move only if it leaves more room than there was. Three things can take what it gives: units
//! that are all still valid, padding in the last page of its copies, and on a demand-paged drive the translation pages
//! that have to be told. A policy that keeps choosing such victims would go on forever while one host command waits.
//!
//! **The bound.** Let B be the blocks of the drive, U the units of a block, and V = 4 B + 1000.
//!
//! 1. Room counts units: those of erased blocks and of the pages left in open ones. Collection ends when it has as much as
//!    it was to gain, so R, the room it may still gain, is at most B U.
//! 2. Room that exceeds all that the same collection has had before exceeds it by one unit at least. That happens at most R
//!    times, and again after a block has left service, which happens at most B times.
//! 3. Between two such victims there are at most V others, or the collection ends with [`FtlError::NoProgress`].
//!
//! So a collection takes at most V (B + 1) (R + 1) victims and moves at most U times as many units, and a host command
//! causes one collection for each block that it opens. Moves of translation pages that are not victims
//! (`compact.rs`) end by themselves: each erases a block with an invalid translation page and makes none.
//!
//! **No run that makes progress meets it.** A policy that passes over the drive in turn has seen every block in B
//! victims, and one that chooses at random has missed all blocks with something to gain in 4 B + 1000 of them with a
//! probability below e⁻⁴ for a single such block. On a demand-paged drive translation pages are compacted after 8 victims,
//! and 4 for each plane, without a further erased block (`compact.rs`). That is sooner, as a plane has several blocks;
//! from then on a full victim costs nothing, and one with an invalid unit is headway.

use strobe_nand::Nand;

use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::reclaim::Reclaimer;

/// Progress of a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headway {
    /// The most room there has been.
    most: u64,
    /// Victims since then, and the valid units that they held.
    victims: u64,
    units: u64,
    /// Blocks that had left service, or were to, when it was last looked.
    lost: usize,
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// A collection that begins now.
    pub(crate) fn headway(&self) -> Headway {
        Headway { most: self.core.free_units(), victims: 0, units: 0, lost: self.lost_blocks() }
    }

    fn lost_blocks(&self) -> usize {
        self.core.stats.bad_block_host_writes.len() + self.core.blocks.retiring.len()
    }

    /// Counts `victims` with `valid` units together, which are about to be moved. An error if there are none, or if too many
    /// before them have left no more room than there was.
    pub(crate) fn count_victims(
        &self,
        headway: &mut Headway,
        victims: u32,
        valid: u32,
    ) -> Result<(), FtlError> {
        let room = self.core.free_units();
        if room > headway.most {
            *headway = Headway { most: room, victims: 0, units: 0, ..*headway };
        }
        let patience = 4 * u64::from(self.core.nand.geometry().blocks()) + 1000;
        if victims > 0 && headway.victims <= patience {
            headway.victims += u64::from(victims);
            headway.units += u64::from(valid);
            return Ok(());
        }
        // Of a block that is out of service the room is gone, however much the victims before have given.
        let lost = self.lost_blocks();
        if victims > 0 && lost > headway.lost {
            *headway = Headway { most: room, victims: 0, units: 0, lost };
            return Ok(());
        }
        Err(FtlError::NoProgress { victims: headway.victims, units: headway.units })
    }
}
