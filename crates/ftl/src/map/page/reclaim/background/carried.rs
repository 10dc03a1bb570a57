//! Carried units: read from victims and not yet programmed. They wait until they fill pages of their stream.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::Ppa;

use super::copies::Copies;
use super::{PROGRAMMED, Victim};
use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::place::StreamId;

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Stream for the copy of `unit`.
    pub(super) fn stream_of_copy(&mut self, unit: Ppa, reason: Reason) -> StreamId {
        if let Some(translation) = self.core.store.paged()
            && translation.is_translation(self.core.owner_of(unit))
        {
            return self.core.streams.table.translation;
        }
        if reason == Reason::Wear {
            return self.core.streams.table.wear;
        }
        let block = self.core.nand().geometry().block_of(unit);
        if let Some(host) = self.core.stream_of_folded(block) {
            return host;
        }
        let first = self.core.streams.table.first_copy();
        if self.core.policies.moves_alike() {
            return first;
        }
        let from = self.core.copy_context(block);
        let lpn = self.core.owner_of(unit);
        self.core.policies.placement.as_mut().map_or(first, |placement| placement.for_copy(lpn, &from))
    }

    /// Programs carried units in rows: one page on each plane of a die, as one multi-plane operation. With
    /// `to_the_end`, also programs incomplete rows.
    pub(super) fn program_carried(&mut self, to_the_end: bool) -> Result<(), FtlError> {
        let per_page = self.core.nand().geometry().units_per_page() as usize;
        if to_the_end && per_page > 1 && self.core.policies.shares_pages() {
            // Left-over units of all streams move to the first stream with any, to share its pages.
            let mut to = None;
            for at in self.core.streams.table.copy_streams().map(StreamId::index) {
                let len = self.background.carried[at].len();
                let left = len % per_page;
                if left == 0 {
                    continue;
                }
                let first = *to.get_or_insert(at);
                if first != at {
                    let left = self.background.carried[at].split_off(len - left);
                    self.background.carried[first].extend(left);
                }
            }
        }
        (0..self.background.carried.len()).try_for_each(|at| self.program_carried_to(at, to_the_end))
    }

    fn program_carried_to(&mut self, at: usize, to_the_end: bool) -> Result<(), FtlError> {
        if self.background.carried[at].is_empty() {
            return Ok(());
        }
        let row = self.background.row_units as usize;
        let stream = StreamId::new(at as u8);
        // After an incomplete row, the next units complete it. Otherwise all later rows would be out of step.
        let per_page = self.core.nand().geometry().units_per_page();
        let left = (self.core.streams[stream].left_in_row() * per_page) as usize % row;
        let first = if left > 0 { left } else { row };
        if !to_the_end && self.background.carried[at].len() < first {
            return Ok(());
        }
        let mut carried = std::mem::take(&mut self.background.carried[at]);
        // Units that the host has overwritten since their read need no copy.
        let (blocks, victims) = (self.core.blocks(), &mut self.background.victims);
        let mut spared = std::mem::take(&mut self.background.spared);
        carried.retain(|&(ppa, number)| {
            let is_valid = blocks.validity.get(ppa);
            if !is_valid && let Some(victim) = victims.get_mut(number) {
                victim.carried -= 1;
                spared.push(number);
            }
            is_valid
        });
        let count = if to_the_end {
            carried.len()
        } else {
            carried.len().checked_sub(left).map_or(0, |behind| left + behind - behind % row)
        };
        let result = self.program_copies(stream, &carried[..count]);
        match result {
            Ok(()) => drop(carried.drain(..count)),
            // End of life: the units stay in their victims.
            Err(_) => carried.clear(),
        }
        self.background.carried[at] = carried;
        // An overwritten unit may have been the last one of its victim.
        for number in spared.drain(..) {
            self.finish_victim(number);
        }
        self.background.spared = spared;
        result
    }

    fn program_copies(&mut self, stream: StreamId, copies: &[(Ppa, u64)]) -> Result<(), FtlError> {
        if copies.is_empty() {
            return Ok(());
        }
        self.core.check_stop()?;
        let mut units = std::mem::take(&mut self.relocation.chunk);
        units.clear();
        for &(ppa, _) in copies {
            let lpn = self.core.owner_of(ppa);
            // On a large drive, the map entry may have left the processor's cache since the read.
            self.core.map().prefetch(lpn);
            units.push(Unit { lpn, payload: self.core.nand().payload(ppa) });
        }
        self.core.pass_losses_on(&units, copies.iter().map(|&(ppa, _)| ppa))?;
        let (number, entry) = self.background.copies.add();
        let Copies { mut runs, mut sources, mut of } = std::mem::take(entry);
        runs.clear();
        sources.clear();
        of.clear();
        sources.extend(copies.iter().map(|&(ppa, _)| ppa));
        let mut rest = sources.iter();
        let is_wear = self.core.policies.leveler.is_some() && stream == self.core.streams.table.wear;
        let cause = if is_wear { Cause::Wear } else { Cause::Gc };
        let done = self.core.write_pages(
            When::START,
            stream,
            cause,
            &units,
            |_, now| Ok(now),
            |core, run, to| {
                // The sources become invalid now, unlike in a relocation in one call, which has already
                // cleared the validity of all units.
                core.settle_copies(run, to, &mut rest, |core, source| {
                    core.release_source(source);
                });
                runs.push((to, run.len() as u32));
            },
        );
        units.clear();
        self.relocation.chunk = units;
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                self.background.copies.remove(number);
                return Err(error);
            }
        };
        // Units from the SLC cache count as folded, not as moved.
        let mut folded = 0;
        for &(_, victim) in copies {
            if let Some(entry) = self.background.victims.get_mut(victim) {
                folded += u64::from(self.core.is_cached(entry.block));
                entry.carried -= 1;
                if of.last() != Some(&victim) {
                    of.push(victim);
                }
            }
        }
        let moved = copies.len() as u64 - folded;
        match cause {
            Cause::Wear => self.core.stats.gc.wear_units_moved += moved,
            _ => self.core.stats.gc.units_moved += moved,
        }
        if folded > 0 {
            self.core.stats.slc().units_folded += folded;
        }
        of.sort_unstable();
        of.dedup();
        for &victim in &of {
            let Some(entry) = self.background.victims.get_mut(victim) else { continue };
            entry.programs += 1;
            entry.has_moved_data |= stream != self.core.streams.table.translation;
            entry.copied.push(done);
            self.update_credit(victim);
        }
        if let Some(entry) = self.background.copies.get_mut(number) {
            *entry = Copies { runs, sources, of };
        }
        self.core.watch(done, PROGRAMMED + number);
        Ok(())
    }

    /// Programs all carried units, with incomplete rows, if no victim will add more.
    pub(super) fn program_last(&mut self) {
        let brings = |victim: &Victim| {
            victim.next < victim.end || !victim.reading.is_empty() || !victim.order.is_empty()
        };
        let is_carrying = self.background.carried.iter().any(|carried| !carried.is_empty());
        let groups = self.core.space.groups;
        // An error is end of life; the next write reports it.
        if is_carrying && !self.background.victims.values().any(brings) {
            let _ = self.program_carried(true);
        } else if is_carrying && groups.count > 1 {
            // The units of a group wait for victims of that group only.
            for at in 0..self.background.carried.len() {
                let group = self.core.streams.table.group_of(StreamId::new(at as u8));
                let is_of_group = |victim: &&Victim| groups.of_block(victim.block) == group;
                if !self.background.victims.values().filter(is_of_group).any(brings) {
                    let _ = self.program_carried_to(at, true);
                }
            }
        }
    }
}
