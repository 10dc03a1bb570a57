//! Fit of a drive to measurements.
//!
//! 1. `split` divides the rows into those to fit to and those held out. Held-out rows show how far the result
//!    can be trusted.
//! 2. `over_provisioning` sizes the flash for the measured write amplification.
//! 3. `search` changes [`PARAMETERS`] until the drive reproduces the fitted rows.
//! 4. A larger simulation of the best drive gives the stated errors.
//!
//! Every evaluation uses the same random numbers. The result is the same on every machine, and after a stop
//! and resume.

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

/// Least number of rows below saturation for a fit.
pub const ROWS_MIN: usize = 4;
/// Largest error of a figure that counts in full, in multiples of the tolerance. A larger one counts by its
/// logarithm: a figure that no parameter explains must not bend all others.
const WEIGHT_MAX: f64 = 3.0;
/// Assumed error factor of a figure that is missing because the drive completes nothing.
const MISSING: f64 = 1000.0;
/// Least effect of a parameter that the measurements determine.
const EFFECT_MIN: f64 = 0.15;
/// Largest effect on one figure that counts. At the point where a buffer fills up, any parameter has a large
/// effect.
const EFFECT_MAX: f64 = 3.0;
/// Least cosine of two effect vectors with indistinguishable parameters.
const ALIKE: f64 = 0.97;

/// Rows held out of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// Every third rate.
    Third,
    /// The upper half of the rates.
    Upper,
    /// None: the accuracy of predictions stays unknown.
    None,
}

/// Options of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The drive to start from. Settings outside [`PARAMETERS`] stay unchanged.
    pub base: DriveConfig,
    /// Keys to keep fixed although a fit could change them, such as "controller.write_throttle_ns".
    pub kept: Vec<String>,
    /// Rows to hold out.
    pub held_out: HeldOut,
    /// Rounds of the search; each takes some 20 evaluations.
    pub rounds: u32,
    /// Amount of simulation for each evaluation.
    pub effort: Effort,
    /// Amount of simulation for the stated errors.
    pub effort_at_end: Effort,
    /// Seed of all random numbers.
    pub seed: u64,
    /// File of finished simulations, from where a stopped fit resumes.
    pub memory: Option<PathBuf>,
}

/// Error of a fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Too few usable rows.
    #[error(
        "{rows} rows below saturation have p50 and p99 of reads, a fit needs {ROWS_MIN}; {saturated} rows do not count because \
         they complete less than they offer, or exceed 95 % of saturation{}; {bare} because read_p50_us or read_p99_us is \
         empty: measure at more rates, or fill in the missing values",
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
    /// Simulating a drive failed.
    #[error(transparent)]
    Twin(#[from] TwinError),
    /// The file of finished simulations cannot be read or written.
    #[error(transparent)]
    Memory(#[from] StoreError),
}

/// A fitted parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// Name of the parameter.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Value of the parameter.
    pub value: f64,
    /// True if the value was kept and not fitted.
    pub is_kept: bool,
    /// Effect on the figures when the parameter changes by a factor of e: Euclidean norm of the change of all
    /// errors, in multiples of the tolerance.
    pub effect: f64,
}

/// A fitted drive and its accuracy.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fit {
    /// The drive.
    #[serde(skip)]
    pub drive: DriveConfig,
    /// The parameters of the drive.
    pub found: Vec<Found>,
    /// Parameters that the measurements do not determine.
    pub untold: Vec<&'static str>,
    /// Pairs of parameters that the measurements cannot distinguish.
    pub alike: Vec<Pair>,
    /// Comparison on the rows it was fitted to.
    pub fitted: Check,
    /// Comparison on the rows held out.
    pub held_out: Check,
    /// Number of drives simulated for the fit.
    pub evaluations: usize,
}

type Memory = Store<Vec<Figures>>;

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

