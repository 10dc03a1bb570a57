//! Comparison of simulated and measured figures.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use strobe_lab::points::Watch;
use strobe_ssd::DriveConfig;

use crate::Effort;
use crate::measurements::{Addresses, Figures, Measurement, Measurements};
use crate::twin::{Question, Twin, TwinError};

/// A figure of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Median latency of reads.
    ReadP50,
    /// 99th percentile latency of reads.
    ReadP99,
    /// 99.9th percentile latency of reads.
    ReadP999,
    /// 99.99th percentile latency of reads.
    ReadP9999,
    /// Median latency of writes.
    WriteP50,
    /// 99th percentile latency of writes.
    WriteP99,
    /// 99.9th percentile latency of writes.
    WriteP999,
    /// 99.99th percentile latency of writes.
    WriteP9999,
    /// Requests completed per second.
    Completed,
    /// Write amplification: bytes programmed per byte written by the host.
    Waf,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 10] = [
        Self::ReadP50,
        Self::ReadP99,
        Self::ReadP999,
        Self::ReadP9999,
        Self::WriteP50,
        Self::WriteP99,
        Self::WriteP999,
        Self::WriteP9999,
        Self::Completed,
        Self::Waf,
    ];

    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadP50 => "read p50",
            Self::ReadP99 => "read p99",
            Self::ReadP999 => "read p99.9",
            Self::ReadP9999 => "read p99.99",
            Self::WriteP50 => "write p50",
            Self::WriteP99 => "write p99",
            Self::WriteP999 => "write p99.9",
            Self::WriteP9999 => "write p99.99",
            Self::Completed => "requests/s",
            Self::Waf => "WAF",
        }
    }

    /// Largest error that counts as met, as a share. `None` for figures that are shown, but neither judged nor
    /// fitted to.
    pub const fn tolerance(self) -> Option<f64> {
        match self {
            Self::ReadP50 | Self::WriteP50 => Some(0.10),
            Self::ReadP99 | Self::WriteP99 => Some(0.15),
            Self::ReadP999 => Some(0.25),
            Self::Completed => Some(0.05),
            Self::Waf => Some(0.03),
            Self::ReadP9999 | Self::WriteP999 | Self::WriteP9999 => None,
        }
    }

    /// Value of the figure in `figures`.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::ReadP50 => figures.read_us[0],
            Self::ReadP99 => figures.read_us[1],
            Self::ReadP999 => figures.read_us[2],
            Self::ReadP9999 => figures.read_us[3],
            Self::WriteP50 => figures.write_us[0],
            Self::WriteP99 => figures.write_us[1],
            Self::WriteP999 => figures.write_us[2],
            Self::WriteP9999 => figures.write_us[3],
            Self::Completed => figures.completed_s,
            Self::Waf => figures.waf,
        }
    }

    fn is_judged(self, is_stable: bool) -> bool {
        match self {
            Self::Completed => !is_stable,
            Self::Waf => true,
            _ => is_stable && self.tolerance().is_some(),
        }
    }
}

/// A simulated figure compared with its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// The figure.
    pub figure: Figure,
    /// Value of the real drive: µs, requests per second, or a factor.
    pub measured: f64,
    /// Value of the simulated drive, in the same unit.
    pub ours: f64,
    /// Relative error: (ours − measured) / measured.
    pub error: f64,
    /// True if the error is within the tolerance; `None` if the figure is only shown.
    pub is_met: Option<bool>,
}

impl Compared {
    fn new(figure: Figure, measured: f64, ours: f64, is_judged: bool) -> Self {
        let error = ours / measured - 1.0;
        let is_met = figure.tolerance().filter(|_| is_judged).map(|tolerance| {
            // Published latencies are rounded to whole µs, which matters for short ones.
            let slack = if tolerance > 0.05 && measured < 50.0 { 0.5 / measured } else { 0.0 };
            error.abs() <= tolerance + slack
        });
        Self { figure, measured, ours, error, is_met }
    }
}

/// Residual of a fit: ln(ours / measured) in multiples of the tolerance.
pub(crate) fn residual(figure: Figure, measured: f64, ours: f64) -> f64 {
    libm::log(ours / measured) / figure.tolerance().unwrap_or(f64::INFINITY)
}

/// A row of measurements compared with the simulated drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Line of the measurement file.
    pub line: u64,
    /// Offered writes per second; `None` for a closed loop, where jobs write as fast as they can.
    pub writes_s: Option<u64>,
    /// Share of the drive in use.
    pub used: f64,
    /// Address distribution, in the notation of measurement files.
    pub addresses: String,
    /// True if the real drive sustains the load with a margin.
    pub is_stable: bool,
    /// Figures known for both drives.
    pub figures: Vec<Compared>,
}

/// Comparison of a simulated drive with a real one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// Compared rows, in file order.
    pub rows: Vec<Row>,
}

