//! Published experiments, run again: what the paper says beside what Strobe measures.
//!
//! A paper is a list of [`Claim`]s, sentences of it as numbers, each with a band declared before it was measured and a
//! verdict, and of [`Figure`]s, whose rows say where in the figure they stand and what was measured there. Both are pure
//! functions of the results of independent points, which worker threads run in any order and which a file may keep.

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

/// Version of the layout of [`PaperResult`]. Fields are only added within a version. Version 2 has claims apart from
/// figures.
pub const SCHEMA_VERSION: u32 = 2;

/// Share of the paper's experiment to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Scale {
    /// All of it.
    Full,
    /// Less of it: the notes of the result say what was left out. Figures differ from those in full.
    Quick,
    /// A drive of a few blocks, to try the machinery out: the numbers mean nothing.
    Tiny,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Share of the experiment.
    pub scale: Scale,
    /// Seed of everything random.
    pub seed: u64,
    /// Settings (`drive.key=value`) over those of every drive of the paper.
    pub sets: Vec<String>,
    /// True to run what needs a kernel for guests, if there is one.
    pub kernel: bool,
    /// File that keeps the points that are done.
    pub points: Option<PathBuf>,
    /// Settings of `sets` that a drive has taken.
    pub taken: Taken,
}

impl Options {
    /// `scale` of it with `seed`: drives as they are, with a kernel if there is one, nothing kept.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Self { scale, seed, sets: Vec::new(), kernel: true, points: None, taken: Taken::default() }
    }
}

/// Why a paper gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// One of its experiments failed.
    #[error("{run}: {error}")]
    Run {
        /// Name of the run.
        run: String,
        /// Why.
        error: Box<RunError>,
    },
    /// A setting does not fit one of its drives.
    #[error(transparent)]
    Set(Box<ConfigError>),
    /// A setting counts for none of its drives.
    #[error("no drive of this paper takes it: {0}")]
    NoDrive(Arc<ConfigError>),
    /// A setting that is not about drives.
    #[error("--set {0}: a paper says what is done; only keys of its drives (drive.KEY=VALUE) can be set")]
    NotDrive(String),
    /// A file workload did not run to its end.
    #[error("{run}: {error}")]
    Files {
        /// Name of the run.
        run: String,
        /// Why.
        error: Box<FileWorkloadError>,
    },
    /// A guest did not run to its end.
    #[cfg(target_os = "linux")]
    #[error("{run}: {error}")]
    Guest {
        /// Name of the run.
        run: String,
        /// Why.
        error: Box<strobe_linux::command::LinuxRunError>,
    },
    /// Finished points cannot be used or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stopped by whoever watched.
    #[error("interrupted; a paper gives no partial result")]
    Interrupted,
}

impl PaperError {
    /// A failure of the experiment `run`.
    pub(crate) fn run(run: String, error: RunError) -> Self {
        Self::Run { run, error: Box::new(error) }
    }

    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        match self {
            PaperError::Run { error, .. } => error.is_bad_request(),
            PaperError::Store(error) => error.is_bad_request(),
            PaperError::Set(_) | PaperError::NoDrive(_) | PaperError::NotDrive(_) => true,
            _ => false,
        }
    }
}

/// A paper that can be run again.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Authors, place and year.
    pub authors: &'static str,
    /// Results that are reproduced.
    pub reproduces: &'static str,
    /// Time on two cores, quick and in full, and the parts that need a kernel for guests.
    pub takes: &'static str,
    make: fn(&Options, &Bench<'_>) -> Result<Made, PaperError>,
}

/// Results of a paper's own code.
#[derive(Default)]
struct Made {
    notes: Vec<String>,
    claims: Vec<Claim>,
    figures: Vec<Figure>,
}

impl Made {
    /// Together with `more`.
    fn and(mut self, more: Made) -> Self {
        self.notes.extend(more.notes);
        self.claims.extend(more.claims);
        self.figures.extend(more.figures);
        self
    }
}

/// Every paper.
pub const PAPERS: &[Paper] = &[capi::PAPER, logical_copy::PAPER, nvram::PAPER, placement::PAPER, trim::PAPER];

/// The paper called `name`.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

/// The claims and figures of a paper, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Name of the paper.
    pub paper: String,
    /// True if less was simulated than the paper did; `notes` says what.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Settings over those of the paper's drives.
    pub sets: Vec<String>,
    /// Notes on all figures.
    pub notes: Vec<String>,
    /// Claims of the paper, with verdicts.
    pub claims: Vec<Claim>,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// Reason why a text is not the result of a paper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultProblem {
    /// It is not JSON of this layout.
    #[error("not the result of a paper (`strobe paper NAME --json FILE` writes one): {0}")]
    Form(#[from] serde_json::Error),
    /// Its layout has another version.
    #[error("its schema_version is {0}, this program reads {SCHEMA_VERSION}; run the paper again")]
    Version(u32),
    /// It is that of another paper.
    #[error("it is a result of the paper \"{0}\": strobe paper {0} --from FILE")]
    Paper(String),
    /// A verdict is not the one of its number.
    #[error("\"{claim}\" has the verdict \"{verdict}\", which {measured:?} is not within its band")]
    Verdict {
        /// The claim.
        claim: String,
        /// Its verdict.
        verdict: &'static str,
        /// Its measured value.
        measured: Option<f64>,
    },
}

impl PaperResult {
    /// Claims with each verdict: numbers of the paper, or its directions.
    pub fn tally(&self, verdict: Verdict, are_numbers: bool) -> usize {
        let is_counted = |claim: &&Claim| claim.verdict == verdict && claim.is_number() == are_numbers;
        self.claims.iter().filter(is_counted).count()
    }

    /// The result that `json` holds. Verdicts are compared with their numbers and bands.
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
    /// Runs everything, on as many threads as the machine offers. The result does not depend on
    /// how many those are, nor on what was kept of an earlier run.
    pub fn run(&self, options: &Options, watch: &dyn Watch) -> Result<PaperResult, PaperError> {
        // The key of a point has its model and its drive: one file serves all scales and seeds of a paper.
        let of = format!("paper {}", self.name);
        let store = options.points.as_deref().map(|path| Store::open(path, &of)).transpose()?;
        let bench = Bench { watch, store: store.map(Mutex::new), taken: &options.taken };
        let Made { mut notes, claims, figures } = (self.make)(options, &bench)?;
        if !options.sets.is_empty() {
            notes.insert(0, format!("NOT THE PAPER'S DRIVE: {} is set over it", options.sets.join(", ")));
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

/// The drive of `preset`, with what is different about it, and what the user sets over that.
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
