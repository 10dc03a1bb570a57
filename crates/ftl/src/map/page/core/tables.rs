//! Reads and programs of translation pages.

use strobe_nand::{Cause, Nand, Payload, Unit, When};
use strobe_types::{Lpn, Ppa};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::{Done, FtlError};

/// Reason for programming a translation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// Eviction of this dirty entry.
    Evicted(Lpn),
    /// Relocation of mapped units.
    Moved,
    /// Write-back of all entries.
    All,
}

pub(crate) struct TablePages<'a, N: Nand, V>(pub(crate) &'a mut Core<N, V>);

impl<N: Nand, V: VictimPolicy> TablePages<'_, N, V> {
    /// Reads the translation page of `lpn`, if it exists. Skipped if all entries were loaded at power-on. An
    /// unreadable page ends the drive's life.
    pub(crate) fn read(&mut self, now: When, lpn: Lpn) -> Done {
        let translation = self.0.store.translation();
        if translation.is_loaded {
            return Ok(now);
        }
        let Some(ppa) = self.0.map.get(translation.first_unit(translation.page_of(lpn))) else {
            return Ok(now);
        };
        self.0.stats.translation().tp_reads += 1;
        let page = self.0.nand.geometry().page_of(ppa);
        let whole = self.0.nand.whole_page(page);
        let done = self.0.nand.read(now, page, whole, Cause::Map);
        if done.is_uncorrectable() {
            return Err(self.0.lose_map(ppa));
        }
        Ok(done.when)
    }

    /// Updates the translation page of `lpn` by read-modify-write. The read is skipped for [`Update::All`] if
    /// all entries of the page are cached.
    #[inline(never)]
    pub(crate) fn write(&mut self, now: When, update: Update, lpn: Lpn) -> Done {
        // An eviction must not open a block that collection needs, while an open one has pages left.
        self.0.streams.stays_open = update != Update::Moved && self.0.must_collect();
        let done = self.program(now, update, lpn);
        self.0.streams.stays_open = false;
        done
    }

    fn program(&mut self, now: When, update: Update, lpn: Lpn) -> Done {
        let translation = self.0.store.translation();
        let is_known = update == Update::All && translation.is_page_cached(translation.page_of(lpn));
        let ready = if is_known { now } else { self.read(now, lpn)? };
        let translation = self.0.store.translation();
        let page = translation.page_of(lpn);
        let first = translation.first_unit(page);
        let unit = |at| Unit { lpn: first.plus(at), payload: N::Payload::zero() };
        let stream = self.0.streams.table.translation;
        // No collection here: collection itself programs translation pages, so it could recurse.
        let never = |_: &mut Core<N, V>, now| Ok(now);
        let done = match translation.units_per_page {
            1 => self.0.write_pages(ready, stream, Cause::Map, &[unit(0)], never, |core, run, first| {
                TablePages(core).settle(run, first)
            })?,
            count => {
                let units: Vec<_> = (0..count).map(unit).collect();
                self.0.write_pages(ready, stream, Cause::Map, &units, never, |core, run, first| {
                    TablePages(core).settle(run, first)
                })?
            }
        };
        let (translation, stats) = (self.0.store.translation(), self.0.stats.translation());
        stats.tp_programs += 1;
        translation.is_stale[page as usize] = false;
        translation.is_moved[page as usize] = false;
        match update {
            Update::Moved => stats.gc_tp_updates += 1,
            Update::Evicted(lpn) => {
                stats.dirty_evictions += 1;
                translation.cmt.clean(lpn, page);
            }
            Update::All => {}
        }
        // Batch update (DFTL): the program of a page also writes its other dirty entries.
        if update == Update::All || translation.is_batched {
            translation.cmt.clean_all(page);
        }
        Ok(done)
    }

    /// Maps the units of a translation page. The tick counts host work only, so it stays.
    fn settle(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in (0..).zip(units) {
            let ppa = first.plus(at);
            self.0.policies.victims.written(ppa, self.0.tick);
            if let Some(sharing) = &mut self.0.map.sharing {
                sharing.written(ppa, unit.lpn);
            }
            if let Some(old) = self.0.map.set(unit.lpn, ppa) {
                self.0.invalidate(old);
            }
        }
    }

    /// Updates each translation page of moved units once. Must precede the erase of their victims.
    pub(crate) fn update_moved(&mut self, now: When) -> Done {
        let mut finished = now;
        while self.0.store.is_paged()
            && let Some(page) = self.0.store.translation().next_update(false)
        {
            let done = self.update(now, page)?;
            finished = self.0.nand.both(finished, done);
        }
        Ok(finished)
    }

    /// Updates up to `most` translation pages of the present round. `None` if none is left.
    pub(crate) fn update_some(&mut self, now: When, most: u32) -> Result<Option<When>, FtlError> {
        let mut finished = None;
        for _ in 0..most {
            let Some(page) = self.0.store.translation().next_update(true) else { break };
            let done = self.update(now, page)?;
            finished = Some(finished.map_or(done, |finished| self.0.nand.both(finished, done)));
        }
        Ok(finished)
    }

    fn update(&mut self, now: When, page: u32) -> Done {
        let Some(lpn) = self.0.store.translation().entries(page).next() else { return Ok(now) };
        let done = self.write(now, Update::Moved, lpn);
        if done.is_err() {
            self.0.store.translation().put_update_back(page);
        }
        done
    }
}
