//! Batches of requests from a generator or a trace: the path that decides the speed of a run.
//!
//! 1. If `can_gather`, consecutive whole-unit writes are written together (`run_gathered`).
//! 2. With timing and without caches, a whole-unit write takes a short path (`write_unit`).
//! 3. All other requests take the path of ordinary commands.

use strobe_ftl::{DataTag, Inspectable, WriteContext};
use strobe_nand::{Cause, Unit, When};
use strobe_types::{Op, Request, SimTime};

use super::Drive;
use crate::command::CommandKind;
use crate::device::Completion;
use crate::error::CommandError;
use crate::queue::{Goal, HostQueue};
use crate::stats::Tally;

/// Prefetch distance of map entries, in requests.
const ENTRY_AHEAD: usize = 24;
/// Prefetch distance of the state of units, in requests.
const STATE_AHEAD: usize = 10;

impl<F: Inspectable> Drive<F> {
    pub(super) fn issue_batch(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<usize, (usize, CommandError)> {
        let gather = self.can_gather();
        let is_bare = self.is_timed() && !self.has_cache() && self.oracle.is_none() && self.power.is_none();
        let is_bare = is_bare && self.faults.is_empty() && !self.log().is_on();
        // A tag holds the batch number and the index of the request in its batch.
        self.batches = self.batches.wrapping_add(1);
        let mut at = 0;
        while let Some(&request) = requests.get(at) {
            if gather && request.op == Op::Write {
                // Gathered writes must not exceed the goal.
                let left = queue.goal().map_or(u64::MAX, |goal| goal.left(&self.host));
                let end = requests.len().min(at.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
                let result = self.run_gathered(&requests[at..end]);
                self.check_medium().map_err(|e| (at, e))?;
                let done = result.map_err(|(n, e)| (at + n, e))?;
                at += done;
                if done > 0 {
                    continue;
                }
            }
            self.prefetch(requests, at);
            // In a closed loop, wait until the queue has a free slot.
            while queue.must_wait() {
                let now = self.pass_to_completion();
                self.hand_over(now, queue)?;
            }
            let arrival = arrivals.get(at).copied();
            if let Some(goal) = queue.goal()
                && self.pass_to_goal(queue.due(arrival), goal, queue)?
            {
                return Ok(at);
            }
            let now = queue.issue(arrival);
            self.catch_up(now);
            if let Err(error) = self.hand_over(now, queue) {
                // An earlier command failed, so this request is not submitted.
                queue.withdraw();
                return Err(error);
            }
            let tag = u64::from(self.batches) << 32 | at as u64;
            // The short path for whole-unit writes; it declines all other requests.
            if is_bare && self.write_unit(now, tag, request) {
                at += 1;
                continue;
            }
            match self.work_of_request(request) {
                Ok(work) => self.submit_work(now, tag, work),
                Err(error) => self.refuse_at_once(now, tag, error),
            }
            self.hand_over(now, queue)?;
            at += 1;
        }
        Ok(at)
    }

    /// Advances to `until`, the time of the next submission, but stops at `goal`. True if `goal` is reached.
    #[inline(always)]
    fn pass_to_goal(
        &mut self,
        until: SimTime,
        goal: Goal,
        queue: &mut HostQueue,
    ) -> Result<bool, (usize, CommandError)> {
        while !goal.is_reached(&self.host) {
            if until <= self.events_now() {
                return Ok(false);
            }
            let Some(now) = self.pass_to_completion_by(until) else { return Ok(false) };
            self.hand_over(now, queue)?;
        }
        Ok(true)
    }

    /// Equivalent of [`Drive::submit_work`] on a drive without caches, oracle, planned cuts, faults and log.
    /// Returns false without a change if the request needs the ordinary path.
    #[inline(always)]
    fn write_unit(&mut self, now: SimTime, tag: u64, request: Request) -> bool {
        let Request { op, lba, sectors, handle } = request;
        let is_unit = sectors == self.geometry.sectors_per_unit() && self.geometry.sector_in_unit(lba) == 0;
        if op != Op::Write
            || !is_unit
            || lba.get() >= self.drive_sectors
            || self.controller.takes_time(now)
            || self.events.is_stalled()
            || handle > 0
            || !self.ftl.may_write(1, DataTag::default())
            || self.check_medium().is_err()
        {
            return false;
        }
        let unit = Unit { lpn: self.geometry.lpn_of(lba), payload: self.next_stamp() };
        let written = self.ftl.write(self.at_once(), &[unit], WriteContext::HOST).map_err(CommandError::from);
        match written.and_then(|done| self.check_medium().map(|()| done)) {
            Ok(done) => {
                self.add_issued(now, tag, CommandKind::Write, self.of_units(1), done);
            }
            Err(error) => self.refuse_at_once(now, tag, error),
        }
        true
    }

    #[inline(always)]
    fn hand_over(&mut self, until: SimTime, queue: &mut HostQueue) -> Result<(), (usize, CommandError)> {
        match self.in_flight.first() {
            Some(first) if first <= until => self.hand_all_over(until, queue),
            _ => Ok(()),
        }
    }

    fn hand_all_over(&mut self, until: SimTime, queue: &mut HostQueue) -> Result<(), (usize, CommandError)> {
        let mut refused = Ok(());
        while let Some(Completion { tag, at, result, .. }) = self.take_completion(until) {
            queue.complete(at);
            // Only the first rejection is reported, and unrecovered read errors never are. The index of a
            // request from an earlier batch is unknown, so it counts as 0.
            if let Err(error) = result
                && refused.is_ok()
                && !error.is_unreadable()
            {
                let is_of_this = tag >> 32 == u64::from(self.batches);
                refused = Err((if is_of_this { tag as u32 as usize } else { 0 }, error));
            }
        }
        refused
    }

    #[inline(always)]
    fn prefetch(&self, requests: &[Request], at: usize) {
        // With a write buffer, the map entry of a write is needed only at write-back.
        let needs_map = |request: &Request| self.buffer.is_none() || request.op == Op::Read;
        if let Some(ahead) = requests.get(at + ENTRY_AHEAD)
            && needs_map(ahead)
        {
            self.ftl.prefetch_entry(self.geometry.lpn_of(ahead.lba));
        }
        if let Some(ahead) = requests.get(at + STATE_AHEAD)
            && ahead.op == Op::Write
            && needs_map(ahead)
        {
            self.ftl.prefetch_state(self.geometry.lpn_of(ahead.lba));
        }
    }

    fn can_gather(&self) -> bool {
        // Under these conditions a host can observe counts only, so writes may be combined.
        !self.is_timed()
            && self.oracle.is_none()
            && self.faults.is_empty()
            && !self.has_cache()
            && self.geometry.units_per_page() == 1
    }

    #[inline(always)]
    fn of_units(&self, units: u64) -> Tally {
        let bytes = units * u64::from(self.geometry.unit_bytes());
        Tally { bytes, units_touched: units, units_written: units, read_modify_writes: 0 }
    }

    fn run_gathered(&mut self, requests: &[Request]) -> Result<usize, (usize, CommandError)> {
        let per_unit = self.geometry.sectors_per_unit();
        // Gathered writes have the same tag.
        let tag = DataTag::placed(requests.first().map_or(0, |request| request.handle));
        if self.check_handle(tag).is_err() {
            // The ordinary path rejects the request.
            return Ok(0);
        }
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        for request in requests {
            let whole = request.sectors == per_unit && self.geometry.sector_in_unit(request.lba) == 0;
            let is_alike = request.op == Op::Write && request.handle == tag.handle;
            if !is_alike || !whole || request.lba.get() >= self.drive_sectors {
                break;
            }
            let payload = self.next_stamp();
            units.push(Unit { lpn: self.geometry.lpn_of(request.lba), payload });
        }
        if units.is_empty() {
            self.units = units;
            return Ok(0);
        }
        let before = self.ftl.stats().host_units_written;
        let result = self.ftl.write(When::START, &units, WriteContext { cause: Cause::Host, tag });
        let written = self.ftl.stats().host_units_written - before;
        self.host.add(CommandKind::Write, written, &self.of_units(written));
        let gathered = units.len();
        self.units = units;
        match result {
            Ok(_) => Ok(gathered),
            Err(error) => {
                // Return the stamps of the requests after the failed one.
                self.stamp -= gathered as u64 - written - 1;
                Err((written as usize, error.into()))
            }
        }
    }
}
