//! Hot metadata and a small non-volatile write cache on block-mapped drives, under FAT.
//!
//! 1. Record the writes of both programs on FAT (`pattern`).
//! 2. Replay them on each mapping scheme, with and without metadata, at several partition offsets
//!    (`measure`).
//! 3. Fit offset and host time to the gains of Camera-MS500 (`fit`).
//! 4. Replay PostMark at the fitted offset, as a prediction.

mod claims;
mod figures;
mod fit;
#[cfg(target_os = "linux")]
mod kernel;
mod measure;
#[cfg(test)]
mod oracle;
mod pattern;
mod results;

use strobe_lab::points::in_parallel;
use strobe_types::named;

use super::pool::Bench;
use super::{Made, Options, Paper, PaperError, Scale};

use measure::{Cell, Point};
use pattern::Pattern;
use results::Results;

pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "nvram",
    title: "Hot writes of VFAT metadata and a non-volatile write cache, on three flash translation layers",
    authors: "measured on a Falinux EZ-X5 board with Linux 2.6.21 (in Korean; our copy names no authors)",
    reproduces: "figures 1 to 3: write pattern, flash operations and execution time of Camera-MS500 and \
                 PostMark on VFAT, for replacement-block, log-block and FAST, before and after metadata is \
                 absorbed; also page map and DFTL; the effect of the partition's offset, the host's time, the log \
                 block that is merged and the cost of a merge",
    takes: "half a minute with --quick (10 of 32 partition offsets), two minutes in full; with a kernel for guests \
            (make kernel) also VFAT's own pattern, a minute more",
    make,
};

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Workload {
        Camera => "Camera-MS500",
        PostMark => "PostMark",
    }
}

impl Workload {
    const fn part(self) -> char {
        match self {
            Self::Camera => 'a',
            Self::PostMark => 'b',
        }
    }
}

named! {
    /// Layer that absorbs metadata.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Absorbed {
        No => "before",
        /// The file system, as in the paper: the drive receives no metadata.
        FileSystem => "after",
        /// The drive, by address: everything before the first cluster.
        Device => "by address",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheme {
    label: &'static str,
    mapping: &'static str,
    in_paper: bool,
}

const SCHEMES: [Scheme; 5] = [
    Scheme { label: "replacement", mapping: "replacement-block", in_paper: true },
    Scheme { label: "log-block", mapping: "log-block", in_paper: true },
    Scheme { label: "FAST", mapping: "fast", in_paper: true },
    Scheme { label: "page", mapping: "page", in_paper: false },
    Scheme { label: "DFTL", mapping: "dftl", in_paper: false },
];

/// Largest non-volatile memory in the paper, in sectors of 512 bytes: 128 KB.
const NVRAM_SECTORS: usize = 256;

/// Sectors per erase block of the board, the number of distinct partition offsets.
const OFFSETS: u32 = 32;

/// Best-fitting offset of a full run.
const FITTED_OFFSET: u32 = 29;

/// Partition offsets in sectors for Camera-MS500; a full run uses all.
fn offsets(scale: Scale, hottest_sector: u64) -> Vec<u32> {
    let step = match scale {
        Scale::Full => 1,
        Scale::Quick => 4,
        Scale::Tiny => 16,
    };
    // Smaller scales add the best-fitting offset and the one that puts the hottest sector first in its erase
    // block.
    let first = (OFFSETS - (hottest_sector % u64::from(OFFSETS)) as u32) % OFFSETS;
    let is_run = |offset: &u32| offset.is_multiple_of(step) || [first, FITTED_OFFSET].contains(offset);
    (0..OFFSETS).filter(is_run).collect()
}

fn make(options: &Options, bench: &Bench<'_>) -> Result<Made, PaperError> {
    let patterns = in_parallel(&Workload::ALL, &(), |&workload| pattern::record(workload, options))?
        .ok_or(PaperError::Interrupted)?;
    let of = |cell: &Cell| {
        patterns.iter().find(|pattern| pattern.workload == cell.workload).unwrap_or(&patterns[0])
    };
    let run = |cells: Vec<Cell>| {
        let points: Vec<Point> =
            cells.into_iter().map(|cell| Point::new(cell, of(&cell), options)).collect::<Result<_, _>>()?;
        let outcomes =
            bench.points("nvram", &points, |point| measure::run(point, of(&point.cell), bench.watch))?;
        Ok::<_, PaperError>(points.iter().map(|point| point.cell).zip(outcomes).collect::<Vec<_>>())
    };
    let mut outcomes = run(Cell::all(options, &patterns[0]))?;
    // PostMark runs at the offset fitted to Camera-MS500: nothing is fitted to PostMark.
    let joint = fit::joint(&Results::new(&outcomes));
    let fitted = joint.map_or(0, |joint| joint.offset);
    outcomes.extend(run(Cell::predicted(fitted))?);
    // The full scale runs PostMark at the other offsets as well.
    if options.scale == Scale::Full {
        outcomes.extend(run(Cell::compared((1..OFFSETS).filter(|&offset| offset != fitted)))?);
    }
    let drives = Results::new(&outcomes);
    let host_ns = fit::host_ns(&drives).unwrap_or(0.0);
    let results = drives.with_host_ns(host_ns);
    // A user's victim rule is equal in all rows, so the figure that varies it is dropped.
    let has_rules = !options.sets.iter().any(|set| set.contains("ftl.log_victim"));
    let figures = figures::all(&patterns, &results).into_iter();
    let made = Made {
        notes: notes(&patterns, &results, options.scale),
        claims: claims::all(&patterns, &results),
        figures: figures.filter(|figure| has_rules || figure.figure != "log-victim").collect(),
    };
    #[cfg(target_os = "linux")]
    let made = made.and(kernel::figures(&patterns, options, bench)?);
    Ok(made)
}

fn notes(patterns: &[Pattern], results: &Results<'_>, scale: Scale) -> Vec<String> {
    let mut notes = vec![
        "the drive is preset ez-x5-32m: 32 MB of small-page SLC, 64 log or replacement blocks; each write of 512 \
         bytes is synchronous and waits for the previous one; reads come from memory. Merges stop the world, as in the \
         board's kernel"
            .to_owned(),
        format!(
            "the file system is FAT16 with clusters of 2 KB by the fatfs crate, writing in the order of Linux VFAT. Figures at \
             offset 0 (partition at the start of an erase block) add {:.0} µs of host time to every request that reaches the \
             drive. The paper does not give it; it is fitted to replacement-block's gain of 30 times in Camera-MS500 at \
             offset 0. Claims use the joint fit of offset and host time (figure fit-offset)",
            results.host_ns() / 1e3
        ),
        "the bars of the paper are not legible in our copy: its text is compared".to_owned(),
    ];
    for pattern in patterns {
        notes.push(format!(
            "{}: {} write requests, {} of them metadata on {} sectors",
            pattern.workload.name(),
            pattern.writes().len(),
            pattern.metadata_writes(),
            pattern.metadata_sectors()
        ));
    }
    match scale {
        Scale::Full => {}
        Scale::Quick => notes.push(
            format!(
                "QUICK: every fourth partition offset, {FITTED_OFFSET} (the fit of a full run) and the one that puts the hottest \
                 sector first in its erase block; PostMark at 0 and at Camera's fit; everything else as in full"
            ),
        ),
        Scale::Tiny => notes.push("TINY: these numbers are meaningless".to_owned()),
    }
    notes
}
