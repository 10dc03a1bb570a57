//! Reclaim groups (FDP): the dies of a drive, divided evenly in the order of their numbers.
//!
//! Each group has its own streams, erased blocks and victims. What is relocated stays in its group. Without groups all dies
//! are one.

use std::ops::Range;

use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::place::StreamId;

/// The reclaim groups of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) count: u32,
    /// Planes and blocks of each.
    planes: u32,
    blocks: u32,
}

impl Groups {
    /// `count` groups of a drive, whose dies they divide.
    pub(crate) fn new(count: u32, geometry: &Geometry) -> Self {
        assert!(geometry.dies().is_multiple_of(count), "{count} reclaim groups do not divide the dies");
        Self { count, planes: geometry.planes() / count, blocks: geometry.blocks() / count }
    }

    /// The planes of `group`.
    pub(crate) fn planes(&self, group: u32) -> Range<u32> {
        group * self.planes..(group + 1) * self.planes
    }

    /// The group of `block`.
    pub(crate) fn of_block(&self, block: BlockId) -> u32 {
        block.get() / self.blocks
    }

    /// The blocks of `group`, as indices.
    pub(crate) fn blocks(&self, group: u32) -> Range<usize> {
        (group * self.blocks) as usize..((group + 1) * self.blocks) as usize
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Looks at the free space of the group of `block` from now on; false if that is what was looked at.
    pub(crate) fn turn_to_group_of(&mut self, block: BlockId) -> bool {
        let group = self.space.groups.of_block(block);
        std::mem::replace(&mut self.space.group, group) != group
    }

    /// Blocks for data of the smallest group, times the groups.
    pub(crate) fn usable_blocks(&self) -> u32 {
        let groups = self.space.groups;
        let mut usable = vec![0; groups.count as usize];
        for block in self.blocks.usable().filter(|&block| !self.is_reserved(block)) {
            usable[groups.of_block(block) as usize] += 1;
        }
        groups.count * usable.into_iter().min().unwrap_or(0)
    }

    /// `stream` of the host, or that of the same handle in the group with the most room, if its own has none for `units`
    /// more units.
    ///
    /// A host may write more to a group than that holds. A group that holds no more than its share of
    /// [`Capacity::room_units`](crate::Capacity::room_units) can always be collected, and the shares of all groups are more
    /// than the logical units and a block for each group: some group takes a block more.
    pub(crate) fn with_room(&mut self, stream: StreamId, units: u32) -> StreamId {
        let groups = self.space.groups;
        let room = self.streams[stream].room_pages() * self.nand.geometry().units_per_page();
        if groups.count == 1 || room >= units {
            return stream;
        }
        let left = |group: u32| {
            let blocks = groups.blocks(group);
            let valid: u64 = self.blocks.valid[blocks.clone()].iter().map(|&valid| u64::from(valid)).sum();
            let is_usable = |state: &&BlockState| !matches!(state, BlockState::Meta | BlockState::Bad);
            let usable = self.blocks.states[blocks].iter().filter(is_usable).count() as u32;
            self.config.room_of_group(self.nand.geometry(), usable).saturating_sub(valid)
        };
        let own = self.streams.table.group_of(stream);
        if left(own) >= units.into() {
            return stream;
        }
        // Of equals the lowest group.
        let most = (0..groups.count).rev().max_by_key(|&group| left(group)).unwrap_or(own);
        let handles = self.streams.table.host.len() as u32 / groups.count;
        let to = StreamId::new((most * handles + u32::from(stream.get()) % handles) as u8);
        if let Some(log) = self.streams.log.as_mut().filter(|_| most != own) {
            log.redirected(to, units);
        }
        to
    }
}
