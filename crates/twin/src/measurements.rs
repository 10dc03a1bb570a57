//! Measurements of a drive: loads and observed figures.

mod csv_file;
mod sense;

pub use csv_file::{COLUMNS, Column};

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Percentiles of a measurement: name in CSV files, name in results.
pub const PERCENTILES: [(&str, &str); 4] =
    [("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000"), ("p9999", "99.990000")];

/// Largest share of the saturation rate of a stable load. Above it, figures depend on the length of the
/// measurement.
const STABLE: f64 = 0.95;
/// Least completed share of the offered rate if the drive keeps up.
const KEEPS_UP: f64 = 0.98;
/// Largest file read, in bytes; a path may name an endless device.
const BYTES_MAX: u64 = 1 << 20;

/// Random 4 KiB requests to the part of the drive in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// Bytes of the drive in use.
    pub used_bytes: u64,
    /// Distribution of addresses within the part in use.
    pub addresses: Addresses,
    /// Number of jobs. The first alternates reads and writes and is measured; the others only write.
    pub jobs: u32,
    /// Queue depth of each job.
    pub queue_depth: u32,
    /// Offered writes and reads per second, with exponential gaps. `None` is a closed loop: all jobs write as
    /// fast as they can.
    pub offered: Option<Offered>,
}

/// Distribution of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Addresses {
    /// Uniform.
    #[default]
    Uniform,
    /// Zipf's law: the k-th most popular address is drawn k^-θ times as often as the first.
    Zipf {
        /// θ in thousandths. It is below 1, where a twin with fewer blocks has the same shares.
        theta_milli: u32,
        /// True if popular addresses are spread evenly; false if they lie at the start, the most popular first.
        scattered: bool,
    },
}

impl std::fmt::Display for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { theta_milli, scattered } => {
                let name = if scattered { "zipf" } else { "zipf-in-order" };
                write!(f, "{name}:{}", f64::from(theta_milli) / 1000.0)
            }
        }
    }
}

impl std::str::FromStr for Addresses {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, theta) = match text.split_once(':') {
            None if text == "uniform" => return Ok(Self::Uniform),
            None => return Err(()),
            Some(parts) => parts,
        };
        let scattered = match name {
            "zipf" => true,
            "zipf-in-order" => false,
            _ => return Err(()),
        };
        let theta: f64 = theta.parse().map_err(|_| ())?;
        // From θ = 1 on, the shares of popular addresses depend on the number of addresses, and a twin has
        // fewer.
        let is_known = (0.001..=0.999).contains(&theta);
        let theta_milli = if is_known { (theta * 1000.0).round() as u32 } else { return Err(()) };
        Ok(Self::Zipf { theta_milli, scattered })
    }
}

/// Offered requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offered {
    /// Writes of all jobs.
    pub writes_s: u64,
    /// Reads of the first job, which issues the same number of writes.
    pub reads_s: u64,
}

impl Offered {
    /// Sum of writes and reads per second.
    pub fn requests_s(&self) -> u64 {
        self.writes_s + self.reads_s
    }
}

/// Figures of a real or simulated drive; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Requests completed per second by all jobs.
    pub completed_s: Option<f64>,
    /// Read latency at each of [`PERCENTILES`], in µs.
    pub read_us: [Option<f64>; 4],
    /// Write latency of the same job at each of [`PERCENTILES`], in µs.
    pub write_us: [Option<f64>; 4],
    /// Write amplification: pages programmed per page written by the host.
    pub waf: Option<f64>,
}

/// One row of a measurement file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Line of the file.
    pub line: u64,
    /// The load.
    pub load: Load,
    /// The observed figures.
    pub seen: Figures,
}

/// Measurements of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
    /// Rows in file order.
    pub rows: Vec<Measurement>,
}

