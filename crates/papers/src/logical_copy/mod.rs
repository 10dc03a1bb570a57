//! Logical copy: Kang, Han and Shin. Segment cleaning by reading and writing against copy commands that only
//! change the drive's map: the drive alone, and F2FS and ext4 on it.

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

/// Claims of the paper, and bands for them.
pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "logical-copy",
    title: "Improving the Performance of Log-Structured File Systems Using Logical Copy Technique",
    authors: "Yunji Kang, Kyuhwa Han, Dongkun Shin (in Korean)",
    reproduces: "segment cleaning as the drive sees it (lfs-clean), beside what the text says of figures 3 and 4; \
                 these figures, F2FS and ext4 on a real kernel; what the time of a command is worth",
    takes: "40 seconds with --quick, three minutes in full; with a kernel for guests (make kernel) also figures 3 \
            and 4: some minutes more with --quick, about 40 minutes in full",
    make,
};

/// Model of the board.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Model {
    name: &'static str,
    preset: &'static str,
    /// Form of the map, if not that of the preset.
    #[serde(skip)]
    map: Option<DurableMap>,
}

/// The board with its shipped firmware: what claims are judged on.
const SHIPPED: Model = Model { name: "shipped firmware", preset: "jasmine-shipped", map: None };
/// The model of before: any bank, any order, 32 MB of write-back cache, a map in a journal.
const JOURNAL: Model = Model { name: "journal", preset: "jasmine-4g", map: Some(DurableMap::Journal) };
/// The model of before with the map in pages.
const MAP_PAGES: Model = Model { name: "map pages", preset: "jasmine-4g", map: Some(DurableMap::Pages) };
const MODELS: [Model; 3] = [JOURNAL, MAP_PAGES, SHIPPED];

/// Way that live blocks are moved, and the drive's handling of copy commands.
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
/// F2FS as it comes: no cleaning, dead blocks are filled.
const ORG: Mode = Mode { name: "ORG", cleaning: Cleaning::Threaded, copy_mode: CopyMode::Physical };
const EXT4: Mode = Mode { name: "EXT4", cleaning: Cleaning::InPlace, copy_mode: CopyMode::Physical };
/// As the paper's bars: NL-RW and NL-LC are read and write, and logical copy.
const FILE_SYSTEMS: [Mode; 4] = [EXT4, ORG, READ_WRITE, LOGICAL];

/// v, the live share of the segments that are cleaned, on which cleaning depends: 1 block per 1 − v new ones is
/// written again. Not the paper's u, the fill of its file system, which is higher.
const VICTIMS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// The v at which claims are judged. Chosen because the paper's −80 % implies it: at v read and write programs 1/(1 − v)
/// pages per page of data, logical copy at best one.
const JUDGED: f64 = 0.8;

/// Time that the drive takes up a command in, in µs: that of the preset, which has no source, and up to what a TRIM
/// command takes on the same board.
const COMMANDS_US: [u32; 6] = [20, 50, 100, 150, 176, 200];
/// Of the preset.
const COMMAND_US: u32 = 20;
/// The one time of a command that can be inferred for this board: the TRIM paper has about 200 µs for a TRIM on another
/// drive, says that this board is alike, and that 64 ranges in a command save 92.3 %. That other commands take as long is
/// assumed.
const INFERRED_US: u32 = 176;

/// Flash beyond what the drive offers, in blocks per plane, of which that takes 512.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spare {
    name: &'static str,
    blocks: u32,
}

/// Of the preset.
const PRESET: Spare = Spare { name: "7 %", blocks: 38 };
/// The last is a board of which half of the flash is used.
const SPARES: [Spare; 4] = [
    PRESET,
    Spare { name: "15 %", blocks: 77 },
    Spare { name: "28 %", blocks: 143 },
    Spare { name: "100 %", blocks: 512 },
];

/// Share of the map in the drive's memory; the rest is loaded when it is needed (DFTL).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct InMemory {
    name: &'static str,
    /// One of so many entries.
    part: u32,
}

/// The page map has all of them.
const ALL: InMemory = InMemory { name: "all", part: 1 };
const PARTS: [InMemory; 4] = [
    ALL,
    InMemory { name: "1/2", part: 2 },
    InMemory { name: "1/8", part: 8 },
    InMemory { name: "1/64", part: 64 },
];

/// When it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Phase {
    /// As in the paper: right after ageing, which ends just before the first cleaning.
    Aged,
    /// When the file system has cleaned and the drive collected for long.
    Sustained,
}

