//! Background collection of several victims whose units the placement sorts together.
//!
//! 1. Victims are chosen until they gain a block, as in stop-the-world collection.
//! 2. The placement sorts their valid units. The first victim, the *leader*, holds the order.
//! 3. Steps of the leader read all these units in that order.
//! 4. Each victim leaves when its own units are moved. The next victims are chosen when all units are read.

use strobe_nand::{Cause, Nand, When};
use strobe_types::{BlockId, Ppa, Stored};

use super::READ;
use crate::gc::VictimPolicy;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::place::StreamId;

/// A unit to move to a stream, and the number of its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) struct Ordered {
    to: StreamId,
    unit: Ppa,
    of: u64,
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Begins to empty victims that together gain a block, unless units of earlier ones are still to be read.
    pub(super) fn begin_sorted(&mut self) {
        if self
            .background
            .victims
            .values()
            .any(|victim| !victim.order.is_empty() || !victim.reading.is_empty())
        {
            return;
        }
        let target = self.core.blocks().free.count() + 1;
        let valid = self.choose_victims(target);
        let blocks = std::mem::take(&mut self.relocation.victims);
        let (count, per_block) = (blocks.len() as u32, self.core.nand().geometry().units_per_block());
        let is_folding = blocks.first().is_some_and(|&block| self.core.is_cached(block));
        let gains = is_folding || valid + count * self.least_gain() <= count * per_block;
        self.relocation.victims = blocks;
        if count == 0 || !gains {
            self.put_victims_back();
            self.background.nothing_at[0] = self.core.tick;
            return;
        }
        let blocks = std::mem::take(&mut self.relocation.victims);
        let reason = if is_folding { Reason::Fold } else { Reason::Collect };
        let mut victims: Vec<(BlockId, u64)> =
            blocks.iter().map(|&block| (block, self.add_victim(block, reason))).collect();
        let leader = victims[0].1;
        victims.sort_unstable();
        let order = self.sort_units(&blocks, &victims);
        self.relocation.victims = blocks;
        for one in &order {
            if let Some(victim) = self.background.victims.get_mut(one.of) {
                victim.carried += 1;
            }
        }
        if let Some(victim) = self.background.victims.get_mut(leader) {
            victim.order = order;
        }
        self.background.leader = Some(leader);
        // Victims without a valid unit leave at once.
        for (_, number) in victims {
            self.read_on(number);
        }
    }

    /// Valid units of `blocks` in the placement's order, the first one last. `victims` has the numbers of the
    /// blocks, in order of blocks.
    fn sort_units(&mut self, blocks: &[BlockId], victims: &[(BlockId, u64)]) -> Vec<Ordered> {
        let mut task = std::mem::take(self.relocation);
        task.units.clear();
        task.runs.clear();
        let per_block = self.core.nand().geometry().units_per_block();
        for &block in blocks {
            let mut next = self.core.nand().geometry().first_unit(block);
            let end = next.plus(per_block);
            while let Some(unit) = self.core.blocks().validity.next(next, end) {
                task.units.push(unit);
                next = unit.plus(1);
            }
        }
        task.victims.extend_from_slice(blocks);
        let mut relocator = self.relocator();
        let data = relocator.put_data_first(&mut task);
        relocator.place_copies(data, &mut task);
        task.runs.push((self.core.streams.table.translation, task.units.len() - data));
        task.victims.clear();
        let streams = task.runs.iter().flat_map(|&(to, count)| std::iter::repeat_n(to, count));
        let geometry = self.core.nand().geometry();
        let number_of = |unit| {
            let block = geometry.block_of(unit);
            victims.binary_search_by_key(&block, |&(block, _)| block).map_or(0, |at| victims[at].1)
        };
        let mut order: Vec<Ordered> =
            streams.zip(&task.units).map(|(to, &unit)| Ordered { to, unit, of: number_of(unit) }).collect();
        order.reverse();
        *self.relocation = task;
        order
    }

    /// Reads the next units in the order of the leader `number`.
    pub(super) fn read_in_order(&mut self, number: u64) {
        // The leader reads as much as all its followers would on their own.
        let victims = self.background.victims.len() as u32;
        let is_ahead = self.background.copies.len() as u32 > Self::PROGRAMS_AHEAD * victims;
        let pages_most = self.background.read_pages * victims;
        // A host read waits for the reads of its die that are past their deadline. Units that follow each other in the
        // order are often on one die. The factor hardly matters: 1, 2 and 4 measured alike.
        let dies = self.core.nand().geometry().dies();
        let die_most = 4 * self.background.read_pages * victims.div_ceil(dies);
        let (mut die, mut on_die) = (None, 0);
        let Some(leader) = self.background.victims.get_mut(number) else { return };
        if !leader.reading.is_empty() || is_ahead {
            return;
        }
        let mut reading = std::mem::take(&mut leader.reading);
        let mut pages = std::mem::take(&mut self.background.pages);
        pages.clear();
        let geometry = self.core.nand().geometry();
        // Units of one page that follow each other in the order are read together.
        let mut from = 0;
        for one in leader.order.iter().rev().filter(|one| self.core.blocks().validity.get(one.unit)) {
            let page = geometry.page_of(one.unit);
            let is_next = reading.last().is_none_or(|&last| geometry.page_of(last) != page);
            if is_next {
                if let Some(&last) = reading.last() {
                    let wanted = self.core.nand().wanted(reading[from..].iter().copied());
                    pages.push((geometry.page_of(last), wanted));
                    from = reading.len();
                }
                let next = Some(geometry.die_of(geometry.block_of_page(page)));
                on_die = if next == die { on_die + 1 } else { 1 };
                die = next;
                if pages.len() as u32 == pages_most || on_die > die_most {
                    break;
                }
            }
            reading.push(one.unit);
        }
        if from < reading.len() {
            let wanted = self.core.nand().wanted(reading[from..].iter().copied());
            pages.push((geometry.page_of(reading[from]), wanted));
        }
        // Pages of several blocks are read at the same time.
        let per_block = geometry.pages_per_block();
        let runs = pages.chunk_by(|a, b| a.0.get() / per_block == b.0.get() / per_block);
        let whens: Vec<When> = runs.map(|run| self.core.read_pages(run, Cause::Gc).when).collect();
        let arrived = (!whens.is_empty()).then(|| self.core.all(&whens));
        self.background.pages = pages;
        leader.reading = reading;
        match arrived {
            Some(arrived) => self.core.watch(arrived, READ + number),
            None => {
                self.take_in_order(number);
                self.finish_victim(number);
            }
        }
    }

    /// Carries the units that have arrived. Units overwritten before their read leave the order.
    pub(super) fn take_in_order(&mut self, number: u64) {
        let Some(leader) = self.background.victims.get_mut(number) else { return };
        let mut reading = std::mem::take(&mut leader.reading);
        let mut order = std::mem::take(&mut leader.order);
        let mut spared = Vec::new();
        let mut arrived = reading.drain(..).peekable();
        while let Some(one) = order.pop_if(|one| arrived.peek().is_some() || !self.is_valid(one.unit)) {
            if arrived.next_if_eq(&one.unit).is_some() {
                self.background.carried[one.to.index()].push((one.unit, one.of));
            } else {
                spared.push(one.of);
            }
        }
        drop(arrived);
        for &of in &spared {
            if let Some(victim) = self.background.victims.get_mut(of) {
                victim.carried -= 1;
            }
        }
        if let Some(leader) = self.background.victims.get_mut(number) {
            (leader.reading, leader.order) = (reading, order);
        }
        spared.dedup();
        for of in spared {
            self.finish_victim(of);
        }
    }

    fn is_valid(&self, unit: Ppa) -> bool {
        self.core.blocks().validity.get(unit)
    }
}
