//! From measurements to a drive.
//!
//! A fit changes [`PARAMETERS`] of a drive until it shows what was measured on the rows that it is told; the other rows
//! are held out, and say how far the result can be trusted. It asks the same drive the same questions with the same random
//! numbers every time, so that it comes to the same result on every machine, whether it was stopped on the way or not.

mod over_provisioning;
mod parameters;
mod preset;
mod resize;
mod search;

pub use parameters::{PARAMETERS, Parameter, shown};
pub use preset::{is_preset, preset};
pub use resize::resize;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_lab::points::{self, Store, StoreError, Watch};
use strobe_ssd::{DriveConfig, kept_blocks};

use self::search::{Point, Problem};
use crate::Effort;
use crate::check::{Check, Figure, check_on, judged, question, rows_of};
use crate::measurements::{Addresses, Figures, Measurement, Measurements};
use crate::twin::{Question, Twin, TwinError};

/// Rows below saturation that a fit needs at least.
pub const ROWS_MIN: usize = 4;
/// Largest weight of a row, as a multiple of the tolerance: beyond it an error counts by its logarithm only. A row that
/// no parameter explains must not bend all others.
const WEIGHT_MAX: f64 = 3.0;
/// Factor by which a figure counts as wrong that a drive does not show at all, as it completes nothing.
const MISSING: f64 = 1000.0;
/// Parameters with less effect than this, as a share of what is tolerated for each unit of their logarithm, cannot be told.
const EFFECT_MIN: f64 = 0.15;
/// Largest weight of a figure in this: where a buffer is full all at once, any parameter changes everything.
const EFFECT_MAX: f64 = 3.0;
/// Cosine of two parameters' effects from which on they cannot be told apart.
const ALIKE: f64 = 0.97;

/// Rows that are held out of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// Every third rate.
    Third,
    /// The upper half of the rates.
    Upper,
    /// None: then nothing is known of how good it predicts.
    None,
}

/// Options of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The drive to begin with; what no parameter changes stays as it is.
    pub base: DriveConfig,
    /// Keys of it that stay as they are though a fit could change them, as "controller.write_pace_ns".
    pub kept: Vec<String>,
    /// Rows that are held out.
    pub held_out: HeldOut,
    /// Rounds of the search; each asks some 20 times.
    pub rounds: u32,
    /// Amount of simulation for each point.
    pub effort: Effort,
    /// Amount of simulation for the errors that are stated.
    pub effort_at_end: Effort,
    /// Seed of everything random.
    pub seed: u64,
    /// File of finished simulations, from which a fit that was stopped goes on.
    pub memory: Option<PathBuf>,
}

/// Why a fit came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// There is too little to go by.
    #[error(
        "{rows} rows with p50 and p99 of reads are below saturation, a fit needs {ROWS_MIN}; {saturated} rows do not count as \
         they complete less than they offer, or more than 95 % of the most{}, {bare} as read_p50_us or read_p99_us is empty: \
         measure at more rates, or add what is missing",
        if *rows + *bare == 0 { " (is completed_s in another unit? It is requests a second)" } else { "" }
    )]
    TooFew {
        /// Number of usable rows.
        rows: usize,
        /// Number of rows at or beyond saturation.
        saturated: usize,
        /// Number of rows that lack a percentile.
        bare: usize,
    },
    /// A drive.
    #[error(transparent)]
    Twin(#[from] TwinError),
    /// Simulations of an earlier attempt cannot be used or kept.
    #[error(transparent)]
    Memory(#[from] StoreError),
}

/// A parameter as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// True if it was given, and not fitted.
    pub is_kept: bool,
    /// Effect on the figures: root of the sum of squares of the change of all errors, as a multiple of
    /// what is tolerated, for a change of the parameter by a factor of e.
    pub effect: f64,
}

/// A drive, and how far it can be trusted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fit {
    /// The drive.
    #[serde(skip)]
    pub drive: DriveConfig,
    /// Its parameters.
    pub found: Vec<Found>,
    /// Parameters that the measurements say nothing about.
    pub untold: Vec<&'static str>,
    /// Pairs of parameters that the measurements cannot tell apart.
    pub alike: Vec<Pair>,
    /// The rows it was fitted to.
    pub fitted: Check,
    /// Rows that it was not fitted to.
    pub held_out: Check,
    /// Drives that were simulated for it.
    pub evaluations: usize,
}

