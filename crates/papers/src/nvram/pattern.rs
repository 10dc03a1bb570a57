//! Writes of the workloads, recorded once on a memory disk: the file system's requests do not depend on drive
//! time.

use std::collections::{BTreeMap, BTreeSet};

use strobe_workload::files::camera::CameraConfig;
use strobe_workload::files::fat::{FatFormat, FatVolume, MemoryDisk, MountOptions, Recorded};
use strobe_workload::files::postmark::PostmarkConfig;
use strobe_workload::files::{FileWorkload, FileWorkloadError};

use super::Workload;
use crate::{Options, PaperError, Scale};

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) workload: Workload,
    /// Requests of formatting, then of the workload.
    log: Vec<Recorded>,
    formatted: usize,
    pub(super) bytes: u64,
    /// First sector after all metadata with a fixed place.
    pub(super) data_start: u64,
}

impl Pattern {
    pub(super) fn format(&self) -> &[Recorded] {
        &self.log[..self.formatted]
    }

    #[cfg(test)]
    pub(super) fn first(mut self, most: usize) -> Self {
        self.log.truncate(self.formatted + most);
        self
    }

    pub(super) fn writes(&self) -> &[Recorded] {
        &self.log[self.formatted..]
    }

    /// Sector with the most writes; the first among ties.
    pub(super) fn hottest_sector(&self) -> u64 {
        let mut writes: BTreeMap<u64, u64> = BTreeMap::new();
        for write in self.writes() {
            *writes.entry(write.sector).or_default() += 1;
        }
        let hottest = writes.into_iter().max_by_key(|&(sector, count)| (count, std::cmp::Reverse(sector)));
        hottest.map_or(0, |(sector, _)| sector)
    }

    pub(super) fn metadata_writes(&self) -> usize {
        self.writes().iter().filter(|write| is_metadata(write)).count()
    }

    pub(super) fn metadata_sectors(&self) -> usize {
        self.writes()
            .iter()
            .filter(|write| is_metadata(write))
            .map(|write| write.sector)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

pub(super) fn is_metadata(write: &Recorded) -> bool {
    write.class.is_metadata()
}

pub(super) fn record(workload: Workload, options: &Options) -> Result<Pattern, PaperError> {
    recorded(workload, options)
        .map_err(|error| PaperError::Files { run: workload.name().to_owned(), error: Box::new(error) })
}

fn recorded(workload: Workload, options: &Options) -> Result<Pattern, FileWorkloadError> {
    let format = FatFormat::default();
    let mut volume = FatVolume::format(MemoryDisk::new(format.volume_sectors).recorded(), &format)?;
    let formatted = volume.with_device(|disk| disk.log().len());
    let data_start = volume.data_start();
    let tally = {
        let mut mount = volume.mount(MountOptions::default());
        match workload {
            Workload::Camera => camera(options.scale).run(&mut mount, options.seed, &mut ())?,
            // The seed makes the bytes equal to the paper's.
            Workload::PostMark => postmark(options.scale).run(&mut mount, PostmarkConfig::SEED, &mut ())?,
        }
    };
    let log = volume.unmount()?.log().to_vec();
    Ok(Pattern { workload, log, formatted, bytes: tally.bytes_written, data_start })
}

pub(super) fn camera(scale: Scale) -> CameraConfig {
    // KB of 1024 bytes: the paper counts PostMark's bytes in units of 2^20, so its KB are probably binary.
    let paper =
        CameraConfig { photo_min_bytes: 300 << 10, photo_max_bytes: 500 << 10, ..CameraConfig::default() };
    match scale {
        Scale::Tiny => CameraConfig { transactions: 1, photos: 2, ..paper },
        _ => paper,
    }
}

pub(super) fn postmark(scale: Scale) -> PostmarkConfig {
    match scale {
        Scale::Tiny => PostmarkConfig { files: 20, transactions: 50, ..PostmarkConfig::hot_metadata() },
        _ => PostmarkConfig::hot_metadata(),
    }
}