/// One file system on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Setup {
    model: Model,
    phase: Phase,
    victims: f64,
    mode: Mode,
    spare: Spare,
    /// MiB of segments that are cleaned before each checkpoint.
    batch_mib: u32,
    /// Entries of the virtual map.
    entries: u32,
    /// Map entries in memory.
    in_memory: InMemory,
    told: Trims,
    /// True if every update is flushed.
    sync: bool,
    /// Time that the drive takes up a command in, in µs.
    command_us: u32,
}

/// MiB of segments cleaned before each checkpoint: where nothing else is said, and all that are tried.
const BATCH_MIB: u32 = 8;
const BATCHES_MIB: [u32; 3] = [2, 8, 16];

/// Entries of the virtual map: one for each block of the largest batch, and fewer than 8 MiB need.
const ENTRIES: u32 = 4096;
const FEW_ENTRIES: u32 = 1024;

/// Windows of the runs that show what becomes of the gain: twice the drive is updated.
const WINDOWS: u32 = 80;

impl Setup {
    fn new(phase: Phase, victims: f64, mode: Mode) -> Self {
        let (batch_mib, entries) = (BATCH_MIB, ENTRIES);
        let (told, sync, command_us) = (Trims::EveryBlock, false, COMMAND_US);
        let (spare, in_memory) = (PRESET, ALL);
        let model = SHIPPED;
        Self { model, phase, victims, mode, spare, batch_mib, entries, in_memory, told, sync, command_us }
    }

    fn windows(&self) -> u32 {
        let shown = MODES.contains(&self.mode)
            && self.model == SHIPPED
            && !self.sync
            && self.command_us == COMMAND_US;
        if self.phase == Phase::Aged && self.victims == JUDGED && shown { WINDOWS } else { 1 }
    }
}

/// Everything that a figure asks for.
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
        setups.extend(SPARES.map(|spare| Setup { spare, told: Trims::CleanedSegments, ..judged }));
        setups.extend(BATCHES_MIB.map(|batch_mib| Setup { batch_mib, ..judged }));
    }
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
    let mut once: Vec<Setup> = Vec::new();
    for setup in setups {
        if !once.contains(&setup) {
            once.push(setup);
        }
    }
    once
}

/// True if somebody has set the time of a command: then it is that in all rows.
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
    // What somebody has set is the same in all rows of a figure that is about it.
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
        "a log-structured file system reduced to its commands, on the Jasmine board with its shipped firmware (preset jasmine-shipped: 4 GiB, 7 % spare): 16 KiB \
         updates, all extents alike, go to a log of 2 MiB segments; the four oldest ones at a time are cleaned: \
         live blocks moved by reads and writes of up to 128 KiB or by copies of up to 128 ranges, 32 commands \
         at a time, then a checkpoint of 8 blocks, a flush, trims of what is dead",
        "v is the live share of cleaned segments, on which the cost of cleaning depends: read and write programs \
         1/(1 - v) blocks per block of data, at v = 0.8 five; logical copy one, and what the drive's own collection \
         and map take. Files are given the size at which v comes out. It is not the paper's u, the fill of its file \
         system, and v = 0.8 is judged because the paper's -80 % implies it",
        "the paper ages its file system until just before the first cleaning, then updates some 100 MiB \
         (Tiobench). So does lfs-clean. In such a window the 7 % of spare flash are not used up, and the drive \
         has nothing to collect",
        "a drive whose file system goes on cleaning has: after a logical copy the live blocks lie where they lay, \
         dead ones around them, and in the end the drive moves what the file system did not. How much depends on \
         its spare space: with 7 % the gain does not last (figure sustained)",
        "sustained times suffer more than programs: this drive collects only when it has to, a victim lies on one \
         die, and the map must be on flash before it is erased; all dies together are less than half busy",
        "the map is in memory and in map pages on flash (durable_map), programmed at flushes and when the host's open \
         block is exchanged, as the paper has it: cause map. Cause meta: owners' lists (P2L) and the virtual map",
        "figure models has every claim of the drive alone on the model of before, too: any bank, any order, a write-back \
         cache of 32 MB, a journal of map entries (preset jasmine-4g)",
        "the file system of lfs-clean writes no metadata but its checkpoints; figures 3 and 4 are a real one",
        "beside it ORG fills the dead blocks of old segments instead of cleaning, those with the most first, and EXT4 writes \
         in place: the same updates on a drive of the same age, a stand-in where there is no kernel. Collection stops the \
         world, as in the board's firmware",
    ]
    .map(str::to_owned)
    .into();
    match scale {
        Scale::Full => {}
        Scale::Quick => notes.push(
            "QUICK: a quarter of the drive, as many blocks and segments of a quarter of the size; programs for data \
             are nearly the same, those for the map more, as blocks are opened more often"
                .to_owned(),
        ),
        Scale::Tiny => notes.push("TINY: too little to mean anything".to_owned()),
    }
    notes
}
