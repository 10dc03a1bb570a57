//! MSR Cambridge traces.

use strobe_types::Op;

use super::columns::Columns;
use super::detail::Detail;
use super::device::Device;
use super::format::{Format, Open};
use super::line::{Line, open_csv};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV, block traces of enterprise servers",
    columns: "Timestamp (Windows FILETIME, 100 ns), Hostname, DiskNumber, Type (Read or Write), Offset (bytes), Size (bytes), ResponseTime (ignored)",
    source: "SNIA IOTTA repository, MSR Cambridge traces",
    takes_action: false,
    time_unit_ns: 100, // FILETIME
    open: Open::One(|input, settings| {
        open_csv(input, &NAMES, move |line| parse_line(line, settings.unit_ns))
    }),
};

const NAMES: [&str; 7] = ["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"];

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::csv(line);
    let time_ns = columns.scaled("Timestamp", unit_ns)?;
    let device = Device::Pair(columns.text("Hostname")?, columns.text("DiskNumber")?);
    let op = columns.op("Type", &[("Read", Op::Read), ("Write", Op::Write)])?;
    let offset = columns.whole("Offset")?;
    let bytes = columns.whole("Size")?;
    // The response time is unused. If it is missing, the line was cut off, perhaps within the size.
    columns.next().ok_or("column ResponseTime is missing")?;
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, fails, records, records_of};

    const SAMPLE: &str = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                          128166372016382155,hm,1,WRITE,310983680,4096,-1\r\n";

    #[test]
    fn filetime_counts_100_ns() {
        assert_eq!(records("msr", SAMPLE), ["0 read 383496192+32768", "1332052600 write 310983680+4096"]);
    }

    #[test]
    fn a_device_is_a_host_and_a_disk() {
        let text = SAMPLE.replace("hm,1,W", "hm,0,W");
        assert_eq!(records_of("msr", "hm.0", &text), ["0 write 310983680+4096"]);
        assert_eq!(records_of("msr", "all", &text).len(), 2);
        assert_eq!(
            fails("msr", &text),
            "trace test, line 2: a second device `hm.0` after `hm.1`; choose one with `--device hm.1`, \
             give each an offset with `--device hm.1@0 --device hm.0@100g`, or lay all over each other \
             with `--device all`: `128166372016382155,hm,0,WRITE,310983680,4096,-1`"
        );
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "msr",
            &[
                ("1,hm,1,Read,0,32768", "column ResponseTime is missing"),
                ("1,hm,1,Read,0", "column Size is missing"),
                ("1,hm,1,Read,0,1,2,3", "too many columns"),
                ("1,hm,1,Trim,0,1,2", "column Type must be Read (read) or Write (write)"),
                ("1,hm,1,Read,-1,1,2", "column Offset must not be negative"),
                ("1,hm,1,Read,18446744073709551616,1,2", "column Offset is too large"),
                ("1,hm,1,Read,18446744073709551615,1,2", "the end of the request is too large"),
                ("184467440737095517,hm,1,Read,0,1,2", "column Timestamp is too large"),
                ("1,hm,1,Read,0 1,1,2", "column Offset must be a whole number"),
            ],
        );
    }
}
