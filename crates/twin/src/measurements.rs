//! Measurements of a drive: what was asked of it, and what it showed.

mod csv_file;
mod sense;

pub use csv_file::{COLUMNS, Column};

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The percentiles of a measurement: their names in CSV files, and in results.
pub const PERCENTILES: [(&str, &str); 4] =
    [("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000"), ("p9999", "99.990000")];

/// Share of saturation up to which a load counts as one that a drive carries: beyond it, what is measured depends on how
/// long it is measured.
const STABLE: f64 = 0.95;
/// Share of what is offered from which on a drive keeps up.
const KEEPS_UP: f64 = 0.98;
/// Bytes of a file at most: what is no file of measurements is not read to its end, which it may not have.
const BYTES_MAX: u64 = 1 << 20;

/// Requests of 4 KiB at random addresses of the part of the drive in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// Bytes of the drive in use.
    pub used_bytes: u64,
    /// Addresses of the requests in them.
    pub addresses: Addresses,
    /// Jobs that issue requests: the first one reads and writes in turn and is looked at, the others write.
    pub jobs: u32,
    /// Requests of a job that are outstanding at most.
    pub queue_depth: u32,
    /// Writes and reads per second, with exponential gaps; without them all jobs write as fast as they can.
    pub offered: Option<Offered>,
}

/// Distribution of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Addresses {
    /// All alike.
    #[default]
    Uniform,
    /// By Zipf's law: the k-th most popular one k^-θ times as often as the first.
    Zipf {
        /// θ, in thousandths: below 1, where a twin of fewer blocks has the same shares.
        theta_milli: u32,
        /// True if popular addresses are spread evenly; if not, they lie at the start, the most popular first.
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
        // From 1 on the shares of the popular ones depend on how many there are, and a twin has fewer.
        let is_known = (0.001..=0.999).contains(&theta);
        let theta_milli = if is_known { (theta * 1000.0).round() as u32 } else { return Err(()) };
        Ok(Self::Zipf { theta_milli, scattered })
    }
}

/// Requests offered a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offered {
    /// Writes of all jobs.
    pub writes_s: u64,
    /// Reads of the first job, which writes as much as it reads.
    pub reads_s: u64,
}

impl Offered {
    /// Both.
    pub fn requests_s(&self) -> u64 {
        self.writes_s + self.reads_s
    }
}

/// Figures of a drive or its twin; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Requests completed per second, of all jobs.
    pub completed_s: Option<f64>,
    /// Latency of reads at each of [`PERCENTILES`], in µs.
    pub read_us: [Option<f64>; 4],
    /// Latency of writes of the same job.
    pub write_us: [Option<f64>; 4],
    /// Pages programmed per page that the host wrote.
    pub waf: Option<f64>,
}

/// One row of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Line of the file that it is on.
    pub line: u64,
    /// The load.
    pub load: Load,
    /// The figures seen.
    pub seen: Figures,
}

/// Measurements of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Bytes that the drive offers.
    pub capacity_bytes: u64,
    /// One for each row, in their order.
    pub rows: Vec<Measurement>,
}

/// Why measurements cannot be used. Lines are counted from 1, the heading included.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is no CSV file.
    #[error("{path}: {error}")]
    Csv {
        /// Path of the file.
        path: String,
        /// Why.
        error: csv::Error,
    },
    /// A column is not there.
    #[error("{path}: the column {column} is missing; needed are {needed}, and what is not known stays empty")]
    Missing {
        /// Name of the file.
        path: String,
        /// The column.
        column: &'static str,
        /// All that must be there.
        needed: String,
    },
    /// A column is not known.
    #[error("{path}: no column is called \"{column}\"{nearest}; known are {known}")]
    Unknown {
        /// Name of the file.
        path: String,
        /// The column.
        column: String,
        /// Nearest known name.
        nearest: String,
        /// All that are known.
        known: String,
    },
    /// A field does not say what it should.
    #[error("{path}, line {line}: {column} is \"{given}\"; give {allowed}")]
    Field {
        /// Name of the file.
        path: String,
        /// Number of the line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The value given.
        given: String,
        /// The values allowed.
        allowed: &'static str,
    },
    /// Fields contradict each other, or those of another line.
    #[error("{path}, line {line}: {what}")]
    Nonsense {
        /// Name of the file.
        path: String,
        /// Number of the line.
        line: u64,
        /// The fault, and the cure.
        what: String,
    },
    /// The file as a whole cannot be used.
    #[error("{path}: {what}")]
    Whole {
        /// Name of the file.
        path: String,
        /// The fault, and the cure.
        what: String,
    },
}

impl Measurements {
    /// Reads the file at `path`, no more than 1 MiB of it.
    pub fn read(path: &Path) -> Result<Self, MeasurementError> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
        read.map_err(|error| MeasurementError::File { path: name.clone(), error })?;
        let whole = |what: &str| MeasurementError::Whole { path: name.clone(), what: what.to_owned() };
        if bytes.len() as u64 > BYTES_MAX {
            return Err(whole("more than 1 MiB: a file of measurements has a line for each rate"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| whole("no text in UTF-8: save it as CSV in this encoding, separated by commas"))?;
        Self::parse(&text, &name)
    }

    /// Parses `text`, which is called `path` in errors.
    pub fn parse(text: &str, path: &str) -> Result<Self, MeasurementError> {
        let measurements = csv_file::parse(text, path)?;
        sense::check(&measurements, path)?;
        Ok(measurements)
    }

    /// Requests per second to `addresses` that the drive completes when more are offered, if a row shows it.
    pub fn saturation_s(&self, addresses: Addresses) -> Option<f64> {
        let lagging = self.rows.iter().filter(|row| row.load.addresses == addresses && !row.keeps_up());
        lagging.filter_map(|row| row.seen.completed_s).reduce(f64::max)
    }

    /// True if the drive carries the load of `row` with something to spare.
    pub fn is_stable(&self, row: &Measurement) -> bool {
        let Some(offered) = row.load.offered else { return false };
        let offered = offered.requests_s() as f64;
        row.keeps_up() && self.saturation_s(row.load.addresses).is_none_or(|most| offered <= STABLE * most)
    }
}

impl Measurement {
    /// True if the drive completed what was offered, as far as is known.
    fn keeps_up(&self) -> bool {
        let offered = self.load.offered.map_or(0.0, |offered| offered.requests_s() as f64);
        self.seen.completed_s.is_none_or(|done| done >= KEEPS_UP * offered)
    }
}

impl Load {
    /// The jobs as an experiment has them, on a drive whose part in use has `used_bytes` bytes.
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
