//! fio I/O logs, versions 2 and 3.

use strobe_types::Op;

use super::SkipReason;
use super::columns::{Columns, NS_PER_MICROSECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "fio",
    summary: "fio iolog version 2 or 3 (write_iolog); sync, datasync and syncfs are flushes",
    columns: "first line `fio version 3 iolog`; timestamp (us, version 3 only), file (device), action, offset (bytes), length (bytes)",
    source: "fio HOWTO, section Trace file format; the unit of the timestamp is in fio's iolog.c",
    takes_action: false,
    time_unit_ns: NS_PER_MICROSECOND,
    open: Open::One(|input, settings| {
        let mut log = Log { version: None, clock_ns: 0, unit_ns: settings.unit_ns };
        open_lines(input, move |line| log.parse_line(line))
    }),
};

/// Shortest wait that counts, by fio's documentation.
const WAIT_NS_MIN: u64 = 100_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

struct Log {
    version: Option<Version>,
    /// Clock of version 2, which has no timestamps. All requests between two `wait` lines have the same time;
    /// each `wait` of at least [`WAIT_NS_MIN`] adds to it.
    clock_ns: u64,
    unit_ns: u64,
}

impl Log {
    fn parse_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Reason> {
        let Some(version) = self.version else {
            self.version = Some(header(line)?);
            return Ok(Line::Nothing);
        };
        let mut columns = Columns::words(line);
        let time_ns = match version {
            Version::Two => self.clock_ns,
            Version::Three => columns.scaled("timestamp", self.unit_ns)?,
        };
        let device = columns.text("file")?.into();
        let op = match columns.text("action")? {
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Trim,
            "sync" | "datasync" | "syncfs" => Op::Flush,
            "sync_file_range" => return skip(columns, SkipReason::RangeSync),
            // Files created, queried or deleted by special engines of fio.
            "file_operation" => return skip(columns, SkipReason::FileEvent),
            "wait" => return self.wait(version, columns),
            "add" | "open" | "close" => {
                columns.end()?;
                return Ok(Line::Skip(SkipReason::FileEvent));
            }
            _ => {
                let known = "read, write, trim, sync, datasync, syncfs, sync_file_range, file_operation, add, open, close";
                return Err(format!("unknown action; the actions are {known}, in version 2 also wait"));
            }
        };
        let offset = columns.whole("offset")?;
        let bytes = columns.whole("length")?;
        columns.end()?;
        Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
    }

    /// Parses the rest of `file wait microseconds ignored`.
    fn wait<'a>(&mut self, version: Version, mut columns: Columns<'a>) -> Result<Line<'a>, Reason> {
        if version == Version::Three {
            return Err("version 3 has no wait: its times are in the first column".into());
        }
        let wait_ns = columns.scaled("wait time", self.unit_ns)?;
        columns.whole("length")?;
        columns.end()?;
        if wait_ns < WAIT_NS_MIN {
            return Ok(Line::Nothing);
        }
        self.clock_ns = self.clock_ns.checked_add(wait_ns).ok_or("the sum of all waits is too large")?;
        Ok(Line::Nothing)
    }
}

fn skip<'a>(mut columns: Columns<'a>, reason: SkipReason) -> Result<Line<'a>, Reason> {
    columns.whole("offset")?;
    columns.whole("length")?;
    columns.end()?;
    Ok(Line::Skip(reason))
}

