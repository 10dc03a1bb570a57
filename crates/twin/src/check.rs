//! What a drive of ours shows beside what was measured, figure by figure.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::DriveConfig;

use crate::measurements::{Figures, Measurement, Measurements};
use crate::twin::{Question, Twin, TwinError};
use crate::{Effort, Watch};

/// A figure of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Median latency of reads.
    ReadP50,
    /// 99th percentile.
    ReadP99,
    /// 99.9th.
    ReadP999,
    /// Median latency of writes.
    WriteP50,
    /// 99th percentile.
    WriteP99,
    /// Requests completed per second.
    Completed,
    /// Bytes programmed per byte written.
    Waf,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ReadP50,
        Self::ReadP99,
        Self::ReadP999,
        Self::WriteP50,
        Self::WriteP99,
        Self::Completed,
        Self::Waf,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadP50 => "read p50",
            Self::ReadP99 => "read p99",
            Self::ReadP999 => "read p99.9",
            Self::WriteP50 => "write p50",
            Self::WriteP99 => "write p99",
            Self::Completed => "requests/s",
            Self::Waf => "WAF",
        }
    }

    /// Error up to which it counts as met, as a share.
    pub const fn tolerance(self) -> f64 {
        match self {
            Self::ReadP50 | Self::WriteP50 => 0.10,
            Self::ReadP99 | Self::WriteP99 => 0.15,
            Self::ReadP999 => 0.25,
            Self::Completed => 0.05,
            Self::Waf => 0.03,
        }
    }

    /// It, among `figures`.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::ReadP50 => figures.read_us[0],
            Self::ReadP99 => figures.read_us[1],
            Self::ReadP999 => figures.read_us[2],
            Self::WriteP50 => figures.write_us[0],
            Self::WriteP99 => figures.write_us[1],
            Self::Completed => figures.completed_s,
            Self::Waf => figures.waf,
        }
    }

    /// Whether it says something about a load that is stable, or about one that is not.
    fn is_about(self, is_stable: bool) -> bool {
        match self {
            Self::Completed => !is_stable,
            Self::Waf => true,
            _ => is_stable,
        }
    }
}

/// A figure beside its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// On the real drive: µs, requests per second, or a factor.
    pub measured: f64,
    /// On ours.
    pub ours: f64,
    /// (ours − measured) / measured.
    pub error: f64,
    /// Whether that is within what is tolerated.
    pub is_met: bool,
}

impl Compared {
    pub(crate) fn new(figure: Figure, measured: f64, ours: f64) -> Self {
        // Published latencies are whole µs.
        let slack = if figure.tolerance() > 0.05 && measured < 50.0 { 0.5 / measured } else { 0.0 };
        let error = ours / measured - 1.0;
        Self { figure, measured, ours, error, is_met: error.abs() <= figure.tolerance() + slack }
    }

    /// Natural logarithm of ours by measured, as a multiple of what is tolerated: what a fit makes small.
    pub(crate) fn residual(&self) -> f64 {
        libm::log(self.ours / self.measured) / self.figure.tolerance()
    }
}

/// A row of measurements beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Line of the file.
    pub line: u64,
    /// Writes offered in a second; none where jobs write as fast as they can.
    pub writes_s: Option<u64>,
    /// Share of the drive in use.
    pub used: f64,
    /// Whether the real drive carries it with something to spare.
    pub is_stable: bool,
    /// What both have.
    pub figures: Vec<Compared>,
}

/// How a drive of ours compares to a real one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// Row by row.
    pub rows: Vec<Row>,
}

impl Check {
    /// (figures met, all) of one kind, or of all.
    pub fn met(&self, figure: Option<Figure>) -> (usize, usize) {
        let figures = self.rows.iter().flat_map(|row| &row.figures);
        let of_kind = figures.filter(|compared| figure.is_none_or(|figure| compared.figure == figure));
        of_kind.fold((0, 0), |(met, all), compared| (met + usize::from(compared.is_met), all + 1))
    }

    /// Errors of one kind, as shares without their sign, the smallest first.
    pub fn errors(&self, figure: Figure) -> Vec<f64> {
        let figures = self.rows.iter().flat_map(|row| &row.figures);
        let mut errors: Vec<f64> = figures
            .filter(|compared| compared.figure == figure)
            .map(|compared| compared.error.abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        errors
    }
}

/// The question that `row` asks a drive of `config`.
pub(crate) fn question(measurements: &Measurements, row: &Measurement, config: &DriveConfig) -> Question {
    let is_saturated = !measurements.is_stable(row);
    Question {
        config: config.clone(),
        load: row.load,
        capacity_bytes: measurements.capacity_bytes,
        is_saturated,
    }
}

/// Figures of `row` that count, as they were measured.
pub(crate) fn counted(
    measurements: &Measurements,
    row: &Measurement,
) -> impl Iterator<Item = (Figure, f64)> + use<> {
    let (seen, is_stable) = (row.seen, measurements.is_stable(row));
    let figures = Figure::ALL.into_iter().filter(move |figure| figure.is_about(is_stable));
    figures.filter_map(move |figure| Some((figure, figure.of(&seen)?)))
}

/// `row` beside `ours`.
fn compare(measurements: &Measurements, row: &Measurement, ours: &Figures) -> Row {
    let is_stable = measurements.is_stable(row);
    let compared =
        |(figure, measured): (Figure, f64)| Some(Compared::new(figure, measured, figure.of(ours)?));
    Row {
        line: row.line,
        writes_s: row.load.offered.map(|offered| offered.writes_s),
        used: row.load.used_bytes as f64 / measurements.capacity_bytes as f64,
        is_stable,
        figures: counted(measurements, row).filter_map(compared).collect(),
    }
}

/// Rows worth a simulation: of several that are beyond saturation only the first.
pub fn rows_of(measurements: &Measurements) -> Vec<Measurement> {
    let mut has_saturated = false;
    let is_worth = |row: &&Measurement| {
        let is_saturated = row.load.offered.is_some() && !measurements.is_stable(row);
        let offered = row.load.offered.map_or(0.0, |offered| offered.requests_s() as f64);
        // Between what is stable and what is too much, nothing is well defined.
        let is_clear = measurements.saturation_s().is_none_or(|most| !is_saturated || offered > 1.02 * most);
        is_clear && !(is_saturated && std::mem::replace(&mut has_saturated, true))
    };
    measurements.rows.iter().filter(is_worth).copied().collect()
}

/// Asks the drive of `config` what was measured.
pub fn check(
    config: &DriveConfig,
    measurements: &Measurements,
    effort: Effort,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Check, TwinError> {
    let twin = Twin::new(config, effort)?;
    let rows = rows_of(measurements);
    check_on(&twin, twin.config(), measurements, &rows, seed, watch)
}

/// The same for some rows, on a twin that is there, with the times of `config`, which has its blocks.
pub(crate) fn check_on(
    twin: &Twin,
    config: &DriveConfig,
    measurements: &Measurements,
    rows: &[Measurement],
    seed: u64,
    watch: &dyn Watch,
) -> Result<Check, TwinError> {
    let questions: Vec<Question> = rows.iter().map(|row| question(measurements, row, config)).collect();
    let answers = twin.ask(&questions, seed, watch)?;
    Ok(Check {
        rows: rows.iter().zip(&answers).map(|(row, ours)| compare(measurements, row, ours)).collect(),
    })
}
