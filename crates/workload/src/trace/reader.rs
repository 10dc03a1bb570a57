use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use strobe_types::Op;

use super::csv;
use super::detail::Detail;
use super::device::{DeviceFilter, Overlap, Verdict};
use super::formats::find_format;
use super::guess::guess;
use super::input::Input;
use super::line::{Line, Source};
use super::problem::Problem;
use super::slice::{Part, Slice};
use super::{Action, Format, Position, SkipReason, Skipped, TraceError, TraceOptions};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Nanoseconds since the first kept record; 0 for records with an earlier time.
    pub time_ns: u64,
    /// True if an earlier record has a later time. `time_ns` is still this record's time.
    pub backwards: bool,
    /// Kind of request.
    pub op: Op,
    /// First byte on the device; 0 for a flush. `offset + bytes` does not overflow.
    pub offset: u64,
    /// Length in bytes; 0 for a flush or an empty request.
    pub bytes: u64,
    /// Further details.
    pub detail: Detail,
    /// Line number (text) or record number (binary), from 1.
    pub position: u64,
}

/// Opens the trace file at `path`, plain or gzip, in the given `format` of [`super::FORMATS`].
///
/// A trace with one file per CPU (`NAME.blktrace.0`, `.1`, ...) is merged, whether `path` is one of the files
/// or `NAME`.
pub fn open(path: &Path, format: &str, options: &TraceOptions) -> Result<TraceReader, TraceError> {
    let format = checked(format, options)?;
    let files = format.files(path);
    let input = Input::open(&files[0])?;
    let more = files[1..].iter().map(|file| Input::open(file)).collect::<Result<_, _>>()?;
    let source = format.decoder(input, more, options);
    Ok(TraceReader { files, ..TraceReader::new(path.display().to_string(), format, source, options) })
}

/// Checks a format's name and options without a trace.
pub fn check_options(format: &str, options: &TraceOptions) -> Result<(), TraceError> {
    checked(format, options).map(drop)
}

fn checked(name: &str, options: &TraceOptions) -> Result<&'static Format, TraceError> {
    let format = find_format(name)?;
    format.check(options)?;
    let Some(columns) = &options.columns else { return Ok(format) };
    let bad = |reason| TraceError::BadOption { option: "columns", reason };
    if format.name != csv::FORMAT.name {
        return Err(bad(format!("only format csv takes names of columns, {} has its own", format.name)));
    }
    csv::check_columns(columns).map_err(bad)?;
    Ok(format)
}

/// Default action of the trace at `path`: the first of [`Action::ALL`] that it contains.
///
/// `None` if the format has no actions, or if the trace has no requests or cannot be read twice.
pub fn recorded_action(path: &Path, format: &str, options: &TraceOptions) -> Option<Action> {
    let known = find_format(format).ok()?;
    if !known.takes_action || !known.files(path).iter().all(|file| file.is_file()) {
        return None;
    }
    // Without a record of this action the reader reaches the end, and its skipped counts tell the others.
    let options = TraceOptions { action: Some(Action::Issue), skip: None, take: None, ..options.clone() };
    let mut reader = open(path, format, &options).ok()?;
    match reader.next() {
        Some(Ok(_)) => Some(Action::Issue),
        Some(Err(_)) => None,
        None => Action::ALL.into_iter().find(|action| reader.skipped.get(action.skipped_as()) > 0),
    }
}

/// Reads a trace from any bytes, plain or gzip. Messages call the trace `name`.
pub fn from_reader(
    reader: Box<dyn Read + Send>,
    name: &str,
    format: &str,
    options: &TraceOptions,
) -> Result<TraceReader, TraceError> {
    let format = checked(format, options)?;
    let input = Input::new(reader, name)?;
    Ok(TraceReader::new(name.into(), format, format.decoder(input, Vec::new(), options), options))
}

/// Iterator over the records of a trace. After an error it returns `None`.
pub struct TraceReader {
    name: String,
    format: &'static Format,
    files: Vec<PathBuf>,
    source: Box<dyn Source>,
    devices: DeviceFilter,
    slice: Option<Slice>,
    skipped: Skipped,
    times_ns: Option<(u64, u64)>,
    ended: bool,
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceReader({} at {})", self.name, self.source.position())
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.step() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl std::iter::FusedIterator for TraceReader {}

impl TraceReader {
    fn new(name: String, format: &'static Format, source: Box<dyn Source>, options: &TraceOptions) -> Self {
        Self {
            name,
            format,
            files: Vec::new(),
            source,
            devices: DeviceFilter::new(options),
            slice: Slice::new(options.skip, options.take),
            skipped: Skipped::default(),
            times_ns: None,
            ended: false,
        }
    }

    /// Files read as one trace; empty if the trace is not read from files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Time of the first kept record on the trace's clock, in ns.
    pub fn first_time_ns(&self) -> Option<u64> {
        self.times_ns.map(|(first_ns, _)| first_ns)
    }

    /// Position of the last line or record.
    pub fn position(&self) -> Position {
        self.source.position()
    }