/// Figures of every drive that was simulated, row by row: nothing is simulated twice.
type Memory = Store<Vec<Figures>>;

/// The memory of the fit of `options` to the rows `fitted`.
fn memory(
    options: &FitOptions,
    measurements: &Measurements,
    fitted: &[Measurement],
) -> Result<Memory, StoreError> {
    let Some(path) = &options.memory else { return Ok(Memory::default()) };
    let FitOptions { base, effort, seed, .. } = options;
    let inputs = format!("{:?} {fitted:?} {effort:?} {seed}", measurements.capacity_bytes);
    let inputs = points::key("fit", &(inputs, base));
    Memory::open(path, &format!("fit, model {}, inputs {inputs}", strobe_lab::MODEL))
}

/// Looks for the drive of which `measurements` could be.
pub fn fit(measurements: &Measurements, options: &FitOptions, watch: &dyn Watch) -> Result<Fit, FitError> {
    let (fitted, held_out) = split(measurements, options.held_out)?;
    let mut base = options.base.clone();
    let lagging: Vec<_> =
        uniform_rows(measurements).into_iter().filter(|row| !measurements.is_stable(row)).collect();
    let kept = parameters::kept(&options.kept);
    if !options.kept.iter().any(|key| key.starts_with("controller.write_pace_")) {
        parameters::begin_at_pace(&mut base, &lagging);
    }
    let mut base = parameters::within_ranges(&base, &options.kept);
    let mut memory = memory(options, measurements, &fitted)?;
    let begun = over_provisioning::meet(&mut base, measurements, options, &mut memory, watch)
        // What is wrong with the drive is said of the whole one, before a smaller one is made of it.
        .and_then(|()| Ok(kept_blocks(&base).map(drop).map_err(TwinError::from)?))
        .and_then(|()| Ok(Twin::new(&base, options.effort).map_err(TwinError::from)?))
        .and_then(|twin| {
            let first = question(measurements, &fitted[0], twin.config());
            twin.age(&[first], options.seed, watch)?;
            Ok(twin)
        });
    let twin = match begun {
        Ok(twin) => twin,
        Err(error) => {
            // A command that was refused must not stand in the way of the next one.
            memory.remove_if_empty();
            return Err(error);
        }
    };
    let questions = fitted.iter().map(|row| question(measurements, row, twin.config())).collect();
    let start = parameters::logarithms(&base);
    let mut problem = Search {
        twin,
        measurements,
        fitted: &fitted,
        questions,
        memory,
        options,
        kept: &kept,
        begin: start.clone(),
        watch,
        rounds: 0,
    };
    let best = search::search(&mut problem, start, options.rounds)?;
    let (slopes, _) = search::jacobian(&mut problem, &best, search::DIFFERENCE)?;
    let evaluations = problem.memory.keys().len();
    let drive = parameters::drive(&base, &best.at, &options.kept);
    let twin = Twin::new(&drive, options.effort_at_end).map_err(TwinError::from)?;
    let at_end =
        |rows: &[Measurement]| check_on(&twin, twin.config(), measurements, rows, options.seed, watch);
    let (untold, alike) = unclear(&slopes, &kept);
    let effect = |at: usize| norm(&slopes[at]);
    let found = (0..).zip(PARAMETERS).map(|(at, parameter)| Found {
        name: parameter.name,
        unit: parameter.unit,
        value: (parameter.get)(&drive),
        is_kept: kept[at],
        effect: effect(at),
    });
    Ok(Fit {
        found: found.collect(),
        untold,
        alike,
        fitted: at_end(&fitted)?,
        held_out: at_end(&held_out)?,
        evaluations,
        drive,
    })
}

/// Rows that say something of their own, of uniform addresses: popular ones are judged, and not fitted to.
fn uniform_rows(measurements: &Measurements) -> Vec<Measurement> {
    let rows = rows_of(measurements).into_iter();
    rows.filter(|row| row.load.addresses == Addresses::Uniform).collect()
}

