//! Logical copy: Kang, Han and Shin. Segment cleaning by reading and writing against copy commands that only
//! change the drive's map: the drive alone, and F2FS and ext4 on it.

mod figures;
#[cfg(target_os = "linux")]
mod kernel;
mod lfs;
mod measure;

use strobe_ssd::CopyMode;

use super::{Made, Options, Paper, PaperError, Scale, Watch, pool};
use lfs::{Cleaning, Told};

pub(super) const PAPER: Paper = Paper {
    name: "logical-copy",
    title: "Improving the Performance of Log-Structured File Systems Using Logical Copy Technique",
    authors: "Yunji Kang, Kyuhwa Han, Dongkun Shin (in Korean)",
    reproduces: "segment cleaning as the drive sees it (lfs-clean), beside what the text says of figures 3 and 4; \
                 these figures, F2FS and ext4 on a real kernel",
    make,
};

/// How live blocks are moved, and what the drive makes of copy commands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mode {
    name: &'static str,
    cleaning: Cleaning,
    copy_mode: CopyMode,
}

const READ_WRITE: Mode =
    Mode { name: "read and write", cleaning: Cleaning::ReadWrite, copy_mode: CopyMode::Physical };
const PHYSICAL: Mode =
    Mode { name: "physical copy", cleaning: Cleaning::Copy, copy_mode: CopyMode::Physical };
const LOGICAL: Mode = Mode { name: "logical copy", cleaning: Cleaning::Copy, copy_mode: CopyMode::Logical };
const MODES: [Mode; 3] = [READ_WRITE, PHYSICAL, LOGICAL];

/// Live share u of the segments that are cleaned. In the literature this is the utilisation of which
/// cleaning depends (1 block per 1 − u new ones is written again); that of the file system is higher.
const VICTIMS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// The share at which the bands hold.
const JUDGED: f64 = 0.8;

/// Flash beyond what the drive offers, in blocks per plane, of which that takes 512.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// When it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// As in the paper: right after ageing, which ends just before the first cleaning.
    Aged,
    /// When the file system has cleaned and the drive collected for long.
    Sustained,
}

/// One file system on one drive.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setup {
    phase: Phase,
    victims: f64,
    mode: Mode,
    spare: Spare,
    /// MiB of segments that are cleaned before each checkpoint.
    batch_mib: u32,
    /// Entries of the virtual map.
    entries: u32,
    told: Told,
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
        Self { phase, victims, mode, spare: PRESET, batch_mib, entries, told: Told::EveryBlock }
    }

    fn windows(&self) -> u32 {
        if self.phase == Phase::Aged && self.victims == JUDGED { WINDOWS } else { 1 }
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
        setups.extend(SPARES.map(|spare| Setup { spare, told: Told::CleanedSegments, ..judged }));
        setups.extend(BATCHES_MIB.map(|batch_mib| Setup { batch_mib, ..judged }));
    }
    let few = Setup { entries: FEW_ENTRIES, ..Setup::new(Phase::Sustained, JUDGED, LOGICAL) };
    setups.extend(BATCHES_MIB.map(|batch_mib| Setup { batch_mib, ..few }));
    let mut once: Vec<Setup> = Vec::new();
    for setup in setups {
        if !once.contains(&setup) {
            once.push(setup);
        }
    }
    once
}

fn make(options: &Options, watch: &dyn Watch) -> Result<Made, PaperError> {
    let measured = pool::in_parallel(&setups(), watch, |setup| measure::measure(setup, options, watch))?;
    let made = Made { notes: notes(options.scale), figures: figures::all(&measured) };
    #[cfg(target_os = "linux")]
    let made = made.and(kernel::figures(options, watch)?);
    Ok(made)
}

fn notes(scale: Scale) -> Vec<String> {
    let mut notes: Vec<String> = [
        "a log-structured file system reduced to its commands, on the Jasmine preset (4 GiB, 7 % spare): 16 KiB \
         updates, all extents alike, go to a log of 2 MiB segments; the four oldest ones at a time are cleaned: \
         live blocks moved by reads and writes of up to 128 KiB or by copies of up to 128 ranges, 32 commands \
         at a time, then a checkpoint of 8 blocks, a flush, trims of what is dead",
        "u is the live share of cleaned segments, on which the cost of cleaning depends: read and write programs \
         1/(1 - u) blocks per block of data, at u = 0.8 five; logical copy one, and what the drive's own collection \
         and map take. Files are given the size at which u comes out; both are shown",
        "the paper ages its file system until just before the first cleaning, then updates some 100 MiB \
         (Tiobench). So does lfs-clean. In such a window the 7 % of spare flash are not used up, and the drive \
         has nothing to collect",
        "a drive whose file system goes on cleaning has: after a logical copy the live blocks lie where they lay, \
         dead ones around them, and in the end the drive moves what the file system did not. How much depends on \
         its spare space. That the sustained runs miss the bands is meant as it says: with 7 % the gain does not last",
        "sustained times suffer more than programs: this drive collects only when it has to, a victim lies on one \
         die, and the map must be on flash before it is erased; all dies together are less than half busy",
        "the map and the virtual map are on flash (durable_map), written at flushes, before a block is opened and \
         before one is erased, as the paper's are: causes map and meta",
        "the file system of lfs-clean writes no metadata but its checkpoints; figures 3 and 4 are a real one. Bands are \
         this project's, not the paper's",
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
