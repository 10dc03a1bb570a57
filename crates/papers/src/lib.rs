//! Reproduction of published experiments: the paper's statements compared with Strobe's measurements.
//!
//! A paper is a list of [`Claim`]s and [`Figure`]s. A claim is a statement as a number, with a band of
//! accepted values and a verdict. A figure has rows with coordinates and measured values. Claims and
//! figures are pure functions of the results of independent points, which run in any order.
//!
//! Numbers, bands and reasons are in `claims.toml` in the folder of a paper, measured values in its
//! `claims.rs`. A page for each paper is in `docs/papers/`.

mod capi;
pub mod claim;
mod figure;
#[cfg(target_os = "linux")]
mod guest;
mod logical_copy;
#[cfg(target_os = "linux")]
mod mean;
mod nvram;
mod placement;
mod pool;
mod sets;
mod table;
mod trim;

pub use claim::{Band, Claim, Quote, Verdict};
pub use figure::{Figure, Row, View};
pub use sets::Taken;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_lab::points::{Store, StoreError, Watch};
use strobe_lab::{ConfigError, RunError};
use strobe_ssd::{BuildError, DriveConfig};
use strobe_workload::files::FileWorkloadError;

use pool::Bench;

/// Layout version of [`PaperResult`]. Within a version fields are only added. Version 2 separates claims from
/// figures.
pub const SCHEMA_VERSION: u32 = 2;

/// Share of the paper's experiment to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Scale {
    /// Full experiment.
    Full,
    /// Reduced experiment; notes of the result list the reductions. Its figures differ from the full ones.
    Quick,
    /// A drive of a few blocks for tests; its numbers are meaningless.
    Tiny,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Share of the experiment.
    pub scale: Scale,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Settings (`drive.key=value`) applied to every drive of the paper.
    pub sets: Vec<String>,
    /// True to run parts that need a guest kernel, if one is installed.
    pub kernel: bool,
    /// File of finished points, for resuming.
    pub points: Option<PathBuf>,
    /// Settings of `sets` that a drive has accepted.
    pub taken: Taken,
}

impl Options {
    /// Default options: drives unchanged, kernel used if installed, no file of points.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Self { scale, seed, sets: Vec::new(), kernel: true, points: None, taken: Taken::default() }
    }
}

/// Error of a paper run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// An experiment failed.
    #[error("{run}: {error}")]
    Run {
        /// Name of the run.
        run: String,
        /// Cause.
        error: Box<RunError>,
    },
    /// A setting does not fit one of the drives.
    #[error(transparent)]
    Set(Box<ConfigError>),
    /// A setting has no effect on any of the drives.
    #[error("no drive of this paper uses this key: {0}")]
    NoDrive(Arc<ConfigError>),
    /// A setting does not concern drives.
    #[error("--set {0}: the paper fixes the workload; only keys of its drives (drive.KEY=VALUE) can be set")]
    NotDrive(String),
    /// A file workload failed.
    #[error("{run}: {error}")]
    Files {
        /// Name of the run.
        run: String,
        /// Cause.
        error: Box<FileWorkloadError>,
    },
    /// A guest failed.
    #[cfg(target_os = "linux")]
    #[error("{run}: {error}")]
    Guest {
        /// Name of the run.
        run: String,
        /// Cause.
        error: Box<strobe_linux::command::LinuxRunError>,
    },
    /// The file of finished points cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The watcher asked to stop.
    #[error("interrupted; a paper has no partial result")]
    Interrupted,
}

impl PaperError {
    pub(crate) fn run(run: String, error: RunError) -> Self {
        Self::Run { run, error: Box::new(error) }
    }

    /// True if the request was invalid; false if its execution failed.
    pub fn is_bad_request(&self) -> bool {
        match self {
            PaperError::Run { error, .. } => error.is_bad_request(),
            PaperError::Store(error) => error.is_bad_request(),
            PaperError::Set(_) | PaperError::NoDrive(_) | PaperError::NotDrive(_) => true,
            _ => false,
        }
    }
}

/// A reproducible paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// Title of the paper.
    pub title: &'static str,
    /// Authors, venue and year.
    pub authors: &'static str,
    /// Reproduced results.
    pub reproduces: &'static str,
    /// Run time on two cores, quick and full, and the parts that need a guest kernel.
    pub takes: &'static str,
    make: fn(&Options, &Bench<'_>) -> Result<Made, PaperError>,
}

#[derive(Default)]
struct Made {
    notes: Vec<String>,
    claims: Vec<Claim>,
    figures: Vec<Figure>,
}

