//! Host writes to a drive with an SLC cache.

use strobe_nand::{Cause, Nand, Unit, When};

use crate::Done;
use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::write::Settle;
use crate::place::StreamId;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Writes `units`, which the placement assigns to the host `stream`, to the cache or past it.
    #[inline(never)]
    pub(super) fn write_cached(
        &mut self,
        now: When,
        host: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        settle: &mut Settle<'_, N, V>,
    ) -> Done {
        let cache = self.core.streams.table.cache_of(host);
        let per_page = self.core.nand().geometry().units_per_page();
        let (mut ready, mut finished, mut rest) = (now, now, units);
        while !rest.is_empty() {
            if self.core.cache_pages(cache) == 0 {
                ready = self.reclaimer().free_cache_blocks(ready)?;
            }
            // If the cache is still full, the write bypasses it.
            let (stream, pages) = match self.core.cache_pages(cache) {
                0 => (host, u32::MAX),
                pages => (cache, pages),
            };
            let pages = pages.min(self.pages_until_choice(stream));
            let count = rest.len().min(pages as usize * per_page as usize);
            let (run, behind) = rest.split_at(count);
            let done = self.fill(ready, stream, cause, run, &mut *settle)?;
            finished = self.core.both(finished, done);
            let stats = self.core.stats.slc();
            let counted = if stream == host { &mut stats.units_direct } else { &mut stats.units_cached };
            *counted += count as u64;
            rest = behind;
            // Without timing, no event starts folding.
            if !self.core.nand().is_timed() {
                self.reclaimer().fold_while_due()?;
            }
        }
        Ok(finished)
    }

    /// Number of pages that may be written to `stream` in one step.
    fn pages_until_choice(&self, stream: StreamId) -> u32 {
        // Without timing, a batch must fill and fold blocks exactly like single commands. A step thus ends at
        // a block boundary and at tick `look_at`.
        let Some(slc) = self.core.slc.as_ref().filter(|_| !self.core.nand().is_timed()) else {
            return u32::MAX;
        };
        let run = self.core.streams[stream].next_pages().map_or(1, |(_, pages)| pages);
        let units = u32::try_from(slc.look_at.saturating_sub(self.core.tick)).unwrap_or(u32::MAX);
        if self.core.streams.table.is_slc(stream) {
            return run;
        }
        // At tick `look_at`, the search for cache blocks without valid data is due again.
        run.min(units / self.core.nand().geometry().units_per_page()).max(1)
    }
}