/// The rows to fit to, and those held out.
fn split(
    measurements: &Measurements,
    held_out: HeldOut,
) -> Result<(Vec<Measurement>, Vec<Measurement>), FitError> {
    let rows = uniform_rows(measurements);
    let (mut stable, others): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| measurements.is_stable(row));
    let carried = stable.len();
    stable.retain(|row| row.seen.read_us[0].is_some());
    let rows = stable.iter().filter(|row| row.seen.read_us[1].is_some()).count();
    if rows < ROWS_MIN {
        let is_offered = |row: &&Measurement| {
            row.load.offered.is_some()
                && row.load.addresses == Addresses::Uniform
                && !measurements.is_stable(row)
        };
        let saturated = measurements.rows.iter().filter(is_offered).count();
        return Err(FitError::TooFew { rows, saturated, bare: carried - rows });
    }
    stable.sort_by_key(|row| row.load.offered.map_or(0, |offered| offered.requests_s()));
    let all = stable.len();
    let is_held = |at: usize| match held_out {
        HeldOut::Third => at % 3 == 2 && at + 1 < all,
        HeldOut::Upper => at >= all.div_ceil(2).max(3),
        HeldOut::None => false,
    };
    let (held, mut fitted): (Vec<_>, Vec<_>) = (0..).zip(stable).partition(|&(at, _)| is_held(at));
    let bare = |rows: Vec<(usize, Measurement)>| rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
    // What is beyond saturation says how much flash there is to program, and what a closed loop completes what else holds
    // writes back: as fast as it can, the same drive may be faster.
    let saturated: Vec<_> = others.into_iter().filter(|row| row.seen.completed_s.is_some()).collect();
    let offered = saturated.iter().find(|row| row.load.offered.is_some());
    let closed_loops = saturated.iter().filter(|row| row.load.offered.is_none());
    let fullest = closed_loops.max_by_key(|row| row.load.used_bytes);
    fitted.extend(offered.into_iter().chain(fullest).map(|row| (usize::MAX, *row)));
    Ok((bare(fitted), bare(held)))
}

/// Two parameters.
type Pair = (&'static str, &'static str);

/// Parameters without effect, unless they are `kept`, and pairs with the same.
fn unclear(slopes: &search::Slopes, kept: &[bool]) -> (Vec<&'static str>, Vec<Pair>) {
    let bounded = |slope: &Vec<f64>| slope.iter().map(|a| a.clamp(-EFFECT_MAX, EFFECT_MAX)).collect();
    let slopes: &search::Slopes = &slopes.iter().map(bounded).collect();
    let has_effect = |at: usize| norm(&slopes[at]) >= EFFECT_MIN;
    let names = |at: usize| PARAMETERS[at].name;
    let untold = (0..slopes.len()).filter(|&at| !has_effect(at) && !kept[at]).map(names).collect();
    let mut alike = Vec::new();
    for (at, slope) in slopes.iter().enumerate().filter(|&(at, _)| has_effect(at)) {
        for (other, with) in slopes.iter().enumerate().skip(at + 1).filter(|&(at, _)| has_effect(at)) {
            let product: f64 = slope.iter().zip(with).map(|(a, b)| a * b).sum();
            if product.abs() >= ALIKE * norm(slope) * norm(with) {
                alike.push((names(at), names(other)));
            }
        }
    }
    (untold, alike)
}

fn norm(slope: &[f64]) -> f64 {
    libm::sqrt(slope.iter().map(|a| a * a).sum())
}

/// The search, and what it asks.
struct Search<'a> {
    twin: Twin,
    measurements: &'a Measurements,
    fitted: &'a [Measurement],
    /// One for each row, with the drive to begin with.
    questions: Vec<Question>,
    memory: Memory,
    options: &'a FitOptions,
    /// Flags of the parameters that stay as they are, and the begin of all.
    kept: &'a [bool],
    begin: Vec<f64>,
    watch: &'a dyn Watch,
    rounds: u32,
}

