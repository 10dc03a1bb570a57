//! Commands in, completions out, and the bytes that go with them.

use std::collections::BTreeMap;

use strobe_ftl::{Inspectable, MappingScheme};
use strobe_nand::{Nand, Payload};
use strobe_types::{Geometry, Lpn, Request, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::{Command, CommandKind, Range};
use crate::device::{Completion, Device};
use crate::error::{CommandError, Completed};
use crate::limits::LimitsConfig;
use crate::queue::HostQueue;

/// Commands on their way to the host: by the time of their completion, then by number of submission.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    completions: BTreeMap<(SimTime, u64), Completion>,
    submitted: u64,
}

impl Pending {
    fn add(&mut self, completion: Completion) {
        self.completions.insert((completion.at, self.submitted), completion);
        self.submitted += 1;
    }
}

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
        let (at, result) = match self.perform(now, command, data) {
            Ok(done) => match *command {
                Command::Read { range } => (done, Ok(self.bytes_read(range))),
                _ => (done, Ok(Vec::new())),
            },
            Err(error) => (now, Err(error)),
        };
        self.pending.add(Completion { tag, at, result });
    }

    fn outstanding(&self) -> usize {
        self.pending.completions.len()
    }

    fn next_event(&self) -> Option<SimTime> {
        self.pending.completions.keys().next().map(|(at, _)| *at)
    }

    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        while let Some(first) = self.pending.completions.first_entry()
            && first.key().0 <= until
        {
            completions.push(first.remove());
        }
    }

    fn set_write_cache(&mut self, enabled: bool) {
        self.write_cache = enabled;
    }

    fn settle(&mut self, now: SimTime) -> Completed {
        self.accounted(&Command::Flush, |drive| {
            let durable = drive.make_durable(now)?;
            drive.ftl.nand_mut().sync();
            Ok(durable.max(drive.ftl.nand().idle_at()))
        })
    }

    fn run(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<(), (usize, CommandError)> {
        self.run_batch(requests, arrivals, queue)
    }
}

impl<F: MappingScheme> Drive<F> {
    /// What each mapping unit gets of `data`, the bytes of a write of `range`. The range may leave the drive: then
    /// nobody asks.
    pub(super) fn content<'a>(
        &self,
        range: Range,
        data: &'a [u8],
    ) -> Result<impl Fn(Lpn) -> F::Payload + use<'a, F>, CommandError> {
        if u64::from(range.sectors) * SECTOR_BYTES != data.len() as u64 {
            let (op, bytes) = (CommandKind::Write, data.len() as u64);
            return Err(CommandError::DataLength { op, sectors: range.sectors, bytes });
        }
        if !F::Payload::KEEPS_BYTES {
            return Err(CommandError::NoContent);
        }
        let unit_bytes = u64::from(self.geometry.unit_bytes());
        let start = range.lba.get().saturating_mul(SECTOR_BYTES);
        Ok(move |lpn: Lpn| {
            // The part of `data` that falls into this unit, and where in the unit it lies.
            let unit_start = u64::from(lpn.get()) * unit_bytes;
            let into_unit = start.saturating_sub(unit_start) as usize;
            let from = unit_start.saturating_sub(start) as usize;
            let length = (unit_bytes as usize - into_unit).min(data.len() - from);
            let part = &data[from..from + length];
            if part.len() as u64 == unit_bytes {
                return F::Payload::from_bytes(part);
            }
            let mut unit = vec![0; unit_bytes as usize];
            unit[into_unit..into_unit + length].copy_from_slice(part);
            F::Payload::from_bytes(&unit)
        })
    }

    /// The bytes of `range`, which has just been read, if the medium keeps any.
    fn bytes_read(&self, range: Range) -> Vec<u8> {
        if !F::Payload::KEEPS_BYTES {
            return Vec::new();
        }
        let unit_bytes = self.geometry.unit_bytes() as usize;
        let mut bytes = vec![0; self.read.len() * unit_bytes];
        for (unit, out) in self.read.iter().zip(bytes.chunks_exact_mut(unit_bytes)) {
            unit.copy_to(out);
        }
        // The units before the first sector and behind the last were read whole.
        let skip = (range.lba.get() * SECTOR_BYTES % unit_bytes as u64) as usize;
        bytes.truncate(skip + range.sectors as usize * SECTOR_BYTES as usize);
        bytes.drain(..skip);
        bytes
    }
}
