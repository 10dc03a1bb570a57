//! A log-structured file system on a drive.

use strobe_ssd::{Command, Hint, Pacing};
use strobe_types::{Lba, Range, SECTOR_BYTES, State};
use strobe_workload::lfs::{Lfs, LfsCommand, LfsConfig, LfsCounts, LfsDisk, LfsLayout};
use strobe_workload::synthetic::WorkloadError;

use super::host::{Host, Stop, closed};
use super::issuer::Issuer;
use crate::experiment::HostConfig;
use crate::result::LfsBytes;

/// Converts `command` to a drive command.
pub fn drive_command<'a>(command: &LfsCommand<'a>) -> Command<'a> {
    match *command {
        LfsCommand::Read(range) => Command::Read { range },
        LfsCommand::Write(range) => Command::Write { range, fua: false, tag: Hint::None.into() },
        LfsCommand::Copy { destination, sources } => Command::Copy { destination, sources },
        LfsCommand::Trim(ranges) => Command::Deallocate(ranges),
        LfsCommand::Flush => Command::Flush,
    }
}

/// Host and queue, seen by the file system as a disk.
struct Disk<'a, 'b> {
    host: &'a mut Host<'b>,
    pacing: Pacing,
}

impl LfsDisk for Disk<'_, '_> {
    type Error = Stop;

    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Stop> {
        let is_sent = self.host.send(&drive_command(&command), None)?;
        debug_assert!(
            is_sent,
            "a file system is measured by its updates, between which it sends all it has to"
        );
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Stop> {
        self.host.set_pacing(self.pacing)
    }
}

#[derive(State)]
pub(super) struct FileSystem {
    lfs: Lfs,
    #[state(skip)]
    pacing: Pacing,
    #[state(skip)]
    update_bytes: u64,
    /// Bytes updated. States do not contain them.
    #[state(skip)]
    updated_bytes: u64,
    #[state(skip)]
    start: LfsCounts,
}

impl FileSystem {
    pub(super) fn new(config: &LfsConfig, drive_bytes: u64, seed: u64) -> Result<Self, WorkloadError> {
        Ok(Self {
            lfs: config.build(drive_bytes, seed)?,
            pacing: closed(HostConfig { queue_depth: config.queue_depth, ..HostConfig::default() }),
            update_bytes: config.update_bytes.into(),
            updated_bytes: 0,
            start: LfsCounts::default(),
        })
    }

    fn measured(&self) -> LfsBytes {
        let LfsCounts { written, cleaned, moved, checkpoints } = self.lfs.counts().since(&self.start);
        let block = u64::from(self.lfs.layout().block_sectors) * SECTOR_BYTES;
        LfsBytes { updated: written * block, cleaned: cleaned * block, moved: moved * block, checkpoints }
    }
}

impl Issuer for FileSystem {
    /// 1. Trim the whole drive.
    /// 2. Write the files.
    /// 3. Update them at random until an update would need cleaning, then write a checkpoint.
    fn prepare(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        host.begin("prefill", None);
        let mut disk = Disk { host, pacing: self.pacing };
        disk.wait()?;
        let &LfsLayout { segments, segment_blocks, block_sectors, trim_ranges, .. } = self.lfs.layout();
        let sectors = segment_blocks * block_sectors;
        let segment = |number| Range::new(Lba::new(u64::from(number) * u64::from(sectors)), sectors);
        let everything: Vec<Range> = (0..segments).map(segment).collect();
        for ranges in everything.chunks(trim_ranges) {
            disk.send(LfsCommand::Trim(ranges))?;
        }
        disk.wait()?;
        self.lfs.create(&mut disk)?;
        self.lfs.age(&mut disk)
    }

    fn issue(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        let unit = u64::from(host.drive.geometry().unit_bytes());
        while !host.is_reached() {
            self.lfs.update_at_random(&mut Disk { host, pacing: self.pacing })?;
            // Bytes are summed before they are divided, because an update may be smaller than a mapping unit.
            let before = self.updated_bytes / unit;
            self.updated_bytes += self.update_bytes;
            host.count_updates(self.updated_bytes / unit - before);
        }
        Ok(())
    }

    fn begin_measuring(&mut self) {
        self.start = self.lfs.counts();
    }

    fn file_system(&self) -> Option<LfsBytes> {
        Some(self.measured())
    }
}
