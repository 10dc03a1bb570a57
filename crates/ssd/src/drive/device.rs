//! [`Device`] for [`Drive`]: submission, completion, and the bytes of reads.

use strobe_ftl::{Inspectable, MappingScheme};
use strobe_nand::{Nand, Payload};
use strobe_types::{Geometry, Request, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::{Command, Range};
use crate::device::{Completion, Device};
use crate::error::{CommandError, Completed};
use crate::limits::LimitsConfig;
use crate::queue::HostQueue;
use crate::stats::HostCounts;

impl<F> Device for Drive<F>
where
    F: Inspectable + Send,
{
    fn sectors(&self) -> u64 {
        self.drive_sectors
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn limits(&self) -> LimitsConfig {
        self.limits
    }

    fn keeps_contents(&self) -> bool {
        F::Payload::KEEPS_BYTES
    }

    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>) {
        self.catch_up(now);
        match self.work(command, data) {
            Ok(work) => self.submit_work(now, tag, work),
            Err(error) => self.refuse_at_once(now, tag, error),
        }
    }

    fn outstanding(&self) -> usize {
        self.in_flight.outstanding()
    }

    fn host_counts(&self) -> &HostCounts {
        &self.host
    }

    fn next_event(&self) -> Option<SimTime> {
        self.next_instant()
    }

    fn has_completion(&self, until: SimTime) -> bool {
        self.in_flight.first().is_some_and(|first| first <= until)
    }

    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        // A completion that is already due is delivered without advancing the flash, so dies begin no further
        // operation.
        if until > self.events_now() || !self.has_completion(until) {
            self.pass(until);
        }
        while let Some(completion) = self.take_completion(until) {
            completions.push(completion);
        }
    }

    fn set_write_cache(&mut self, enabled: bool) {
        self.write_cache = enabled;
    }

    fn begin_unit(&mut self, now: SimTime, handle: u16) -> Result<(), CommandError> {
        let handles = self.ftl.handles();
        if self.ftl.placement_handles().is_none() || handle >= handles {
            return Err(CommandError::NoSuchHandle { handle, handles });
        }
        self.catch_up(now);
        self.begin_command();
        self.check_medium()?;
        self.ftl.begin_unit(self.at_once(), handle)?;
        self.check_medium()?;
        self.settle_instant();
        Ok(())
    }

    fn settle(&mut self, now: SimTime) -> Completed {
        self.pass(now);
        self.begin_command();
        self.check_medium()?;
        // Order: empty the write buffer, make the map durable, sync the image, then let background work
        // finish.
        self.write_all_back()?;
        let written = self.buffer.as_ref().map_or(self.at_once(), |buffer| buffer.programmed_at());
        self.make_durable(written)?;
        let end = self.events_now();
        self.ftl.nand_mut().sync(end);
        self.check_medium()?;
        self.run_until_idle();
        self.record_settled();
        Ok(self.events_now())
    }

    fn issue(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<usize, (usize, CommandError)> {
        self.issue_batch(requests, arrivals, queue)
    }
}

impl<F: MappingScheme> Drive<F> {
    /// Bytes of the last read, which covered `range`; empty if the medium stores no bytes.
    pub(super) fn bytes_read(&self, range: Range) -> Vec<u8> {
        if !F::Payload::KEEPS_BYTES {
            return Vec::new();
        }
        let unit_bytes = self.geometry.unit_bytes() as usize;
        let mut bytes = vec![0; self.read.len() * unit_bytes];
        for (unit, out) in self.read.iter().zip(bytes.chunks_exact_mut(unit_bytes)) {
            unit.copy_to(out);
        }
        // Units were read whole. Drop the sectors before and after `range`.
        let skip = (range.lba.get() * SECTOR_BYTES % unit_bytes as u64) as usize;
        bytes.truncate(skip + range.sectors as usize * SECTOR_BYTES as usize);
        bytes.drain(..skip);
        bytes
    }
}
