//! MQSim traces.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::Columns;
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim ASCII; here 0 is a write and 1 a read",
    columns: "time (ns), device, LSN (512 B), sectors (512 B), type (0 = write, 1 = read)",
    source: "github.com/CMU-SAFARI/MQSim, trace-based workload definition",
    takes_action: false,
    time_unit_ns: 1,
    open: Open::One(|input, settings| open_lines(input, move |line| parse_line(line, settings.unit_ns))),
};

pub(super) fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::words(line);
    let time_ns = columns.scaled("time", unit_ns)?;
    let device = columns.text("device")?.into();
    let offset = columns.scaled("LSN", SECTOR_BYTES)?;
    let bytes = columns.scaled("sectors", SECTOR_BYTES)?;
    let op = columns.op("type", &[("0", Op::Write), ("1", Op::Read)])?;
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, read, records, shown};
    use super::super::{TraceError, TraceOptions};

    const TEXT: &str = "48513000 0 10 8 0\n48514000 0 0 1 1\n";

    #[test]
    fn zero_is_a_write_and_one_a_read() {
        assert_eq!(records("mqsim", TEXT), ["0 write 5120+4096", "1000 read 0+512"]);
    }

    #[test]
    fn the_time_unit_is_an_option() {
        let options = TraceOptions { time_unit_ns: Some(1000), ..TraceOptions::default() };
        let (records, error) = read("mqsim", TEXT.as_bytes(), &options);
        assert!(error.is_none());
        assert_eq!(shown(&records), ["0 write 5120+4096", "1000000 read 0+512"]);
        let zero = TraceOptions { time_unit_ns: Some(0), ..TraceOptions::default() };
        assert!(matches!(read("mqsim", b"", &zero).1, Some(TraceError::BadOption { .. })));
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "mqsim",
            &[
                ("1 0 10 8", "column type is missing"),
                ("1 0 10 8 1 1", "too many columns"),
                ("1.5 0 10 8 1", "column time must be a whole number"),
                ("-1 0 10 8 1", "column time must not be negative"),
                ("1 0 10 8 2", "column type must be 0 (write) or 1 (read)"),
                ("1 0 10 36028797018963968 1", "column sectors is too large"),
                ("18446744073709551616 0 10 8 1", "column time is too large"),
            ],
        );
    }
}