/// Fits a drive to `measurements`.
pub fn fit(measurements: &Measurements, options: &FitOptions, watch: &dyn Watch) -> Result<Fit, FitError> {
    let (fitted, held_out) = split(measurements, options.held_out)?;
    let mut base = options.base.clone();
    // The throughput beyond saturation gives the write throttle to start from.
    let lagging: Vec<_> =
        uniform_rows(measurements).into_iter().filter(|row| !measurements.is_stable(row)).collect();
    let kept = parameters::kept(&options.kept);
    if !options.kept.iter().any(|key| key.starts_with("controller.write_throttle_")) {
        parameters::begin_throttled(&mut base, &lagging);
    }
    let mut base = parameters::within_ranges(&base, &options.kept);
    let mut memory = memory(options, measurements, &fitted)?;
    let begun = over_provisioning::meet(&mut base, measurements, options, &mut memory, watch)
        // Check the whole drive first, so that its errors do not name the scaled one.
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
            // A refused command must leave no file that blocks the next one.
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
    // The derivatives at the best point tell which parameters the measurements determine.
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

/// Rows with uniform addresses. Other rows are judged, but not fitted to.
fn uniform_rows(measurements: &Measurements) -> Vec<Measurement> {
    let rows = rows_of(measurements).into_iter();
    rows.filter(|row| row.load.addresses == Addresses::Uniform).collect()
}

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
    // Rows are in the order of offered rates. `Third` keeps the highest in the fit, so no held-out row lies
    // beyond the fitted ones.
    let is_held = |at: usize| match held_out {
        HeldOut::Third => at % 3 == 2 && at + 1 < all,
        HeldOut::Upper => at >= all.div_ceil(2).max(3),
        HeldOut::None => false,
    };
    let (held, mut fitted): (Vec<_>, Vec<_>) = (0..).zip(stable).partition(|&(at, _)| is_held(at));
    let bare = |rows: Vec<(usize, Measurement)>| rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
    // A row beyond saturation determines the program bandwidth. A closed loop determines other limits on
    // writes: at full speed the same drive may complete more than in an open loop.
    let saturated: Vec<_> = others.into_iter().filter(|row| row.seen.completed_s.is_some()).collect();
    let offered = saturated.iter().find(|row| row.load.offered.is_some());
    let closed_loops = saturated.iter().filter(|row| row.load.offered.is_none());
    let fullest = closed_loops.max_by_key(|row| row.load.used_bytes);
    fitted.extend(offered.into_iter().chain(fullest).map(|row| (usize::MAX, *row)));
    Ok((bare(fitted), bare(held)))
}

type Pair = (&'static str, &'static str);

fn unclear(slopes: &search::Slopes, kept: &[bool]) -> (Vec<&'static str>, Vec<Pair>) {
    // Bound the effects, or one figure at a full buffer would hide all others.
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

struct Search<'a> {
    twin: Twin,
    measurements: &'a Measurements,
    fitted: &'a [Measurement],
    questions: Vec<Question>,
    memory: Memory,
    options: &'a FitOptions,
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

    fn difference_point(&self, parameter: usize, at: f64, difference: f64) -> f64 {
        parameters::difference_point(parameter, at, difference)
    }

    fn residuals(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, FitError> {
        let drives: Vec<DriveConfig> =
            points.iter().map(|at| parameters::drive(self.twin.config(), at, &self.options.kept)).collect();
        let keys: Vec<String> = drives.iter().map(|drive| points::key("drive", drive)).collect();
        let mut known = BTreeMap::new();
        for key in &keys {
            // Only a file edited by hand has another number of rows: ignore such an entry.
            let is_whole = |figures: &Vec<Figures>| figures.len() == self.fitted.len();
            if let Some(figures) = self.memory.find(key)?.filter(is_whole) {
                known.insert(key, figures);
            }
        }
        // Parameters are rounded, so several points may be the same drive: simulate it once.
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

fn residual(figure: Figure, measured: f64, ours: Option<f64>) -> f64 {
    // A missing figure counts as `MISSING` times wrong. All drives then have the same number of residuals,
    // and a drive that completes nothing is never better than a slow one.
    let missing = if figure == Figure::Completed { measured / MISSING } else { measured * MISSING };
    let ours = ours.filter(|ours| *ours > 0.0).unwrap_or(missing);
    let residual = crate::check::residual(figure, measured, ours);
    match residual.abs() {
        // No cap: too little program bandwidth is wrong at all rates, but shows only at saturation.
        _ if figure == Figure::Completed => residual,
        all if all > WEIGHT_MAX => residual.signum() * (WEIGHT_MAX + libm::log(all / WEIGHT_MAX)),
        _ => residual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slopes(given: &[(usize, [f64; 3])]) -> search::Slopes {
        let of =
            |at| given.iter().find(|(of, _)| *of == at).map_or(vec![0.0; 3], |(_, slope)| slope.to_vec());
        (0..PARAMETERS.len()).map(of).collect()
    }

    #[test]
    fn parameters_that_data_do_not_tell_are_named() {
        // Two parallel effects, an opposite one, an independent one, and one that is too small.
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
        let pinned = [0, 3, 4, 7];
        let others: Vec<_> = (0..PARAMETERS.len()).filter(|at| !pinned.contains(at)).map(name).collect();
        assert_eq!(untold, others);
        // The other figures distinguish two parameters even if one figure dominates.
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
