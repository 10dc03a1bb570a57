//! Host writes: stream selection, and collection when free space runs out.

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

pub(super) type Settle<'a, N, V> = dyn FnMut(&mut Core<N, V>, &[Unit<<N as Nand>::Payload>], Ppa) + 'a;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
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
        } else if self.core.slc.is_some() && cause != Cause::Copy {
            self.write_cached(now, stream, cause, units, &mut settle)
        } else {
            self.fill(now, stream, cause, units, settle)
        }
    }

    /// Writes `units` to the streams that the placement chooses.
    #[inline(never)]
    pub(super) fn write_separated(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        settle: &mut Settle<'_, N, V>,
    ) -> Result<When, FtlError> {
        if let (Some(first), true) = (units.first(), self.core.policies.goes_by_tag()) {
            // All units have the same tag, so one choice serves the whole write.
            let named = self.core.stream_for(first.lpn, context, 0);
            let mut finished = now;
            for part in units.chunks(self.units_of_group()) {
                let stream = self.core.stream_with_space(named, part.len() as u32);
                let done = self.write_to(now, stream, context.cause, part, &mut *settle)?;
                finished = self.core.both(finished, done);
            }
            return Ok(finished);
        }
        // With one unit per page, a batch of commands fills blocks exactly like single commands.
        self.core.policies.on_batch(units, context);
        if self.core.nand().geometry().units_per_page() > 1 {
            return self.write_by_stream(now, context, units, settle);
        }
        let mut finished = now;
        let mut rest = units;
        let mut stream = rest.first().map_or(HOST, |unit| self.core.stream_for(unit.lpn, context, 0));
        while !rest.is_empty() {
            let pages_left = self.pages_left_of(stream);
            // The run grows while units share the stream and fit into its open block. A write beyond that
            // block opens another one and may relocate data, which can change the placement's later choices.
            let mut count = 1;
            let mut next = None;
            while count < rest.len().min(pages_left) {
                let other = self.core.stream_among(rest, count, context);
                if other != stream {
                    // The placement is asked once per unit: the next run uses this answer.
                    next = Some(other);
                    break;
                }
                count += 1;
            }
            let (run, behind) = rest.split_at(count);
            let done = self.write_to(now, stream, context.cause, run, &mut *settle)?;
            finished = self.core.both(finished, done);
            rest = behind;
            if let Some(unit) = rest.first() {
                stream = next.unwrap_or_else(|| self.core.stream_for(unit.lpn, context, 0));
            }
        }
        Ok(finished)
    }

    /// Pages left in the open blocks that a write to the host `stream` may go to; at least 1.
    fn pages_left_of(&self, stream: StreamId) -> usize {
        let left = |stream: StreamId| self.core.streams[stream].next_pages().map_or(1, |(_, pages)| pages);
        let cache = self.core.slc.as_ref().map(|_| self.core.streams.table.cache_of(stream));
        cache.map_or(u32::MAX, left).min(left(stream)) as usize
    }

    /// Number of units written between two checks of a reclaim group's free space.
    fn units_of_group(&self) -> usize {
        let geometry = self.core.nand().geometry();
        if self.core.space.groups.count == 1 { usize::MAX } else { geometry.units_per_block() as usize }
    }

    /// Writes `units` if pages have several units. Each stream gets whole pages. Left-over units go to the
    /// lowest of these streams.
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
        fill_pages(&mut placed, self.core.nand().geometry().units_per_page() as usize);
        let mut finished = now;
        for run in placed.chunk_by(|a, b| a.0 == b.0) {
            let units: Vec<_> = run.iter().map(|(_, unit)| unit.clone()).collect();
            let done = self.write_to(now, run[0].0, context.cause, &units, &mut *settle)?;
            finished = self.core.both(finished, done);
        }
        Ok(finished)
    }
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// [`Core::write_pages`] that may collect garbage. Not for copies of victims.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        settle: impl FnMut(&mut Core<N, V>, &[Unit<N::Payload>], Ppa),
    ) -> Done {
        let mut now = now;
        // Victims in progress must never run out of space for their copies.
        // Without a block to open, the host takes space from copies only on a stream that they share.
        let group = self.core.streams.table.group_of(stream);
        if N::TIMED
            && self.core.streams.table.is_target(stream)
            && !self.core.leaves_copies(group, self.core.erased(group))
        {
            self.core.space.group = group;
            now = self.reclaimer().collect(now)?;
        }
        let Self { core, relocation, background } = self;
        let reclaim = |core: &mut Core<N, V>, now| Reclaimer { core, relocation, background }.collect(now);
        core.write_pages(now, stream, cause, units, reclaim, settle)
    }

    /// Writes `units` page by page. After each page, collects one block if garbage exceeds `ppm` millionths.
    pub(super) fn write_in_share(
        &mut self,
        now: When,
        units: &[Unit<N::Payload>],
        context: WriteContext,
        ppm: u32,
    ) -> Done {
        let mut finished = now;
        let per_page = self.core.nand().geometry().units_per_page() as usize;
        for page in units.chunks(per_page) {
            let written =
                self.write_host(now, context, page, |core, run, first| core.settle_host(run, first))?;
            let collected = self.reclaimer().collect_garbage(now, ppm)?;
            let both = self.core.both(written, collected);
            finished = self.core.both(finished, both);
        }
        if self.core.config.refresh.is_some() {
            self.reclaimer().refresh_if_due(&[]);
        }
        Ok(finished)
    }
}
