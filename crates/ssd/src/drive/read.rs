//! Reads. The newest version of a unit is in the non-volatile cache, the write buffer or flash.

use strobe_ftl::{FtlError, Inspectable};
use strobe_nand::{Payload, When};
use strobe_types::Lpn;

use super::Drive;
use crate::command::Range;

impl<F: Inspectable> Drive<F> {
    /// Reads all units of `range`, even if some are unreadable.
    pub(super) fn read(&mut self, range: Range) -> Result<When, FtlError> {
        let Range { lba, sectors } = range;
        let first = self.geometry.lpn_of(lba);
        let last = self.geometry.lpn_of(lba.plus(u64::from(sectors) - 1));
        let count = last.get() - first.get() + 1;
        self.read.clear();
        if self.caches_are_empty() {
            self.ftl.read(self.at_once(), first, count, &mut self.read)
        } else {
            self.read_past_caches(first, last)
        }
    }

    fn caches_are_empty(&self) -> bool {
        self.buffer.as_ref().is_none_or(|buffer| buffer.dirty_units() == 0)
            && self.nvram.as_ref().is_none_or(|nvram| nvram.held_units() == 0)
    }

    /// Reads cached units from the caches, and each run of uncached units from flash.
    fn read_past_caches(&mut self, first: Lpn, last: Lpn) -> Result<When, FtlError> {
        let now = self.events.now();
        let (mut arrived, mut lost) = (When::At(now), None);
        let mut lpn = first;
        while lpn <= last {
            if let Some((payload, at)) = self.nvram.as_mut().and_then(|nvram| nvram.read(now, lpn)) {
                self.read.push(payload);
                arrived = self.both(arrived, When::At(at));
                lpn = lpn.plus(1);
                continue;
            }
            let buffered = |lpn| self.buffer.as_ref().and_then(|buffer| buffer.get(lpn));
            if let Some(payload) = buffered(lpn) {
                self.read.push(payload.clone());
                lpn = lpn.plus(1);
                continue;
            }
            let is_cached =
                |lpn| buffered(lpn).is_some() || self.nvram.as_ref().is_some_and(|nvram| nvram.holds(lpn));
            // One flash read covers a run of uncached units.
            let mut run = 1;
            while lpn.plus(run) <= last && !is_cached(lpn.plus(run)) {
                run += 1;
            }
            // A read error does not end the command: the remaining units are still read. The first one is
            // reported.
            let read = match self.ftl.read(When::At(now), lpn, run, &mut self.read) {
                Err(FtlError::Unreadable { lpn, at }) => {
                    lost = lost.or(Some(lpn));
                    at
                }
                read => read?,
            };
            arrived = self.both(arrived, read);
            lpn = lpn.plus(run);
        }
        match lost {
            None => Ok(arrived),
            Some(lpn) => Err(FtlError::Unreadable { lpn, at: arrived }),
        }
    }

    /// Current content of a unit for a merge, and its arrival.
    pub(super) fn current(&mut self, lpn: Lpn) -> Result<(F::Payload, When), FtlError> {
        let now = self.at_once();
        if let Some(payload) = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn)) {
            return Ok((payload, now));
        }
        if let Some(payload) = self.buffer.as_ref().and_then(|buffer| buffer.get(lpn)) {
            return Ok((payload.clone(), now));
        }
        self.read.clear();
        let arrived = self.ftl.read(now, lpn, 1, &mut self.read)?;
        Ok((self.read.pop().unwrap_or_else(F::Payload::zero), arrived))
    }
}
