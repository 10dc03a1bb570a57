//! Published experiments, run again: what the paper says beside what Strobe measures.
//!
//! A paper is a list of [`Figure`]s; each is a pure function of the results of independent
//! experiments, which worker threads run in any order. Every [`Row`] says where in the figure it
//! stands, what the paper says there, what was measured, within which limits the two count as
//! agreeing, and whether they do.

mod capi;
mod figure;
#[cfg(target_os = "linux")]
mod guest;
mod logical_copy;
mod nvram;
mod pool;
mod trim;

pub use figure::{Figure, Row, Verdict, View};

use schemars::JsonSchema;
use serde::Serialize;
use strobe_lab::RunError;
use strobe_ssd::{BuildError, DriveConfig};
use strobe_workload::files::FileWorkloadError;

/// Version of the layout of [`PaperResult`]. Fields are only added within a version.
pub const SCHEMA_VERSION: u32 = 1;

/// How much of the paper's experiment to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// All of it.
    Full,
    /// Less of it, with nearly the same ratios: the notes of the result say what was left out.
    Quick,
    /// A drive of a few blocks, to try the machinery out: the numbers mean nothing.
    Tiny,
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much of it.
    pub scale: Scale,
    /// Seed of everything random.
    pub seed: u64,
}

/// Watches the runs of a paper from several threads; may stop them.
pub trait Watch: Sync {
    /// `done` of `total` runs are complete.
    fn progress(&self, done: usize, total: usize);
    /// Whether to stop.
    fn stopped(&self) -> bool;
}

/// Watches nothing.
impl Watch for () {
    fn progress(&self, _: usize, _: usize) {}
    fn stopped(&self) -> bool {
        false
    }
}

/// Why a paper gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// One of its experiments failed.
    #[error("{run}: {error}")]
    Run {
        /// Which.
        run: String,
        /// Why.
        error: Box<RunError>,
    },
    /// A file workload did not run to its end.
    #[error("{run}: {error}")]
    Files {
        /// Which.
        run: String,
        /// Why.
        error: Box<FileWorkloadError>,
    },
    /// A guest did not run to its end.
    #[cfg(target_os = "linux")]
    #[error("{run}: {error}")]
    Guest {
        /// Which.
        run: String,
        /// Why.
        error: Box<strobe_lab::linux::LinuxRunError>,
    },
    /// Stopped by whoever watched.
    #[error("interrupted; a paper gives no partial result")]
    Interrupted,
}

/// A paper that can be run again.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Who wrote it, where and when it appeared.
    pub authors: &'static str,
    /// Which of its results are reproduced.
    pub reproduces: &'static str,
    make: fn(&Options, &dyn Watch) -> Result<Made, PaperError>,
}

/// What a paper's own code makes.
struct Made {
    notes: Vec<String>,
    figures: Vec<Figure>,
}

#[cfg(target_os = "linux")]
impl Made {
    /// Together with what was measured on a kernel.
    fn and(mut self, (figures, notes): (Vec<Figure>, Vec<String>)) -> Self {
        self.figures.extend(figures);
        self.notes.extend(notes);
        self
    }
}

/// Every paper.
pub const PAPERS: &[Paper] = &[capi::PAPER, logical_copy::PAPER, nvram::PAPER, trim::PAPER];

/// The paper called `name`.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

/// The figures of a paper, measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PaperResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Name of the paper.
    pub paper: String,
    /// Whether less was simulated than the paper did; `notes` says what.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// What holds for all figures.
    pub notes: Vec<String>,
    /// The figures.
    pub figures: Vec<Figure>,
}

impl Paper {
    /// Runs everything, on as many threads as the machine offers. The result does not depend on
    /// how many those are.
    pub fn run(&self, options: &Options, watch: &dyn Watch) -> Result<PaperResult, PaperError> {
        let Made { notes, figures } = (self.make)(options, watch)?;
        Ok(PaperResult {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            paper: self.name.to_owned(),
            quick: options.scale != Scale::Full,
            seed: options.seed,
            notes,
            figures,
        })
    }
}

/// The drive of `preset`, with what is different about it.
fn drive(preset: &str, change: impl FnOnce(&mut DriveConfig)) -> Result<DriveConfig, PaperError> {
    let refused = |error: RunError| PaperError::Run { run: preset.to_owned(), error: Box::new(error) };
    let mut drive = DriveConfig::preset(preset).map_err(|error| refused(BuildError::from(error).into()))?;
    change(&mut drive);
    Ok(drive)
}
