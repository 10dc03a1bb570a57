//! Columns and parser of measurement files.

use super::{Addresses, Figures, Load, Measurement, MeasurementError, Measurements, Offered};
use strobe_ssd::schema::nearest;

/// A column of a measurement file.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// True if the column is required.
    pub needed: bool,
    /// Description of the content.
    pub what: &'static str,
}

const fn needed(name: &'static str, what: &'static str) -> Column {
    Column { name, needed: true, what }
}

const fn optional(name: &'static str, what: &'static str) -> Column {
    Column { name, needed: false, what }
}

/// All columns. Unknown values of a row stay empty.
pub const COLUMNS: &[Column] = &[
    needed("capacity_bytes", "capacity of the drive in bytes, the same in all rows"),
    optional("used_bytes", "bytes in use, from the start of the drive; empty: all"),
    optional(
        "addresses",
        "address distribution: uniform (or empty), zipf:THETA (popular addresses spread) or zipf-in-order:THETA (at the start)",
    ),
    optional("jobs", "jobs that issue requests, including the measured one; empty: 7"),
    optional("queue_depth", "queue depth of each job; empty: 64"),
    needed(
        "offered_writes_s",
        "writes per second that all jobs offer; empty: jobs only write, as fast as they can",
    ),
    needed("offered_reads_s", "reads per second that the measured job offers"),
    optional("completed_s", "requests completed per second, of all jobs"),
    needed("read_p50_us", "latency of reads in µs, median"),
    needed("read_p99_us", "99th percentile in µs"),
    optional("read_p999_us", "99.9th in µs"),
    optional("read_p9999_us", "99.99th in µs"),
    optional("write_p50_us", "latency of writes of the same job in µs, median"),
    optional("write_p99_us", "99th percentile in µs"),
    optional("write_p999_us", "99.9th in µs"),
    optional("write_p9999_us", "99.99th in µs"),
    optional("waf", "bytes programmed on flash per byte written by the host, as the drive counts them"),
];

/// Largest number of rows; each is simulated many times.
const ROWS_MAX: usize = 1000;
/// Largest integer up to which floating point, the notation of some programs, is exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

struct Row<'a> {
    path: &'a str,
    line: u64,
    fields: &'a csv::StringRecord,
    places: &'a [Option<usize>],
}

impl Row<'_> {
    fn text(&self, name: &'static str) -> &str {
        let at = COLUMNS.iter().position(|column| column.name == name);
        let place = at.and_then(|at| self.places[at]);
        place.and_then(|place| self.fields.get(place)).unwrap_or("").trim()
    }

    fn wrong(&self, column: &'static str, allowed: &'static str) -> MeasurementError {
        let given = self.text(column).to_owned();
        MeasurementError::Field { path: self.path.to_owned(), line: self.line, column, given, allowed }
    }

    fn whole(
        &self,
        column: &'static str,
        range: std::ops::RangeInclusive<u64>,
        allowed: &'static str,
    ) -> Result<Option<u64>, MeasurementError> {
        match self.text(column) {
            "" => Ok(None),
            text => match whole(&text.replace('_', "")) {
                Some(number) if range.contains(&number) => Ok(Some(number)),
                _ => Err(self.wrong(column, allowed)),
            },
        }
    }

    /// Number from 1e-6 to 1e12; `None` if the field is empty.
    fn number(&self, column: &'static str) -> Result<Option<f64>, MeasurementError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) if (1e-6..=1e12).contains(&number) => Ok(Some(number)),
                _ => Err(self.wrong(column, "a number above 0 without a unit, or nothing if unknown")),
            },
        }
    }

    fn measurement(&self) -> Result<(u64, Measurement), MeasurementError> {
        let bytes = "whole bytes, a multiple of 4096";
        let is_bytes = |number: &u64| number.is_multiple_of(4096);
        let size = |column| {
            let given = self.whole(column, 4096..=1 << 50, bytes)?;
            if given.is_none_or(|number| is_bytes(&number)) {
                Ok(given)
            } else {
                Err(self.wrong(column, bytes))
            }
        };
        let capacity_bytes = size("capacity_bytes")?.ok_or_else(|| self.wrong("capacity_bytes", bytes))?;
        let used_bytes = size("used_bytes")?.unwrap_or(capacity_bytes);
        let rate = |column| {
            self.whole(column, 0..=1_000_000_000, "requests per second, a whole number up to 1,000,000,000")
        };
        let both = "a number like the other rate, 0 for none; leave both empty if jobs write at full speed";
        // Both rates or none: a single rate would be neither an open nor a closed loop.
        let offered = match (rate("offered_writes_s")?, rate("offered_reads_s")?) {
            (None, None) => None,
            (Some(writes_s), Some(reads_s)) => Some(Offered { writes_s, reads_s }),
            (None, Some(_)) => return Err(self.wrong("offered_writes_s", both)),
            (Some(_), None) => return Err(self.wrong("offered_reads_s", both)),
        };
        let addresses = match self.text("addresses") {
            "" => Addresses::Uniform,
            text => text.parse().map_err(|()| {
                self.wrong(
                    "addresses",
                    "uniform, zipf:THETA or zipf-in-order:THETA, with a THETA of 0.001 to 0.999",
                )
            })?,
        };
        let load = Load {
            used_bytes,
            addresses,
            jobs: self.whole("jobs", 1..=256, "1 to 256")?.unwrap_or(7) as u32,
            queue_depth: self.whole("queue_depth", 1..=65_536, "1 to 65,536")?.unwrap_or(64) as u32,
            offered,
        };
        let seen = Figures {
            completed_s: self.number("completed_s")?,
            read_us: [
                self.number("read_p50_us")?,
                self.number("read_p99_us")?,
                self.number("read_p999_us")?,
                self.number("read_p9999_us")?,
            ],
            write_us: [
                self.number("write_p50_us")?,
                self.number("write_p99_us")?,
                self.number("write_p999_us")?,
                self.number("write_p9999_us")?,
            ],
            waf: self.number("waf")?,
        };
        Ok((capacity_bytes, Measurement { line: self.line, load, seen }))
    }
}

