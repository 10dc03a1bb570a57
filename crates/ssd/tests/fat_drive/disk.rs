use strobe_ssd::{Command, CommandError, Hint, Range, Recovery, RecoveryError, Simulated};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};
use strobe_workload::files::FileError;
use strobe_workload::files::fat::{Class, SectorDevice};

/// A drive with contents, used by one program that waits for every request.
///
/// Writes carry their class as a hint, so a non-volatile cache of the drive recognises metadata.
pub(crate) struct DriveDisk {
    drive: Box<dyn Simulated>,
    now: SimTime,
    host_ns: u64,
}

impl Clone for DriveDisk {
    fn clone(&self) -> Self {
        Self { drive: self.drive.freeze(), ..*self }
    }
}

impl DriveDisk {
    /// A disk on `drive`; each request costs the host `host_ns` in addition to the drive's time.
    pub(crate) fn new(drive: Box<dyn Simulated>, host_ns: u64) -> Self {
        Self { drive, now: SimTime::ZERO, host_ns }
    }

    pub(crate) fn drive(&self) -> &dyn Simulated {
        &*self.drive
    }

    pub(crate) fn drive_mut(&mut self) -> &mut dyn Simulated {
        &mut *self.drive
    }

    pub(crate) fn image(&mut self) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; (self.sectors() * SECTOR_BYTES) as usize];
        self.drive.read_bytes(self.now, Lba::new(0), &mut bytes).map_err(io)?;
        Ok(bytes)
    }

    /// After the planned cut, or after one at this moment.
    pub(crate) fn restart(self) -> Result<(Self, Recovery), RecoveryError> {
        let (drive, recovery) = self.drive.restart(self.now)?;
        Ok((Self { drive, now: recovery.finished, ..self }, recovery))
    }

    fn range(sector: u64, bytes: usize) -> Result<Range, FileError> {
        let sectors = u32::try_from(bytes as u64 / SECTOR_BYTES)
            .map_err(|_| FileError::Io(format!("a request of {bytes} bytes is too long")))?;
        Ok(Range::new(Lba::new(sector), sectors))
    }

    fn send(&mut self, command: &Command<'_>, data: Option<&[u8]>) -> Result<(), FileError> {
        self.drive.submit(self.now + self.host_ns, 0, command, data);
        let mut done = Vec::new();
        while let Some(next) = self.drive.next_event() {
            self.drive.advance(next, &mut done);
        }
        for completion in done {
            completion.result.map_err(io)?;
            self.now = completion.at;
        }
        Ok(())
    }
}

fn io(error: CommandError) -> FileError {
    FileError::Io(error.to_string())
}

impl SectorDevice for DriveDisk {
    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        self.now = self.drive.read_bytes(self.now + self.host_ns, Lba::new(sector), buffer).map_err(io)?;
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError> {
        let range = Self::range(sector, bytes.len())?;
        let hint = match class {
            Class::Data => Hint::None,
            _ => Hint::Metadata,
        };
        self.send(&Command::Write { range, fua: false, tag: hint.into() }, Some(bytes))
    }

    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        let count = u32::try_from(count)
            .map_err(|_| FileError::Io(format!("a trim of {count} sectors is too long")))?;
        self.send(&Command::Deallocate(&[Range::new(Lba::new(sector), count)]), None)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.send(&Command::Flush, None)
    }
}