impl Made {
    fn and(mut self, more: Made) -> Self {
        self.notes.extend(more.notes);
        self.claims.extend(more.claims);
        self.figures.extend(more.figures);
        self
    }
}

/// All papers.
pub const PAPERS: &[Paper] = &[capi::PAPER, logical_copy::PAPER, nvram::PAPER, placement::PAPER, trim::PAPER];

/// Returns the paper called `name`.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

/// Measured claims and figures of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe.
    pub strobe_version: String,
    /// Name of the paper.
    pub paper: String,
    /// True if the run was reduced; `notes` list the reductions.
    pub quick: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Settings applied to the paper's drives.
    pub sets: Vec<String>,
    /// Notes on all figures.
    pub notes: Vec<String>,
    /// Claims with verdicts.
    pub claims: Vec<Claim>,
    /// Figures of the paper.
    pub figures: Vec<Figure>,
}

/// Reason why a text is not a valid result of a paper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultProblem {
    /// Not JSON of this layout.
    #[error("not the result of a paper (`strobe paper NAME --json FILE` writes one): {0}")]
    Form(#[from] serde_json::Error),
    /// Layout of another version.
    #[error("schema_version is {0}, but this program reads {SCHEMA_VERSION}; run the paper again")]
    Version(u32),
    /// Result of another paper.
    #[error("the file has the result of the paper \"{0}\": use strobe paper {0} --from FILE")]
    Paper(String),
    /// A verdict contradicts its number.
    #[error(
        "\"{claim}\" has the verdict \"{verdict}\", which contradicts its measured value {measured:?} and its band"
    )]
    Verdict {
        /// Text of the claim.
        claim: String,
        /// Verdict in the text.
        verdict: &'static str,
        /// Measured value in the text.
        measured: Option<f64>,
    },
}

impl PaperResult {
    /// Number of claims with `verdict`, counting either numbers or directions.
    pub fn tally(&self, verdict: Verdict, are_numbers: bool) -> usize {
        let is_counted = |claim: &&Claim| claim.verdict == verdict && claim.is_number() == are_numbers;
        self.claims.iter().filter(is_counted).count()
    }

    /// Parses a result from `json` and checks verdicts against numbers and bands.
    pub fn from_json(json: &str, paper: &str) -> Result<Self, ResultProblem> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let Version { schema_version } = serde_json::from_str(json)?;
        if schema_version != SCHEMA_VERSION {
            return Err(ResultProblem::Version(schema_version));
        }
        let result: Self = serde_json::from_str(json)?;
        if result.paper != paper {
            return Err(ResultProblem::Paper(result.paper));
        }
        if let Some(Claim { claim, verdict, measured, .. }) =
            result.claims.iter().find(|claim| !claim.is_consistent())
        {
            let (claim, verdict) = (claim.clone(), verdict.name());
            return Err(ResultProblem::Verdict { claim, verdict, measured: *measured });
        }
        Ok(result)
    }
}

impl Paper {
    /// Runs all points on all cores. The result depends neither on the number of threads nor on points of an
    /// earlier run.
    pub fn run(&self, options: &Options, watch: &dyn Watch) -> Result<PaperResult, PaperError> {
        // Point keys include model and drive: one file serves all scales and seeds of a paper.
        let of = format!("paper {}", self.name);
        let store = options.points.as_deref().map(|path| Store::open(path, &of)).transpose()?;
        let bench = Bench { watch, store: store.map(Mutex::new), taken: &options.taken };
        let Made { mut notes, claims, figures } = (self.make)(options, &bench)?;
        if !options.sets.is_empty() {
            notes.insert(0, format!("NOT THE PAPER'S DRIVE: it is changed by {}", options.sets.join(", ")));
        }
        Ok(PaperResult {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            paper: self.name.to_owned(),
            quick: options.scale != Scale::Full,
            seed: options.seed,
            sets: options.sets.clone(),
            notes,
            claims,
            figures,
        })
    }
}

fn drive(
    preset: &str,
    options: &Options,
    change: impl FnOnce(&mut DriveConfig),
) -> Result<DriveConfig, PaperError> {
    let refused = |error: RunError| PaperError::Run { run: preset.to_owned(), error: Box::new(error) };
    let before = DriveConfig::preset(preset).map_err(|error| refused(BuildError::from(error).into()))?;
    let mut drive = before.clone();
    change(&mut drive);
    if options.sets.is_empty() { Ok(drive) } else { sets::over(preset, &before, drive, options) }
}
