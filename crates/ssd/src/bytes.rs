//! The drive as a plain disk of bytes, for front ends that carry real data (NBD, virtio, NVMe).

use strobe_ftl::MappingScheme;
use strobe_nand::Payload;
use strobe_types::{Lba, Lpn, SECTOR_BYTES, SimTime};

use crate::command::{Command, CommandError, CommandKind};
use crate::drive::Drive;

/// Refused with [`CommandError::NoContent`] by a drive that does not keep what is written.
impl<F: MappingScheme> Drive<F> {
    /// Writes `data`, whole sectors, from sector `lba` on; returns the completion time. One copy
    /// of the data is made, unit by unit.
    pub fn write_bytes(&mut self, now: SimTime, lba: Lba, data: &[u8]) -> Result<SimTime, CommandError> {
        let sectors = sectors_of(CommandKind::Write, lba, data.len())?;
        self.keeps_bytes()?;
        let content = self.content(lba, data);
        self.on_medium(|drive| drive.write(now, lba, sectors, content))
    }

    /// [`Drive::command`] with the data of a write, or with room for that of a read, in `data`, as long
    /// as the command says; other commands do not look at it.
    pub fn command_bytes(
        &mut self,
        now: SimTime,
        command: &Command<'_>,
        data: &mut [u8],
    ) -> Result<SimTime, CommandError> {
        let as_long_as = |sectors: u32| match u64::from(sectors) * SECTOR_BYTES == data.len() as u64 {
            true => Ok(()),
            false => {
                let (op, bytes) = (command.kind(), data.len() as u64);
                Err(CommandError::DataLength { op, sectors, bytes })
            }
        };
        match *command {
            Command::Read { range } => {
                as_long_as(range.sectors)?;
                self.read_bytes(now, range.lba, data)
            }
            Command::Write { range, fua, hint } => {
                as_long_as(range.sectors)?;
                self.keeps_bytes()?;
                let content = self.content(range.lba, data);
                self.on_medium(|drive| match fua {
                    true => drive.write_through(now, range, hint, content),
                    false => drive.write_hinted(now, range, hint, content),
                })
            }
            _ => self.on_medium(|drive| drive.command(now, command)),
        }
    }

    fn keeps_bytes(&self) -> Result<(), CommandError> {
        if F::Payload::KEEPS_BYTES { Ok(()) } else { Err(CommandError::NoContent) }
    }

    /// What each mapping unit gets of `data`, written from sector `lba` on. The range may be wrong:
    /// then nobody asks.
    fn content<'a>(&self, lba: Lba, data: &'a [u8]) -> impl Fn(Lpn) -> F::Payload + use<'a, F> {
        let unit_bytes = u64::from(self.geometry.unit_bytes());
        let start = lba.get().saturating_mul(SECTOR_BYTES);
        move |lpn| {
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
        }
    }

    /// Fills `out`, whole sectors, with the content from sector `lba` on; returns the completion
    /// time. What was never written or has been trimmed reads as zeros.
    pub fn read_bytes(&mut self, now: SimTime, lba: Lba, out: &mut [u8]) -> Result<SimTime, CommandError> {
        let sectors = sectors_of(CommandKind::Read, lba, out.len())?;
        self.keeps_bytes()?;
        let done = self.on_medium(|drive| drive.read(now, lba, sectors))?;
        let unit_bytes = self.geometry.unit_bytes() as usize;
        let mut skip = (lba.get() * SECTOR_BYTES % unit_bytes as u64) as usize;
        let mut rest = out;
        let mut partial = Vec::new();
        for unit in self.last_read() {
            let length = (unit_bytes - skip).min(rest.len());
            let (part, after) = rest.split_at_mut(length);
            if length == unit_bytes {
                unit.copy_to(part);
            } else {
                partial.resize(unit_bytes, 0);
                unit.copy_to(&mut partial);
                part.copy_from_slice(&partial[skip..skip + length]);
            }
            (rest, skip) = (after, 0);
        }
        Ok(done)
    }
}

/// `bytes` in sectors, if they are whole ones and not more than a command can carry.
fn sectors_of(op: CommandKind, lba: Lba, bytes: usize) -> Result<u32, CommandError> {
    let bytes = bytes as u64;
    match u32::try_from(bytes / SECTOR_BYTES) {
        Ok(sectors) if bytes.is_multiple_of(SECTOR_BYTES) => Ok(sectors),
        _ => Err(CommandError::Length { op, lba: lba.get(), bytes }),
    }
}