/// Parses an integer, including forms such as "1920383410176.0" and "1e5".
fn whole(text: &str) -> Option<u64> {
    let exact = |number: &f64| (0.0..=EXACT_MAX).contains(number) && number.fract() == 0.0;
    text.parse().ok().or_else(|| text.parse::<f64>().ok().filter(exact).map(|number| number as u64))
}

pub(super) fn parse(text: &str, path: &str) -> Result<Measurements, MeasurementError> {
    let wrong = |error| MeasurementError::Csv { path: path.to_owned(), error };
    let nonsense = |line, what| MeasurementError::Nonsense { path: path.to_owned(), line, what };
    let whole = |what| MeasurementError::Whole { path: path.to_owned(), what };
    // Normalise line ends to number lines as an editor does.
    let text = text.replace("\r\n", "\n").replace('\r', "\n") + "\n";
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let heading = reader.headers().map_err(wrong)?.clone();
    let places = places(&heading, path)?;
    let mut measurements = Measurements { capacity_bytes: 0, rows: Vec::new() };
    let mut fields = csv::StringRecord::new();
    while reader.read_record(&mut fields).map_err(wrong)? {
        // The start position of a record includes the comments before it, so take the line of its end.
        let line = reader.position().line() - 1;
        if fields.len() != heading.len() {
            let (fields, columns) = (fields.len(), heading.len());
            return Err(nonsense(
                line,
                format!(
                    "{fields} fields, but the heading has {columns} columns: leave unknown values empty, and write \
                     numbers with a decimal point and without separators"
                ),
            ));
        }
        let (capacity, row) = Row { path, line, fields: &fields, places: &places }.measurement()?;
        if measurements.rows.is_empty() {
            measurements.capacity_bytes = capacity;
        } else if capacity != measurements.capacity_bytes {
            let first = measurements.capacity_bytes;
            return Err(nonsense(
                line,
                format!(
                    "capacity_bytes is {capacity}, but {first} in earlier rows: use one file for each drive"
                ),
            ));
        }
        if measurements.rows.len() == ROWS_MAX {
            return Err(whole(format!("more than {ROWS_MAX} rows: one for each rate is enough")));
        }
        measurements.rows.push(row);
    }
    if measurements.rows.is_empty() {
        return Err(whole("there are no rows: give one for each rate that was measured".into()));
    }
    Ok(measurements)
}

fn places(heading: &csv::StringRecord, path: &str) -> Result<Vec<Option<usize>>, MeasurementError> {
    let whole = |what: String| MeasurementError::Whole { path: path.to_owned(), what };
    // A wrong separator leaves one column: name that fault, not an unknown column.
    match heading.get(0) {
        None | Some("") if heading.len() < 2 => {
            return Err(whole("empty: the first line names the columns, every other line is a row".into()));
        }
        Some(name) if heading.len() == 1 && name.contains([';', '\t']) => {
            return Err(whole(
                "columns are separated by semicolons or tabs: separate them by commas, and write numbers with a decimal point"
                    .into(),
            ));
        }
        _ => {}
    }
    let mut places = vec![None; COLUMNS.len()];
    for (place, name) in heading.iter().enumerate() {
        let Some(at) = COLUMNS.iter().position(|column| column.name == name) else {
            return Err(unknown(name, path));
        };
        if places[at].replace(place).is_some() {
            return Err(whole(format!("the column {name} appears twice; remove one")));
        }
    }
    let is_missing = |(column, at): &(&Column, &Option<usize>)| column.needed && at.is_none();
    if let Some((column, _)) = COLUMNS.iter().zip(&places).find(is_missing) {
        let needed: Vec<&str> =
            COLUMNS.iter().filter(|column| column.needed).map(|column| column.name).collect();
        let (path, needed) = (path.to_owned(), needed.join(", "));
        return Err(MeasurementError::Missing { path, column: column.name, needed });
    }
    Ok(places)
}

fn unknown(name: &str, path: &str) -> MeasurementError {
    let names = || COLUMNS.iter().map(|column| column.name);
    let near = nearest(name, names()).and_then(|near| COLUMNS.iter().find(|column| column.name == near));
    MeasurementError::Unknown {
        path: path.to_owned(),
        column: name.to_owned(),
        nearest: near
            .map_or_else(String::new, |near| format!(", did you mean {} ({})?", near.name, near.what)),
        known: names().collect::<Vec<_>>().join(", "),
    }
}
