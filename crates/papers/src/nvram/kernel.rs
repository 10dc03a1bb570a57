//! The paper's programs on VFAT of a real kernel, compared with this project's FAT.

use std::io::{Read as _, Seek as _};

use serde::{Deserialize, Serialize};
use strobe_linux::command::{FileSystem, LinuxRunError, window};
use strobe_linux::{DiskOptions, Interface, Recorder, TraceForm};
use strobe_ssd::DriveConfig;
use strobe_types::{Lba, SECTOR_BYTES, SimTime};
use strobe_workload::files::postmark::PostmarkConfig;

use super::Workload;
use super::pattern::{Pattern, camera, postmark};
use crate::guest::{self, Kernel, Task};
use crate::pool::Bench;
use crate::{Figure, Made, Options, PaperError, Row, Scale, View};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Writes {
    requests: u64,
    bytes: u64,
    /// Requests to the tables, the root directory and all sectors before them.
    fixed: u64,
}

fn of_pattern(pattern: &Pattern) -> Writes {
    let mut writes = Writes::default();
    for write in pattern.writes() {
        writes.requests += 1;
        writes.bytes += u64::from(write.count) * SECTOR_BYTES;
        writes.fixed += u64::from(write.sector < pattern.data_start);
    }
    writes
}

fn settings(config: &impl serde::Serialize) -> Vec<String> {
    let text = toml::to_string(config).unwrap_or_default();
    text.lines().flat_map(|line| ["--set".to_owned(), line.replace(' ', "")]).collect()
}

fn on_kernel(workload: Workload, kernel: &Kernel, options: &Options) -> Result<Writes, PaperError> {
    // A guest's drive keeps its map on flash, which takes additional blocks. The logical size stays the
    // board's.
    let board = |drive: &mut DriveConfig| {
        (drive.nand.blocks_per_plane, drive.ftl.logical_pages) = (2400, Some(65_536));
    };
    let experiment = guest::experiment("ez-x5-32m", board, options)?;
    let (program, set, seed) = match workload {
        Workload::Camera => ("camera", settings(&camera(options.scale)), options.seed),
        Workload::PostMark => ("postmark", settings(&postmark(options.scale)), PostmarkConfig::SEED),
    };
    let mut command = guest::workload(program, &[], ".", seed);
    command.extend(set);
    let task = Task {
        name: format!("{} on vfat", workload.name()),
        file_system: FileSystem::Vfat,
        mkfs_options: ["-F", "16", "-s", "4", "-r", "512"].map(str::to_owned).into(),
        // The mount is synchronous; the program need not be.
        mount_options: "sync".into(),
        setup: Vec::new(),
        command,
        disk: DiskOptions { discard_segments: 0, ..DiskOptions::default() },
        memory_mib: 256,
        ageing: None,
    };
    let failed = |error: std::io::Error| {
        let error = LinuxRunError::Guest(error.into());
        PaperError::Guest { run: task.name.clone(), error: Box::new(error) }
    };
    let mut trace = tempfile::tempfile().map_err(failed)?;
    let recorded = trace.try_clone().map_err(failed)?;
    let recorder =
        Recorder::new(recorded, TraceForm::Fio, Interface::Virtio, SimTime::ZERO).map_err(failed)?;
    let (mut outcome, _) =
        guest::run(kernel, &task, &experiment, None, |drive| drive.recorder = Some(recorder))?;
    let mut text = String::new();
    trace.rewind().and_then(|()| trace.read_to_string(&mut text)).map_err(failed)?;
    // Read the first cluster's sector from the boot sector.
    let mut boot = [0; SECTOR_BYTES as usize];
    let _ = outcome.drive.read_bytes(outcome.at, Lba::new(0), &mut boot);
    let word = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    let data_start = word(14) + u64::from(boot[16]) * word(22) + word(17) * 32 / SECTOR_BYTES;
    let (begin, end) = window(&outcome).ok_or(PaperError::Interrupted)?;
    // Skip writes of mkfs at the start and of unmount at the end.
    let lines = text.lines().filter_map(|line| line.split_once(" write ")).map(|(_, what)| what);
    let mut writes = Writes::default();
    for line in
        lines.skip(begin.requests.write as usize).take((end.requests.write - begin.requests.write) as usize)
    {
        let Some((offset, bytes)) = line.split_once(' ') else { continue };
        let (offset, bytes): (u64, u64) = (offset.parse().unwrap_or(0), bytes.parse().unwrap_or(0));
        writes.requests += 1;
        writes.bytes += bytes;
        writes.fixed += u64::from(offset < data_start * SECTOR_BYTES);
    }
    Ok(writes)
}

pub(super) fn figures(
    patterns: &[Pattern],
    options: &Options,
    bench: &Bench<'_>,
) -> Result<Made, PaperError> {
    if options.scale == Scale::Tiny {
        return Ok(Made::default());
    }
    let kernel = match Kernel::find(options, bench.watch) {
        Ok(kernel) => kernel,
        Err(why) => {
            return Ok(Made {
                notes: vec![format!("the kernel's own VFAT is not measured: {why}")],
                ..Made::default()
            });
        }
    };
    let points = Workload::ALL
        .map(|workload| (workload.name(), kernel.version().to_owned(), options.seed, &options.sets));
    let measured = bench.points("nvram-vfat", &points, |(name, ..)| {
        let workload = Workload::ALL.into_iter().find(|workload| workload.name() == *name);
        on_kernel(workload.unwrap_or(Workload::Camera), &kernel, options)
    })?;
    let mut rows = Vec::new();
    for (workload, linux) in Workload::ALL.into_iter().zip(measured) {
        let Some(pattern) = patterns.iter().find(|pattern| pattern.workload == workload) else { continue };
        // Show the same three numbers for the recorded pattern and for the kernel's requests.
        let ours = of_pattern(pattern);
        let share = |of: Writes| 100.0 * of.fixed as f64 / of.requests as f64;
        for (name, of) in [("fatfs", ours), ("Linux VFAT", linux)] {
            let at = |unit| [("workload", workload.name()), ("file system", name), ("unit", unit)];
            rows.push(Row::new(&at("write requests"), Some(of.requests as f64)));
            rows.push(Row::new(&at("MiB written"), Some(of.bytes as f64 / f64::from(1 << 20))));
            rows.push(Row::new(&at("% of requests to tables and root"), Some(share(of))));
        }
    }
    let notes = vec![format!(
        "figure vfat: the same programs on the VFAT of Linux {}, mounted sync, on a volume with the same geometry",
        kernel.version()
    )];
    let figure = Figure::new(
        "vfat",
        "the kernel's own VFAT compared with the FAT of these runs",
        View::Table { down: &["workload", "unit"], across: "file system" },
        rows,
    );
    Ok(Made { notes, claims: Vec::new(), figures: vec![figure] })
}
