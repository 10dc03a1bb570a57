//! The columns of a file of measurements.

use super::{Addresses, Figures, Load, Measurement, MeasurementError, Measurements, Offered};
use strobe_ssd::schema::nearest;

/// A column of a file.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// True if it must be there.
    pub needed: bool,
    /// Its content.
    pub what: &'static str,
}

const fn needed(name: &'static str, what: &'static str) -> Column {
    Column { name, needed: true, what }
}

const fn optional(name: &'static str, what: &'static str) -> Column {
    Column { name, needed: false, what }
}

/// All columns. What is not known of a row stays empty.
pub const COLUMNS: &[Column] = &[
    needed("capacity_bytes", "bytes that the drive offers, the same in all rows"),
    optional("used_bytes", "bytes of it in use, from its start; empty: all of it"),
    optional(
        "addresses",
        "where requests go: uniform (or empty), zipf:THETA, its popular addresses spread, or zipf-in-order:THETA, at the start",
    ),
    optional("jobs", "jobs that issue requests, the one that is looked at included; empty: 7"),
    optional("queue_depth", "requests of a job that are outstanding at most; empty: 64"),
    needed(
        "offered_writes_s",
        "writes that all jobs offer in a second; empty: jobs only write, as fast as they can",
    ),
    needed("offered_reads_s", "reads that the job that is looked at offers in a second"),
    optional("completed_s", "requests completed in a second, of all jobs"),
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

/// Rows at most: each is simulated many times.
const ROWS_MAX: usize = 1000;
/// Whole numbers up to this are exact as floating-point numbers, in which some programs write them.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The row at hand.
struct Row<'a> {
    path: &'a str,
    line: u64,
    fields: &'a csv::StringRecord,
    /// Place of each of [`COLUMNS`], if it is there.
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

    /// A whole number in `range`, if there is one.
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

    /// A number above 0, and not beyond all measure, if there is one.
    fn number(&self, column: &'static str) -> Result<Option<f64>, MeasurementError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) if (1e-6..=1e12).contains(&number) => Ok(Some(number)),
                _ => {
                    Err(self.wrong(column, "a number above 0 without a unit, or nothing if it is not known"))
                }
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
        let both = "a number as the other rate, 0 if there are none; both are empty where jobs write as fast as they can";
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

/// `text` as a whole number, if it is one, be it "1920383410176.0" or "1e5".
fn whole(text: &str) -> Option<u64> {
    let exact = |number: &f64| (0.0..=EXACT_MAX).contains(number) && number.fract() == 0.0;
    text.parse().ok().or_else(|| text.parse::<f64>().ok().filter(exact).map(|number| number as u64))
}

pub(super) fn parse(text: &str, path: &str) -> Result<Measurements, MeasurementError> {
    let wrong = |error| MeasurementError::Csv { path: path.to_owned(), error };
    let nonsense = |line, what| MeasurementError::Nonsense { path: path.to_owned(), line, what };
    let whole = |what| MeasurementError::Whole { path: path.to_owned(), what };
    // Every line has the same end, so that lines are numbered as an editor does it.
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
        // Where a record begins is where comments before it do; where it ends is clear.
        let line = reader.position().line() - 1;
        if fields.len() != heading.len() {
            let (fields, columns) = (fields.len(), heading.len());
            return Err(nonsense(
                line,
                format!(
                    "{fields} fields, but the heading has {columns} columns: leave empty what is not known, and write \
                     numbers with a point and without separators"
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
                    "capacity_bytes is {capacity}, in the rows before {first}: a file is about one drive; give each its own"
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

/// Place of each of [`COLUMNS`] in `heading`.
fn places(heading: &csv::StringRecord, path: &str) -> Result<Vec<Option<usize>>, MeasurementError> {
    let whole = |what: String| MeasurementError::Whole { path: path.to_owned(), what };
    match heading.get(0) {
        None | Some("") if heading.len() < 2 => {
            return Err(whole("empty: the first line names the columns, each other one is a row".into()));
        }
        Some(name) if heading.len() == 1 && name.contains([';', '\t']) => {
            return Err(whole(
                "columns are separated by semicolons or tabs: separate them by commas, and write numbers with a point"
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
            return Err(whole(format!("the column {name} is there twice; leave one out")));
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

/// No column is called `name`. The nearest that there is comes with what it holds: it may have another unit.
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
