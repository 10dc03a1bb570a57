//! Reads: each unit from where its newest version is.

use strobe_ftl::MappingScheme;
use strobe_nand::Payload;
use strobe_types::{Lpn, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::{CommandKind, Range};
use crate::error::Completed;

impl<F: MappingScheme> Drive<F> {
    /// Reads `range`; what its units hold is in `self.read` then.
    pub(super) fn read(&mut self, now: SimTime, Range { lba, sectors }: Range) -> Completed {
        self.check_range(CommandKind::Read, lba, sectors)?;
        let accepted = self.controller.accept(now, 1);
        let first = self.geometry.lpn_of(lba);
        let last = self.geometry.lpn_of(lba.plus(u64::from(sectors) - 1));
        let count = last.get() - first.get() + 1;
        self.read.clear();
        let arrived = match self.caches_are_empty() {
            true => self.ftl.read(accepted, first, count, &mut self.read),
            false => self.read_past_caches(accepted, first, last),
        };
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        self.host.add(CommandKind::Read, bytes);
        Ok(self.controller.send(arrived, bytes))
    }

    fn caches_are_empty(&self) -> bool {
        self.buffer.as_ref().is_none_or(|buffer| buffer.dirty_units() == 0)
            && self.nvram.as_ref().is_none_or(|nvram| nvram.held_units() == 0)
    }

    /// Reads the units from `first` to `last`. Runs of units that no cache holds come from flash together.
    fn read_past_caches(&mut self, now: SimTime, first: Lpn, last: Lpn) -> SimTime {
        let mut arrived = now;
        let mut lpn = first;
        while lpn <= last {
            if let Some((payload, at)) = self.nvram.as_mut().and_then(|nvram| nvram.read(now, lpn)) {
                self.read.push(payload);
                arrived = arrived.max(at);
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
            let mut run = 1;
            while lpn.plus(run) <= last && !is_cached(lpn.plus(run)) {
                run += 1;
            }
            arrived = arrived.max(self.ftl.read(now, lpn, run, &mut self.read));
            lpn = lpn.plus(run);
        }
        arrived
    }

    /// The current content of a unit, to be merged with a newer part, and when it is at hand.
    pub(super) fn current(&mut self, now: SimTime, lpn: Lpn) -> (F::Payload, SimTime) {
        if let Some(payload) = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn)) {
            return (payload, now);
        }
        if let Some(payload) = self.buffer.as_ref().and_then(|buffer| buffer.get(lpn)) {
            return (payload.clone(), now);
        }
        self.read.clear();
        let arrived = self.ftl.read(now, lpn, 1, &mut self.read);
        (self.read.pop().unwrap_or_else(F::Payload::zero), arrived)
    }
}
