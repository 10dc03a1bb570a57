//! Alibaba cloud block traces of 2020.

use strobe_types::Op;

use super::columns::{Columns, NS_PER_MICROSECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_csv};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    summary: "Alibaba cloud block traces (2020), many virtual disks in one file",
    columns: "device_id, opcode (R or W), offset (bytes), length (bytes), timestamp (us since 1970)",
    source: "github.com/alibaba/block-traces (CC-BY 4.0)",
    takes_action: false,
    time_unit_ns: NS_PER_MICROSECOND,
    open: Open::One(|input, settings| {
        open_csv(input, &NAMES, move |line| parse_line(line, settings.unit_ns))
    }),
};

const NAMES: [&str; 5] = ["device_id", "opcode", "offset", "length", "timestamp"];

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::csv(line);
    let device = columns.text("device_id")?.into();
    let op = columns.op("opcode", &[("R", Op::Read), ("W", Op::Write)])?;
    let offset = columns.whole("offset")?;
    let bytes = columns.whole("length")?;
    let time_ns = columns.scaled("timestamp", unit_ns)?;
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, fails, records, records_of};

    const TEXT: &str = "419,W,8792731648,16384,1577808144360767\n419,R,4096,512,1577808144360769\n";

    #[test]
    fn times_are_microseconds_and_addresses_bytes() {
        assert_eq!(records("alibaba", TEXT), ["0 write 8792731648+16384", "2000 read 4096+512"]);
    }

    #[test]
    fn one_device_is_chosen_by_its_number() {
        let text = format!("{TEXT}725,R,0,512,1577808144360770\n");
        assert_eq!(records_of("alibaba", "725", &text), ["0 read 0+512"]);
        assert!(fails("alibaba", &text).contains("line 3: a second device `725` after `419`"));
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "alibaba",
            &[
                ("419,W,8792731648,16384", "column timestamp is missing"),
                ("419,W,8792731648,16384,1,", "too many columns"),
                ("419,Write,0,16384,1", "column opcode must be R (read) or W (write)"),
                ("419,W,0,-1,1", "column length must not be negative"),
                ("419,W,0,1,18446744073709552", "column timestamp is too large"),
                ("419,W,18446744073709551615,1,1", "the end of the request is too large"),
            ],
        );
    }
}
