//! SYSTOR '17 traces of virtual desktops.

use strobe_types::Op;

use super::SkipReason;
use super::columns::{Columns, NS_PER_SECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_csv};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "systor",
    summary: "SYSTOR '17 CSV, block traces of virtual desktops (Fujitsu)",
    columns: "Timestamp (s since 1970), Response (s, ignored), IOType (R or W; without one the record is left out), LUN (device), Offset (bytes), Size (bytes); the header of the file may be there",
    source: "SNIA IOTTA repository, trace 4928, README.txt of the distribution",
    takes_action: false,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        open_csv(input, &NAMES, move |line| parse_line(line, settings.unit_ns))
    }),
};

const NAMES: [&str; 6] = ["Timestamp", "Response", "IOType", "LUN", "Offset", "Size"];

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::csv(line);
    let time_ns = columns.decimal("Timestamp", unit_ns)?;
    columns.next().ok_or("column Response is missing")?;
    let op = match columns.next() {
        // README of the traces: "The blank indicates that there was no response message."
        Some("") => None,
        Some("R" | "r") => Some(Op::Read),
        Some("W" | "w") => Some(Op::Write),
        Some(_) => return Err("column IOType must be R (read), W (write) or empty".into()),
        None => return Err("column IOType is missing".into()),
    };
    let device = columns.text("LUN")?.into();
    let offset = columns.whole("Offset")?;
    let bytes = columns.whole("Size")?;
    columns.end()?;
    Ok(match op {
        Some(op) => Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain },
        None => Line::Skip(SkipReason::UnknownOperation),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, fails, records, records_of};
    use super::super::{SkipReason, TraceOptions, from_reader};

    const SAMPLE: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                          1456095145.133076000,0.000806000,R,0,899056122368,131072\n\
                          1456095145.133080000,0.000206000,W,0,4096,512\r\n\
                          1456095145.140000000,,,0,8192,4096\n\
                          1456095146.133076000,0.000000000,w,0,0,0\n";

    // Expected values from `awk -F, '$3 != "" {n++; bytes += $6; last = $1}'`.
    #[test]
    fn times_are_in_seconds_and_offsets_in_bytes() {
        let expected = ["0 read 899056122368+131072", "4000 write 4096+512", "1000000000 write 0+0"];
        assert_eq!(records("systor", SAMPLE), expected);
    }

    #[test]
    fn requests_of_unknown_operation_are_counted() {
        let mut reader =
            from_reader(Box::new(SAMPLE.as_bytes()), "t", "systor", &TraceOptions::default()).expect("opens");
        assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 3);
        assert_eq!(reader.skipped().get(SkipReason::UnknownOperation), 1);
        assert_eq!(reader.skipped().get(SkipReason::Header), 1);
        assert_eq!(reader.skipped().total(), 2);
    }

    #[test]
    fn a_lun_is_a_device() {
        let text = "1.5,0.1,R,0,0,512\n2.5,0.1,W,6,512,512\n";
        assert_eq!(records_of("systor", "6", text), ["0 write 512+512"]);
        assert!(fails("systor", text).contains("line 2: a second device `6` after `0`"));
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "systor",
            &[
                ("Timestamp,Response,IOType,LUN,Size,Offset", "column Timestamp must be a decimal number"),
                ("1.5", "column Response is missing"),
                ("1.5,0.1", "column IOType is missing"),
                ("1.5,0.1,X,0,0,512", "column IOType must be R (read), W (write) or empty"),
                ("1.5,0.1,R,,0,512", "column LUN is missing"),
                ("1.5,0.1,,0,0", "column Size is missing"),
                ("1.5,0.1,R,0,0,512,1", "too many columns"),
                ("-1.5,0.1,R,0,0,512", "column Timestamp must not be negative"),
                ("1.5,0.1,R,0,-1,512", "column Offset must not be negative"),
                ("1.5,0.1,R,0,18446744073709551616,1", "column Offset is too large"),
                ("1.5,0.1,R,0,18446744073709551615,1", "the end of the request is too large"),
                ("99999999999,0.1,R,0,0,512", "column Timestamp is too large"),
            ],
        );
    }
}
