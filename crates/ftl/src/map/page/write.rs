//! Host writes: the stream of each unit, and collection where free space runs out.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::Ppa;

use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::core::streams::HOST;
use crate::map::page::core::write::fill_pages;
use crate::map::page::reclaim::Reclaimer;
use crate::place::{StreamId, WriteContext};
use crate::{Done, FtlError};

/// Callback that maps units just written: it gets them and the address of the first.
pub(super) type Settle<'a, N, V> = dyn FnMut(&mut Core<N, V>, &[Unit<<N as Nand>::Payload>], Ppa) + 'a;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Writes `units` of the host to the streams that the placement chooses and lets `settle` map each run of them.
    pub(super) fn write_host(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Core<N, V>, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        if self.separates_host() {
            return self.write_separated(now, context, units, &mut settle);
        }
        self.write_to(now, HOST, context.cause, units, settle)
    }

    /// Writes `units` of the host to `stream`.
    fn write_to(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Core<N, V>, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        if self.core.store.is_paged() {
            self.write_paged(now, stream, cause, units, &mut settle)
        } else {
            self.fill(now, stream, cause, units, settle)
        }
    }

    /// Writes `units` to the streams that the placement chooses for each of them.
    ///
    /// Commands may come together, and blocks are filled as if each had come alone: a unit is given its stream when all
    /// units before it are written, or have room in open blocks, as only a block that is opened makes room by
    /// relocation.
    #[inline(never)]
    pub(super) fn write_separated(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        settle: &mut Settle<'_, N, V>,
    ) -> Result<When, FtlError> {
        if let (Some(first), true) = (units.first(), self.core.policies.goes_by_tag()) {
            let named = self.core.stream_for(first.lpn, context, 0);
            let mut finished = now;
            for part in units.chunks(self.units_of_group()) {
                let stream = self.core.with_room(named, part.len() as u32);
                let done = self.write_to(now, stream, context.cause, part, &mut *settle)?;
                finished = self.core.nand.both(finished, done);
            }
            return Ok(finished);
        }
        self.core.policies.on_batch(units, context);
        if self.core.nand.geometry().units_per_page() > 1 {
            return self.write_by_stream(now, context, units, settle);
        }
        let mut finished = now;
        let mut rest = units;
        let mut stream = rest.first().map_or(HOST, |unit| self.core.stream_for(unit.lpn, context, 0));
        while !rest.is_empty() {
            let room = self.core.streams[stream].next_pages().map_or(1, |(_, pages)| pages as usize);
            let mut count = 1;
            let mut next = None;
            while count < rest.len().min(room) {
                let other = self.core.stream_among(rest, count, context);
                if other != stream {
                    next = Some(other);
                    break;
                }
                count += 1;
            }
            let (run, behind) = rest.split_at(count);
            let done = self.write_to(now, stream, context.cause, run, &mut *settle)?;
            finished = self.core.nand.both(finished, done);
            rest = behind;
            if let Some(unit) = rest.first() {
                stream = next.unwrap_or_else(|| self.core.stream_for(unit.lpn, context, 0));
            }
        }
        Ok(finished)
    }

    /// Units that a reclaim group takes at a time: all of a write where there is one group.
    fn units_of_group(&self) -> usize {
        let geometry = self.core.nand.geometry();
        if self.core.space.groups.count == 1 { usize::MAX } else { geometry.units_per_block() as usize }
    }

    /// [`PageMap::write_separated`] where a page has several units: each stream gets whole pages, and the units that are
    /// left over share pages of one of their streams.
    fn write_by_stream(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        settle: &mut Settle<'_, N, V>,
    ) -> Result<When, FtlError> {
        let mut placed: Vec<(StreamId, Unit<N::Payload>)> = units
            .iter()
            .enumerate()
            .map(|(at, unit)| (self.core.stream_among(units, at, context), unit.clone()))
            .collect();
        fill_pages(&mut placed, self.core.nand.geometry().units_per_page() as usize);
        let mut finished = now;
        for run in placed.chunk_by(|a, b| a.0 == b.0) {
            let units: Vec<_> = run.iter().map(|(_, unit)| unit.clone()).collect();
            let done = self.write_to(now, run[0].0, context.cause, &units, &mut *settle)?;
            finished = self.core.nand.both(finished, done);
        }
        Ok(finished)
    }
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// [`Core::write_pages`] with garbage collection where a block has to be opened and too few are erased.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        settle: impl FnMut(&mut Core<N, V>, &[Unit<N::Payload>], Ppa),
    ) -> Done {
        let Self { core, relocation, background } = self;
        let reclaim = |core: &mut Core<N, V>, now| Reclaimer { core, relocation, background }.collect(now);
        core.write_pages(now, stream, cause, units, reclaim, settle)
    }

    /// Writes `units` of the host, and collects a block after each page that leaves more than `ppm` millionths of
    /// garbage.
    pub(super) fn write_in_share(
        &mut self,
        now: When,
        units: &[Unit<N::Payload>],
        context: WriteContext,
        ppm: u32,
    ) -> Done {
        let mut finished = now;
        let per_page = self.core.nand.geometry().units_per_page() as usize;
        for page in units.chunks(per_page) {
            let written =
                self.write_host(now, context, page, |core, run, first| core.settle_host(run, first))?;
            let collected = self.reclaimer().collect_garbage(now, ppm)?;
            let both = self.core.nand.both(written, collected);
            finished = self.core.nand.both(finished, both);
        }
        if self.core.config.refresh.is_some() {
            self.reclaimer().refresh_if_due(&[]);
        }
        Ok(finished)
    }
}