fn header(line: &str) -> Result<Version, Reason> {
    match line {
        "fio version 2 iolog" => Ok(Version::Two),
        "fio version 3 iolog" => Ok(Version::Three),
        _ => Err("the first line must be `fio version 2 iolog` or `fio version 3 iolog`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, fails, read, records, records_of, shown};
    use super::super::{SkipReason, TraceOptions, from_reader};

    const V3: &str = "fio version 3 iolog\n0 f add\n1 f open\n25 f read 0 4096\n30 f write 4096 512\n\
                      31 f sync 77 0\n31 f datasync 0 0\n40 f trim 0 8192\n41 f read 0 0\n50 f close\n";

    #[test]
    fn version_3_has_microseconds_in_front() {
        let expected = [
            "0 read 0+4096",
            "5000 write 4096+512",
            "6000 flush 0+0",
            "6000 flush 0+0",
            "15000 trim 0+8192",
            "16000 read 0+0",
        ];
        assert_eq!(records("fio", V3), expected);
        assert_eq!(records("fio", &V3.replace('\n', "\r\n\n# comment\r\n")), expected);
    }

    #[test]
    fn version_2_advances_by_waits() {
        let text = "fio version 2 iolog\nf add\nf open\nf wait 900 0\nf read 0 4096\nf write 0 512\n\
                    f wait 300 0\nf wait 400 0\nf trim 0 8\nf close\n";
        assert_eq!(records("fio", text), ["0 read 0+4096", "0 write 0+512", "700000 trim 0+8"]);
    }

    // fio's HOWTO: "Everything below 100 is discarded."
    #[test]
    fn waits_below_100_us_are_discarded() {
        let log = |wait: u64| {
            format!(
                "fio version 2 iolog\nf write 0 4096\nf wait {wait} 0\nf wait {wait} 0\nf write 4096 4096\n"
            )
        };
        assert_eq!(records("fio", &log(99))[1], "0 write 4096+4096");
        assert_eq!(records("fio", &log(100))[1], "200000 write 4096+4096");
        let options = TraceOptions { time_unit_ns: Some(1), ..TraceOptions::default() };
        for (wait, expected) in [(99_999, "0 write 4096+4096"), (100_000, "200000 write 4096+4096")] {
            assert_eq!(shown(&read("fio", log(wait).as_bytes(), &options).0)[1], expected, "of {wait} ns");
        }
    }

    #[test]
    fn the_unit_of_the_timestamps_can_be_said() {
        let options = TraceOptions { time_unit_ns: Some(1_000_000), ..TraceOptions::default() };
        let (records, error) = read("fio", V3.as_bytes(), &options);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(shown(&records)[1], "5000000 write 4096+512");
    }

    #[test]
    fn what_fio_writes_is_read() {
        let text = "fio version 3 iolog\n0 f add\n1 f write 0 4096\n2 f syncfs 0 0\n3 f sync_file_range 0 4096\n\
                    4 f file_operation 0 0\n5 f datasync 0 0\n6 f close\n";
        let mut reader =
            from_reader(Box::new(text.as_bytes()), "t", "fio", &TraceOptions::default()).expect("ok");
        let taken: Vec<_> = reader.by_ref().map(|record| record.expect("good")).collect();
        assert_eq!(shown(&taken), ["0 write 0+4096", "1000 flush 0+0", "4000 flush 0+0"]);
        assert_eq!(reader.skipped().to_string(), "3 file events, 1 syncs of file ranges");
    }

    #[test]
    fn file_events_are_counted() {
        let mut reader =
            from_reader(Box::new(V3.as_bytes()), "t", "fio", &TraceOptions::default()).expect("ok");
        assert_eq!(reader.by_ref().count(), 6);
        assert_eq!(reader.skipped().get(SkipReason::FileEvent), 3);
        assert_eq!(reader.skipped().total(), 3);
    }

    #[test]
    fn a_file_is_a_device() {
        let text = "fio version 3 iolog\n0 g add\n1 f add\n2 f read 0 1\n3 g read 0 2\n1 f read 0 3\n";
        assert_eq!(records_of("fio", "g", text), ["0 read 0+2"]);
        assert_eq!(records_of("fio", "f", text), ["0 read 0+1", "<0 read 0+3"]);
        assert!(fails("fio", text).contains("line 5: a second device `g` after `f`"));
        let options = TraceOptions { device: Some("h".into()), ..TraceOptions::default() };
        let (records, error) = read("fio", text.as_bytes(), &options);
        assert!(records.is_empty());
        let message = error.expect("missing device").to_string();
        assert_eq!(message, "trace test has no device `h`, but `f`, `g`; correct `--device`");
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "fio",
            &[
                ("0 f read 0 4096", "the first line must be `fio version 2 iolog`"),
                ("fio version 1 iolog", "the first line must be"),
            ],
        );
        for (line, expected) in [
            ("1 f", "column action is missing"),
            ("1 f read 0", "column length is missing"),
            ("1 f read 0 1 2", "too many columns"),
            ("1 f add 0 0", "too many columns"),
            ("1.5 f read 0 1", "column timestamp must be a whole number"),
            ("-1 f read 0 1", "column timestamp must not be negative"),
            ("1 f read x 1", "column offset must be a whole number"),
            ("1 f read 0 99999999999999999999", "column length is too large"),
            ("1 f read 18446744073709551615 1", "the end of the request is too large"),
            ("1 f unlink 0 1", "unknown action; the actions are read"),
            ("1 f sync_file_range 0", "column length is missing"),
            ("1 f file_operation x 0", "column offset must be a whole number"),
            ("1 f READ 0 1", "unknown action"),
            ("1 f wait 0 1", "version 3 has no wait"),
        ] {
            let message = fails("fio", &format!("{V3}{line}"));
            assert!(message.starts_with("trace test, line 11: ") && message.contains(expected), "{message}");
        }
        let waits = "fio version 2 iolog\nf wait 18446744073709551 0\nf wait 18446744073709551 0\n";
        assert!(fails("fio", waits).contains("line 3: the sum of all waits is too large"));
    }
}