    /// Records skipped on purpose so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// False if the trace ended before [`TraceOptions::take`].
    pub fn has_whole_part(&self) -> bool {
        self.slice.as_ref().is_none_or(Slice::is_complete)
    }

    /// Two devices whose addresses overlap, if `all` were chosen and both have been read.
    pub fn overlapping(&self) -> Option<(String, String)> {
        let shown = |name: &str| super::error::printable(name.as_bytes());
        self.devices.overlapping().map(|(first, second)| (shown(first), shown(second)))
    }

    /// Pairs of placed devices whose requests so far share a part of the drive.
    pub fn overlaps(&self) -> Vec<Overlap> {
        self.devices.overlaps()
    }

    #[inline]
    fn step(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        let line = match self.source.next() {
            Ok(Some(line)) => line,
            Ok(None) => return self.end().map(|()| None),
            Err(problem) => return Err(self.located(problem)),
        };
        let (time_ns, op, offset, bytes, device, detail) = match line {
            Line::Record { time_ns, op, offset, bytes, device, detail } => {
                (time_ns, op, offset, bytes, device, detail)
            }
            Line::Nothing => return Ok(None),
            Line::Skip(reason) => {
                self.skipped.count(reason);
                return Ok(None);
            }
        };
        // Check the device first: records of other devices do not set the origin of time.
        let moved = match self.devices.judge(device) {
            Verdict::Keep(offset) => offset,
            Verdict::Skip => {
                self.skipped.count(SkipReason::OtherDevice);
                return Ok(None);
            }
            Verdict::Second { first, second } => return Err(self.second_device(&first, &second)),
        };
        // The range of a flush means nothing.
        let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (offset, bytes) };
        let end = |from: u64| from.checked_add(moved).and_then(|from| from.checked_add(bytes));
        if end(offset).is_none() {
            return Err(self.located(Problem::Malformed("the end of the request is too large".into())));
        }
        if let Detail::CopyTo(to) = detail
            && end(to).is_none()
        {
            return Err(self.located(Problem::Malformed("the end of the destination is too large".into())));
        }
        let offset = if op == Op::Flush { 0 } else { offset + moved };
        let detail = if let Detail::CopyTo(to) = detail { Detail::CopyTo(to + moved) } else { detail };
        match self.slice.as_mut().map(|slice| slice.place(time_ns, bytes, detail)) {
            None | Some(Part::Within) => {}
            Some(Part::Before) => {
                self.skipped.count(SkipReason::Before);
                return Ok(None);
            }
            Some(Part::After) => {
                self.ended = true;
                return Ok(None);
            }
        }
        self.devices.extend(offset, bytes);
        if let Detail::CopyTo(to) = detail {
            self.devices.extend(to, bytes);
        }
        // Times are relative to the first kept record; a decrease is reported, not corrected.
        let (first_ns, largest_ns) = self.times_ns.unwrap_or((time_ns, time_ns));
        self.times_ns = Some((first_ns, largest_ns.max(time_ns)));
        Ok(Some(TraceRecord {
            time_ns: time_ns.saturating_sub(first_ns),
            backwards: time_ns < largest_ns,
            op,
            offset,
            bytes,
            detail,
            position: self.source.position().number(),
        }))
    }

    fn end(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        match self.devices.missed() {
            None => Ok(()),
            Some((device, known)) if known.is_empty() => {
                Err(TraceError::NoDevices { name: self.name.clone(), device: device.into() })
            }
            Some((device, known)) => {
                Err(TraceError::NoSuchDevice { name: self.name.clone(), device: device.into(), known })
            }
        }
    }

    #[cold]
    fn second_device(&self, first: &str, second: &str) -> TraceError {
        TraceError::SeveralDevices {
            name: self.name.clone(),
            position: self.source.position(),
            first: super::error::printable(first.as_bytes()),
            second: super::error::printable(second.as_bytes()),
            text: self.source.text(),
        }
    }

    #[cold]
    fn located(&self, problem: Problem) -> TraceError {
        let (name, position) = match self.source.place() {
            Some((name, position)) => (name.to_owned(), position),
            None => (self.name.clone(), self.source.position()),
        };
        match problem {
            Problem::Io(source) => TraceError::Io { name, position, source },
            Problem::Truncated(reason) => TraceError::Truncated { name, position, reason },
            Problem::Malformed(reason) => {
                let reason = format!("{reason}{}", self.other_format());
                TraceError::Malformed { name, position, reason, text: self.source.text() }
            }
        }
    }

    fn other_format(&self) -> String {
        // Suggest another format only if the first record fails; later errors are errors of a line.
        let is_new = self.times_ns.is_none() && self.skipped.total() == 0;
        let Some(file) = self.files.first().filter(|file| is_new && file.is_file()) else {
            return String::new();
        };
        match guess(file).unwrap_or_default()[..] {
            [other] if other.name != self.format.name => {
                format!("; this looks like format {0}: `--format {0}`", other.name)
            }
            _ => String::new(),
        }
    }
}
