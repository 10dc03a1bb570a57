//! Logical copy (Kang, Han and Shin): segment cleaning by reads and writes compared with copy commands that
//! only change the drive's map. Runs on the drive alone, and with F2FS and ext4.

#[cfg(target_os = "linux")]
mod cases;
mod claims;
mod figures;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel_claims;
#[cfg(target_os = "linux")]
mod kernel_figures;
#[cfg(target_os = "linux")]
mod kernel_recovery;
mod measure;
mod premise;
mod recovery;
mod runs;

use strobe_ssd::{CopyMode, DurableMap};
use strobe_workload::lfs::{Cleaning, Trims};

use serde::Serialize;

use super::pool::Bench;
use super::{Made, Options, Paper, PaperError, Scale};
use measure::Point;
use runs::Runs;

pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "logical-copy",
    title: "Improving the Performance of Log-Structured File Systems Using Logical Copy Technique",
    authors: "Yunji Kang, Kyuhwa Han, Dongkun Shin (in Korean)",
    reproduces: "segment cleaning on the drive alone (lfs-clean), compared with the text on figures 3 and 4; figures 3 \
                 and 4 with F2FS and ext4 on a real kernel; the effect of the command time",
    takes: "40 seconds with --quick, three minutes in full; with a kernel for guests (make kernel) also figures 3 \
            and 4: some minutes more with --quick, about 40 minutes in full",
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Model {
    name: &'static str,
    preset: &'static str,
    /// Form of the map, if other than the preset's.
    #[serde(skip)]
    map: Option<DurableMap>,
}

/// Model of the board on which claims are judged.
const SHIPPED: Model = Model { name: "shipped firmware", preset: "jasmine-shipped", map: None };
/// The earlier model: any bank, any order, 32 MB of write-back cache, a map in a journal.
const JOURNAL: Model = Model { name: "journal", preset: "jasmine-4g", map: Some(DurableMap::Journal) };
const MAP_PAGES: Model = Model { name: "map pages", preset: "jasmine-4g", map: Some(DurableMap::Pages) };
const MODELS: [Model; 3] = [JOURNAL, MAP_PAGES, SHIPPED];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Mode {
    name: &'static str,
    #[serde(skip)]
    cleaning: Cleaning,
    #[serde(skip)]
    copy_mode: CopyMode,
}

const READ_WRITE: Mode =
    Mode { name: "read and write", cleaning: Cleaning::Move, copy_mode: CopyMode::Physical };
const PHYSICAL: Mode =
    Mode { name: "physical copy", cleaning: Cleaning::Copy, copy_mode: CopyMode::Physical };
const LOGICAL: Mode = Mode { name: "logical copy", cleaning: Cleaning::Copy, copy_mode: CopyMode::Logical };
const MODES: [Mode; 3] = [READ_WRITE, PHYSICAL, LOGICAL];
const ORG: Mode = Mode { name: "ORG", cleaning: Cleaning::Threaded, copy_mode: CopyMode::Physical };
const EXT4: Mode = Mode { name: "EXT4", cleaning: Cleaning::InPlace, copy_mode: CopyMode::Physical };
/// Bars of the paper's figures: NL-RW is read and write, NL-LC logical copy.
const FILE_SYSTEMS: [Mode; 4] = [EXT4, ORG, READ_WRITE, LOGICAL];

/// v, the live share of cleaned segments. Cleaning rewrites one block per 1 − v new ones.
///
/// The paper's u, the fill of its file system, is higher.
const VICTIMS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// Judged value of v, implied by the paper's −80 %.
const JUDGED: f64 = 0.8;

/// Command processing times in µs: from the preset's, which has no source, beyond the time of a TRIM command on
/// the same board.
const COMMANDS_US: [u32; 6] = [20, 50, 100, 150, 176, 200];
const COMMAND_US: u32 = 20;
/// The only command time in µs that can be inferred for this board.
///
/// The TRIM paper gives about 200 µs for a TRIM on another drive. The paper says that this board is similar,
/// and that 64 ranges per command save 92.3 %. Other commands are assumed to take as long.
const INFERRED_US: u32 = 176;

/// Spare flash in blocks per plane; the logical size takes 512.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spare {
    name: &'static str,
    blocks: u32,
}

const PRESET: Spare = Spare { name: "7 %", blocks: 38 };
/// With the last value half of the flash is spare.
const SPARES: [Spare; 4] = [
    PRESET,
    Spare { name: "15 %", blocks: 77 },
    Spare { name: "28 %", blocks: 143 },
    Spare { name: "100 %", blocks: 512 },
];