/// Error in a measurement file. Lines are counted from 1, including the heading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
    /// The file is not valid CSV.
    #[error("{path}: {error}")]
    Csv {
        /// Path of the file.
        path: String,
        /// Cause.
        error: csv::Error,
    },
    /// A required column is missing.
    #[error("{path}: the column {column} is missing; needed are {needed}; leave unknown values empty")]
    Missing {
        /// Name of the file.
        path: String,
        /// Missing column.
        column: &'static str,
        /// All required columns.
        needed: String,
    },
    /// A column is unknown.
    #[error("{path}: no column is called \"{column}\"{nearest}; known are {known}")]
    Unknown {
        /// Name of the file.
        path: String,
        /// Unknown column.
        column: String,
        /// Nearest known name, with its description.
        nearest: String,
        /// All known columns.
        known: String,
    },
    /// A field has an invalid value.
    #[error("{path}, line {line}: {column} is \"{given}\"; give {allowed}")]
    Field {
        /// Name of the file.
        path: String,
        /// Number of the line.
        line: u64,
        /// Column of the field.
        column: &'static str,
        /// Given value.
        given: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// Fields contradict each other or those of another line.
    #[error("{path}, line {line}: {what}")]
    Nonsense {
        /// Name of the file.
        path: String,
        /// Number of the line.
        line: u64,
        /// Fault and remedy.
        what: String,
    },
    /// The file as a whole cannot be used.
    #[error("{path}: {what}")]
    Whole {
        /// Name of the file.
        path: String,
        /// Fault and remedy.
        what: String,
    },
}

impl Measurements {
    /// Reads the file at `path`, at most 1 MiB.
    pub fn read(path: &Path) -> Result<Self, MeasurementError> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
        read.map_err(|error| MeasurementError::File { path: name.clone(), error })?;
        let whole = |what: &str| MeasurementError::Whole { path: name.clone(), what: what.to_owned() };
        if bytes.len() as u64 > BYTES_MAX {
            return Err(whole("more than 1 MiB: a measurement file has one line for each rate"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| whole("not UTF-8 text: save it as comma-separated CSV in UTF-8"))?;
        Self::parse(&text, &name)
    }

    /// Parses `text`; errors name it `path`.
    pub fn parse(text: &str, path: &str) -> Result<Self, MeasurementError> {
        let measurements = csv_file::parse(text, path)?;
        sense::check(&measurements, path)?;
        Ok(measurements)
    }

    /// Saturation throughput for `addresses`, in requests per second; `None` if the drive keeps up in all
    /// rows.
    pub fn saturation_s(&self, addresses: Addresses) -> Option<f64> {
        let lagging = self.rows.iter().filter(|row| row.load.addresses == addresses && !row.keeps_up());
        lagging.filter_map(|row| row.seen.completed_s).reduce(f64::max)
    }

    /// True if the drive sustains the load of `row` with a margin.
    pub fn is_stable(&self, row: &Measurement) -> bool {
        let Some(offered) = row.load.offered else { return false };
        let offered = offered.requests_s() as f64;
        row.keeps_up() && self.saturation_s(row.load.addresses).is_none_or(|most| offered <= STABLE * most)
    }
}

impl Measurement {
    /// True if the drive completed the offered rate, or if its throughput is unknown.
    fn keeps_up(&self) -> bool {
        let offered = self.load.offered.map_or(0.0, |offered| offered.requests_s() as f64);
        self.seen.completed_s.is_none_or(|done| done >= KEEPS_UP * offered)
    }
}

impl Load {
    pub(crate) fn jobs(&self, used_bytes: u64) -> String {
        let Self { jobs, queue_depth, offered, .. } = *self;
        let mut text = format!("[workload]\nsize_bytes = {used_bytes}\nqueue_depth = {queue_depth}\n");
        if let Addresses::Zipf { theta_milli, scattered } = self.addresses {
            let theta = f64::from(theta_milli) / 1000.0;
            let _ = writeln!(text, "kind = \"zipf\"\ntheta = {theta:?}\nscatter = {scattered}");
        }
        let Some(Offered { writes_s, reads_s }) = offered else {
            let _ = writeln!(text, "[[jobs]]\nname = \"probe\"\nnumjobs = {jobs}");
            return text;
        };
        text += "rate_process = \"poisson\"\n";
        // The first job alternates reads and writes; the others share the remaining writes.
        let probe = (2 * reads_s).max(1);
        let _ = writeln!(text, "[[jobs]]\nname = \"probe\"\nwrite_fraction = 0.5\nrate_iops = {probe}");
        let others = writes_s.saturating_sub(reads_s);
        if jobs > 1 && others > 0 {
            let each = ((others + u64::from(jobs - 1) / 2) / u64::from(jobs - 1)).max(1);
            let _ = writeln!(text, "[[jobs]]\nname = \"load\"\nnumjobs = {}\nrate_iops = {each}", jobs - 1);
        }
        text
    }
}
