//! Reclaim groups (FDP): the dies of a drive, divided evenly in the order of their numbers.
//!
//! Each group has separate streams, erased blocks and victims. Relocated units stay in their group. Without
//! reclaim groups, all dies form a single group.

use std::ops::Range;

use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::place::StreamId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) count: u32,
    planes: u32,
    blocks: u32,
}

impl Groups {
    /// Panics unless `count` divides the dies evenly.
    pub(crate) fn new(count: u32, geometry: &Geometry) -> Self {
        assert!(geometry.dies().is_multiple_of(count), "{count} reclaim groups do not divide the dies");
        Self { count, planes: geometry.planes() / count, blocks: geometry.blocks() / count }
    }

    pub(crate) fn planes(&self, group: u32) -> Range<u32> {
        group * self.planes..(group + 1) * self.planes
    }

    pub(crate) fn of_block(&self, block: BlockId) -> u32 {
        block.get() / self.blocks
    }

    pub(crate) fn blocks(&self, group: u32) -> Range<usize> {
        (group * self.blocks) as usize..((group + 1) * self.blocks) as usize
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Selects the group of `block` for free-space checks. True if another group was selected before.
    pub(crate) fn turn_to_group_of(&mut self, block: BlockId) -> bool {
        let group = self.space.groups.of_block(block);
        std::mem::replace(&mut self.space.group, group) != group
    }

    /// Number of data blocks in the smallest group, times the number of groups.
    pub(crate) fn usable_blocks(&self) -> u32 {
        let groups = self.space.groups;
        let mut usable = vec![0; groups.count as usize];
        for block in self.blocks.usable().filter(|&block| !self.is_reserved(block)) {
            usable[groups.of_block(block) as usize] += 1;
        }
        groups.count * usable.into_iter().min().unwrap_or(0)
    }

    /// Returns the host `stream` if its group can take `units` units. Otherwise returns the stream of the
    /// same handle in the group with the most space.
    pub(crate) fn stream_with_space(&mut self, stream: StreamId, units: u32) -> StreamId {
        let groups = self.space.groups;
        if groups.count == 1 {
            return stream;
        }
        let pages = units.div_ceil(self.nand.geometry().units_per_page());
        if self.streams[stream].holds(pages, self.streams.is_by_address) {
            return stream;
        }
        // Units that a group can take and still be collected. The capacities of all groups cover the logical
        // units plus one block per group (`Capacity::capacity_units`), so some group can take another block.
        let left = |group: u32| {
            let blocks = groups.blocks(group);
            let valid: u64 = self.blocks.valid[blocks.clone()].iter().map(|&valid| u64::from(valid)).sum();
            let is_usable = |state: &&BlockState| !matches!(state, BlockState::Meta | BlockState::Bad);
            let usable = self.blocks.states[blocks].iter().filter(is_usable).count() as u32;
            self.config.group_capacity_units(self.nand.geometry(), usable).saturating_sub(valid)
        };
        let own = self.streams.table.group_of(stream);
        if left(own) >= units.into() {
            return stream;
        }
        // Of equal groups, the one with the lowest number: `max_by_key` keeps the last.
        let most = (0..groups.count).rev().max_by_key(|&group| left(group)).unwrap_or(own);
        let handles = self.streams.table.host.len() as u32 / groups.count;
        let to = StreamId::new((most * handles + u32::from(stream.get()) % handles) as u8);
        if let Some(log) = self.streams.log.as_mut().filter(|_| most != own) {
            log.redirected(to, units);
        }
        to
    }
}