/// Share of the map in the drive's memory; the rest is loaded on demand (DFTL).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct InMemory {
    name: &'static str,
    /// Divisor: one of `part` entries is in memory.
    part: u32,
}

const ALL: InMemory = InMemory { name: "all", part: 1 };
const PARTS: [InMemory; 4] = [
    ALL,
    InMemory { name: "1/2", part: 2 },
    InMemory { name: "1/8", part: 8 },
    InMemory { name: "1/64", part: 64 },
];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Phase {
    /// Right after ageing, which ends just before the first cleaning, as in the paper.
    Aged,
    /// After long cleaning by the file system and collection by the drive.
    Sustained,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Setup {
    model: Model,
    phase: Phase,
    victims: f64,
    mode: Mode,
    spare: Spare,
    /// MiB of segments cleaned before each checkpoint.
    batch_mib: u32,
    entries: u32,
    in_memory: InMemory,
    trims: Trims,
    sync: bool,
    command_us: u32,
}

const BATCH_MIB: u32 = 8;
const BATCHES_MIB: [u32; 3] = [2, 8, 16];

/// Entries of the virtual map: one per block of the largest batch.
const ENTRIES: u32 = 4096;
/// Fewer than the blocks of a batch of 8 MiB.
const FEW_ENTRIES: u32 = 1024;

/// Windows of runs that show the gain over time: two drive sizes of updates.
const WINDOWS: u32 = 80;

impl Setup {
    fn new(phase: Phase, victims: f64, mode: Mode) -> Self {
        let (batch_mib, entries) = (BATCH_MIB, ENTRIES);
        let (trims, sync, command_us) = (Trims::EveryBlock, false, COMMAND_US);
        let (spare, in_memory) = (PRESET, ALL);
        let model = SHIPPED;
        Self { model, phase, victims, mode, spare, batch_mib, entries, in_memory, trims, sync, command_us }
    }

    fn windows(&self) -> u32 {
        let shown = MODES.contains(&self.mode)
            && self.model == SHIPPED
            && !self.sync
            && self.command_us == COMMAND_US;
        if self.phase == Phase::Aged && self.victims == JUDGED && shown { WINDOWS } else { 1 }
    }
}

fn setups() -> Vec<Setup> {
    let mut setups = Vec::new();
    for victims in VICTIMS {
        for phase in [Phase::Aged, Phase::Sustained] {
            setups.extend(MODES.map(|mode| Setup::new(phase, victims, mode)));
        }
        setups.extend(SPARES.map(|spare| Setup { spare, ..Setup::new(Phase::Sustained, victims, LOGICAL) }));
    }
    for mode in [READ_WRITE, LOGICAL] {
        let judged = Setup::new(Phase::Sustained, JUDGED, mode);
        setups.extend(SPARES.map(|spare| Setup { spare, trims: Trims::CleanedSegments, ..judged }));
        setups.extend(BATCHES_MIB.map(|batch_mib| Setup { batch_mib, ..judged }));
    }
    // Fewer entries of the virtual map than the larger batches need.
    let few = Setup { entries: FEW_ENTRIES, ..Setup::new(Phase::Sustained, JUDGED, LOGICAL) };
    setups.extend(BATCHES_MIB.map(|batch_mib| Setup { batch_mib, ..few }));
    for mode in FILE_SYSTEMS {
        setups.extend(VICTIMS.map(|victims| Setup::new(Phase::Aged, victims, mode)));
        let judged = Setup::new(Phase::Aged, JUDGED, mode);
        setups.push(Setup { sync: true, ..judged });
        setups.extend(COMMANDS_US.map(|command_us| Setup { command_us, ..judged }));
    }
    for mode in [ORG, READ_WRITE, LOGICAL] {
        let inferred = Setup { command_us: INFERRED_US, ..Setup::new(Phase::Aged, JUDGED, mode) };
        setups.extend(PARTS.map(|in_memory| Setup { in_memory, ..inferred }));
    }
    for model in MODELS {
        for mode in FILE_SYSTEMS {
            setups.extend(VICTIMS.map(|victims| Setup { model, ..Setup::new(Phase::Aged, victims, mode) }));
            let judged = Setup { model, ..Setup::new(Phase::Aged, JUDGED, mode) };
            setups.push(Setup { sync: true, ..judged });
            setups.push(Setup { command_us: INFERRED_US, ..judged });
        }
    }
    // Several figures share a setup; it is simulated once.
    let mut once: Vec<Setup> = Vec::new();
    for setup in setups {
        if !once.contains(&setup) {
            once.push(setup);
        }
    }
    once
}

/// True if the user has set the command time, which then applies to all rows.
fn command_is_set(options: &Options) -> bool {
    options.sets.iter().any(|set| set.contains("controller.command_ns"))
}

fn make(options: &Options, bench: &Bench<'_>) -> Result<Made, PaperError> {
    let points: Vec<Point> =
        setups().into_iter().map(|setup| Point::new(setup, options)).collect::<Result<_, _>>()?;
    let measured =
        bench.points("logical-copy", &points, |point| measure::measure(point, options, bench.watch))?;
    let runs = Runs::new(points.iter().map(|point| point.setup).zip(&measured).collect());
    let found = recovery::measure(options)?;
    let premise = premise::measure(options)?;
    let mut made = Made {
        notes: notes(options.scale),
        claims: claims::all(&runs, &premise, command_is_set(options)),
        figures: vec![recovery::figure(&found), premise::figure(&premise)],
    };
    made.claims.extend(recovery::claims(&found));
    // A user's setting is equal in all rows, so a figure that varies it is dropped.
    let map_is_set =
        options.sets.iter().any(|set| set.contains("drive.ftl.mapping") || set.contains("translation"));
    let is_about_set = |figure: &str| match figure {
        "dftl" => map_is_set,
        "command-time" => command_is_set(options),
        _ => false,
    };
    made.figures.extend(
        figures::all(&runs, &premise, command_is_set(options))
            .into_iter()
            .filter(|figure| !is_about_set(&figure.figure)),
    );
    #[cfg(target_os = "linux")]
    let made = {
        let (benchmarks, notes) = kernel::measured(options, bench)?;
        let found = kernel_recovery::measured(options, bench)?;
        let claims = [kernel_recovery::claims(&found), kernel_claims::claims(&benchmarks)].concat();
        let mut figures = kernel_figures::figures(&benchmarks);
        figures.extend(kernel_recovery::figure(&found));
        made.and(Made { notes, claims, figures })
    };
    Ok(made)
}

fn notes(scale: Scale) -> Vec<String> {
    let mut notes: Vec<String> = [
        "a log-structured file system reduced to its commands, on the Jasmine board with its shipped firmware (preset \
         jasmine-shipped: 4 GiB, 7 % spare). Uniform updates of 16 KiB go to a log of 2 MiB segments. Cleaning takes the \
         four oldest segments: it moves live blocks by reads and writes of up to 128 KiB or by copies of up to 128 \
         ranges, at queue depth 32, then writes a checkpoint of 8 blocks, flushes, and trims the dead blocks",
        "v is the live share of cleaned segments, which decides the cost of cleaning: read and write programs 1/(1 - v) \
         blocks per block of data, five at v = 0.8; logical copy programs one, plus the drive's own collection and map. \
         The size of the files is set to give v. v is not the paper's u, the fill of its file system; claims are judged \
         at v = 0.8 because the paper's -80 % implies it",
        "the paper ages its file system until just before the first cleaning, then updates some 100 MiB (Tiobench); so \
         does lfs-clean. Such a window does not use up the 7 % of spare flash, and the drive collects nothing",
        "under sustained cleaning the drive does collect: a logical copy leaves the live blocks among dead ones, and the \
         drive later moves what the file system did not. The amount depends on the spare space: with 7 % the gain does \
         not last (figure sustained)",
        "sustained times suffer more than programs: this drive collects only when it must, a victim lies on one die, and \
         the map must be on flash before the victim is erased. The dies are less than half busy",
        "the map is in memory and in map pages on flash (durable_map). Map pages are programmed at flushes and when the \
         host opens a new block, as in the paper: cause map. The virtual map is cause meta, owners' lists are cause p2l",
        "figure models also has every claim of the drive alone on the earlier model: any bank, any order, a write-back \
         cache of 32 MB, a journal of map entries (preset jasmine-4g)",
        "the file system of lfs-clean writes no metadata except checkpoints; figures 3 and 4 use real file systems",
        "stand-ins without a kernel, with the same updates on a drive of the same age: ORG fills the dead blocks of old \
         segments instead of cleaning, segments with the most dead blocks first; EXT4 writes in place. Collection stops \
         the world, as in the board's firmware",
    ]
    .map(str::to_owned)
    .into();
    match scale {
        Scale::Full => {}
        Scale::Quick => notes.push(
            "QUICK: a quarter of the drive, with the same number of blocks and segments of a quarter of the size. Programs \
             for data are nearly the same, programs for the map more, as blocks are opened more often"
                .to_owned(),
        ),
        Scale::Tiny => notes.push("TINY: these numbers are meaningless".to_owned()),
    }
    notes
}