impl Problem for Search<'_> {
    type Error = FitError;

    fn range(&self, parameter: usize) -> (f64, f64) {
        if self.kept[parameter] {
            return (self.begin[parameter], self.begin[parameter]);
        }
        let (low, high) = PARAMETERS[parameter].range;
        (libm::log(low), libm::log(high))
    }

    fn beside(&self, parameter: usize, at: f64, difference: f64) -> f64 {
        parameters::beside(parameter, at, difference)
    }

    fn residuals(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, FitError> {
        let drives: Vec<DriveConfig> =
            points.iter().map(|at| parameters::drive(self.twin.config(), at, &self.options.kept)).collect();
        let keys: Vec<String> = drives.iter().map(|drive| points::key("drive", drive)).collect();
        let mut known = BTreeMap::new();
        for key in &keys {
            // Only a file that was changed by hand has another number of rows.
            let is_whole = |figures: &Vec<Figures>| figures.len() == self.fitted.len();
            if let Some(figures) = self.memory.find(key)?.filter(is_whole) {
                known.insert(key, figures);
            }
        }
        // Several points may be one drive: parameters are rounded.
        let mut asked = BTreeSet::new();
        let is_new = |at: &usize| !known.contains_key(&keys[*at]) && asked.insert(&keys[*at]);
        let new: Vec<usize> = (0..keys.len()).filter(is_new).collect();
        let ask = |at: &usize| {
            let drive = &drives[*at];
            self.questions.iter().map(|question| Question { config: drive.clone(), ..question.clone() })
        };
        let questions: Vec<Question> = new.iter().flat_map(ask).collect();
        let answers = self.twin.ask(&questions, self.options.seed, self.watch)?;
        for (at, answers) in new.iter().zip(answers.chunks(self.fitted.len())) {
            self.memory.keep(&keys[*at], &answers.to_vec())?;
            known.insert(&keys[*at], answers.to_vec());
        }
        let residuals = |key: &String| {
            let rows = self.fitted.iter().zip(&known[key]);
            rows.flat_map(|(row, ours)| {
                judged(self.measurements, row)
                    .map(move |(figure, measured)| residual(figure, measured, figure.of(ours)))
            })
            .collect()
        };
        Ok(keys.iter().map(residuals).collect())
    }

    fn better(&mut self, best: &Point) -> bool {
        let (round, error) = (self.rounds, libm::sqrt(best.cost()));
        self.watch.stage(&format!("fit: round {round} of at most {}, error {error:.1}", self.options.rounds));
        self.rounds += 1;
        true
    }
}

/// Weighed error of a figure.
fn residual(figure: Figure, measured: f64, ours: Option<f64>) -> f64 {
    // A drive that completes nothing is not better than one that is slow, and all drives have as many residuals.
    let missing = if figure == Figure::Completed { measured / MISSING } else { measured * MISSING };
    let ours = ours.filter(|ours| *ours > 0.0).unwrap_or(missing);
    let residual = crate::check::residual(figure, measured, ours);
    match residual.abs() {
        // Flash that programs too little at saturation is wrong at all rates, and only shows it later.
        _ if figure == Figure::Completed => residual,
        all if all > WEIGHT_MAX => residual.signum() * (WEIGHT_MAX + libm::log(all / WEIGHT_MAX)),
        _ => residual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Effects of all parameters: of nothing, but for those given.
    fn slopes(given: &[(usize, [f64; 3])]) -> search::Slopes {
        let of =
            |at| given.iter().find(|(of, _)| *of == at).map_or(vec![0.0; 3], |(_, slope)| slope.to_vec());
        (0..PARAMETERS.len()).map(of).collect()
    }

    #[test]
    fn parameters_that_data_do_not_tell_are_named() {
        // Two of the same effect but for its size, one against them, one of its own, one that is too small.
        let given = [
            (0, [1.0, 2.0, 0.0]),
            (3, [0.5, 1.0, 0.0]),
            (4, [-1.0, -2.0, 0.01]),
            (7, [0.0, 0.0, 1.0]),
            (9, [0.05, 0.1, 0.0]),
        ];
        let (untold, alike) = unclear(&slopes(&given), &parameters::kept(&[]));
        let name = |at: usize| PARAMETERS[at].name;
        assert_eq!(alike, [(name(0), name(3)), (name(0), name(4)), (name(3), name(4))]);
        let told = [0, 3, 4, 7];
        let others: Vec<_> = (0..PARAMETERS.len()).filter(|at| !told.contains(at)).map(name).collect();
        assert_eq!(untold, others);
        // Where one figure drowns all others, they still tell two parameters apart.
        let (_, alike) =
            unclear(&slopes(&[(0, [1e6, 2.0, 0.0]), (3, [1e6, -2.0, 0.0])]), &parameters::kept(&[]));
        assert!(alike.is_empty(), "{alike:?}");
    }

    #[test]
    fn what_a_drive_does_not_show_is_worse_than_anything_it_shows() {
        for figure in [Figure::ReadP50, Figure::WriteP99, Figure::Completed] {
            let of = |ours| residual(figure, 100.0, ours).abs();
            assert_eq!(of(Some(100.0)), 0.0);
            for ours in [None, Some(0.0)] {
                assert!(
                    of(ours).is_finite() && of(ours) > of(Some(50.0)) && of(ours) > of(Some(5000.0)),
                    "{figure:?}"
                );
            }
        }
    }
}