impl Check {
    /// Numbers of met and of judged figures of one kind; `None` counts all kinds.
    pub fn passed(&self, figure: Option<Figure>) -> (usize, usize) {
        let figures = self.rows.iter().flat_map(|row| &row.figures);
        let of_kind = figures.filter(|compared| figure.is_none_or(|figure| compared.figure == figure));
        let judged = of_kind.filter_map(|compared| compared.is_met);
        judged.fold((0, 0), |(passed, all), is_met| (passed + usize::from(is_met), all + 1))
    }

    /// Absolute errors of one kind, as shares in ascending order.
    ///
    /// Only judged values count. For a kind that is never judged, all values at stable loads count.
    pub fn errors(&self, figure: Figure) -> Vec<f64> {
        let counts = |row: &Row, compared: &Compared| match figure.tolerance() {
            Some(_) => compared.is_met.is_some(),
            None => row.is_stable,
        };
        let of = |row: &Row| {
            let figures = row.figures.iter().filter(|compared| compared.figure == figure);
            figures
                .filter(|compared| counts(row, compared))
                .map(|compared| compared.error.abs())
                .collect::<Vec<_>>()
        };
        let mut errors: Vec<f64> = self.rows.iter().flat_map(of).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }
}

pub(crate) fn question(measurements: &Measurements, row: &Measurement, config: &DriveConfig) -> Question {
    let is_saturated = !measurements.is_stable(row);
    Question {
        config: config.clone(),
        load: row.load,
        capacity_bytes: measurements.capacity_bytes,
        is_saturated,
    }
}

pub(crate) fn judged(
    measurements: &Measurements,
    row: &Measurement,
) -> impl Iterator<Item = (Figure, f64)> + use<> {
    let (seen, is_stable) = (row.seen, measurements.is_stable(row));
    let figures = Figure::ALL.into_iter().filter(move |figure| figure.is_judged(is_stable));
    figures.filter_map(move |figure| Some((figure, figure.of(&seen)?)))
}

/// Compares a row; unless `is_clear`, its figures are not judged.
fn compare(measurements: &Measurements, row: &Measurement, ours: &Figures, is_clear: bool) -> Row {
    let is_stable = measurements.is_stable(row);
    // At a stable load the drive completes the offered rate by definition.
    let is_news = |figure: &Figure| !is_stable || *figure != Figure::Completed;
    let compared = |figure: Figure| {
        let is_judged = is_clear && figure.is_judged(is_stable);
        Some(Compared::new(figure, figure.of(&row.seen)?, figure.of(ours)?, is_judged))
    };
    Row {
        line: row.line,
        writes_s: row.load.offered.map(|offered| offered.writes_s),
        used: row.load.used_bytes as f64 / measurements.capacity_bytes as f64,
        addresses: row.load.addresses.to_string(),
        is_stable,
        figures: Figure::ALL.into_iter().filter(is_news).filter_map(compared).collect(),
    }
}

/// All stable and closed-loop rows, and the first saturated row of each address distribution.
pub fn rows_of(measurements: &Measurements) -> Vec<Measurement> {
    let mut saturated = BTreeSet::new();
    let is_worth = |row: &&Measurement| {
        let is_saturated = row.load.offered.is_some() && !measurements.is_stable(row);
        let offered = row.load.offered.map_or(0.0, |offered| offered.requests_s() as f64);
        // Loads near saturation are neither stable nor clearly saturated: skip them.
        let is_clear = measurements
            .saturation_s(row.load.addresses)
            .is_none_or(|most| !is_saturated || offered > 1.02 * most);
        is_clear && (!is_saturated || saturated.insert(row.load.addresses))
    };
    measurements.rows.iter().filter(is_worth).copied().collect()
}

/// Line of the row with the highest offered rate beyond saturation, for each address distribution.
fn most_offered(measurements: &Measurements) -> impl Iterator<Item = u64> {
    let mut most: BTreeMap<Addresses, (u64, u64)> = BTreeMap::new();
    for row in measurements.rows.iter().filter(|row| !measurements.is_stable(row)) {
        let Some(offered) = row.load.offered else { continue };
        let this = (offered.requests_s(), row.line);
        let kind = most.entry(row.load.addresses).or_insert(this);
        *kind = this.max(*kind);
    }
    most.into_values().map(|(_, line)| line)
}

/// Simulates every row and compares the figures.
pub fn check(
    config: &DriveConfig,
    measurements: &Measurements,
    effort: Effort,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Check, TwinError> {
    let twin = Twin::new(config, effort)?;
    check_on(&twin, twin.config(), measurements, &measurements.rows, seed, watch)
}

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
    let mut clear: BTreeSet<u64> = rows_of(measurements).iter().map(|row| row.line).collect();
    // The throughput of a real drive is constant beyond saturation. The row with the highest offered rate
    // shows if the throughput of the simulated drive is constant as well.
    clear.extend(most_offered(measurements));
    let compare =
        |(row, ours): (&Measurement, &Figures)| compare(measurements, row, ours, clear.contains(&row.line));
    Ok(Check { rows: rows.iter().zip(&answers).map(compare).collect() })
}
